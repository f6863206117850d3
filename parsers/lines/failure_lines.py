"""Failures without an exception class, and what a failure ended (`formats/failure-lines.toml`)."""

from __future__ import annotations

import functools
import pkgutil
import re
import tomllib
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from flowdiag.parsers.errors import FlowdiagError

_TEXT: Final = 2048  # searched characters of one line
_LINES: Final = 400  # searched lines of one failure


class FailureLine(NamedTuple):
    """A kind of line that announces a failure; the head of the data file explains the fields."""

    name: str
    engine: str | None
    weak: bool
    patterns: tuple[re.Pattern[str], ...]
    sample: str


class _Ending(NamedTuple):
    ended: str
    text: re.Pattern[str]


@functools.cache
def failure_lines() -> tuple[FailureLine, ...]:
    """Return the kinds of lines, in the order of the data file."""
    return tuple(
        FailureLine(
            name=entry["name"],
            engine=entry.get("engine"),
            weak=entry.get("weak", False),
            patterns=tuple(re.compile(pattern) for pattern in entry["patterns"]),
            sample=entry["sample"],
        )
        for entry in _data()["line"]
    )


def failure_line(text: str, *, weak: bool = False) -> FailureLine | None:
    """Return the kind of line that announces a failure.

    Args:
        text: without header.
        weak: whether vague wordings count, too.

    >>> failure_line("Task did not exit gracefully within 180 + seconds.").name
    'task-not-cancelled'
    >>> failure_line("Container exited with a non-zero exit code 0") is None
    True
    """
    text = text[:_TEXT].strip()
    for line in failure_lines():
        if line.weak <= weak and any(pattern.search(text) for pattern in line.patterns):
            return line
    return None


def ended_by(texts: Iterable[str]) -> str | None:
    """Return what a failure ended: query, application, job, batch, process or task; None if no text shows it.

    Args:
        texts: the record above the failure, its exceptions, its stack trace.

    >>> ended_by(["Job aborted due to stage failure: Task 4 in stage 30.0 failed 4 times"])
    'batch'
    """
    text = "\n".join([line[:_TEXT] for line in texts][:_LINES])
    return next((ending.ended for ending in _endings() if ending.text.search(text)), None)


def is_routine(texts: Iterable[str]) -> bool:
    """Return whether a failure is one of those that every stop of a healthy job logs.

    >>> is_routine(["RECEIVED SIGNAL TERM"]), is_routine(["java.lang.IllegalStateException: no price"])
    (True, False)
    """
    return any(_routine().search(text[:_TEXT]) for text in texts)


@functools.cache
def _routine() -> re.Pattern[str]:
    return re.compile("|".join(_data()["routine"]))


@functools.cache
def _endings() -> tuple[_Ending, ...]:
    return tuple(
        _Ending(entry["ended"], re.compile("|".join(entry["texts"]), re.MULTILINE))
        for entry in _data()["ending"]
    )


@functools.cache
def _data() -> dict[str, Any]:
    name = "formats/failure-lines.toml"
    data = pkgutil.get_data("flowdiag.parsers", name)
    if data is None:
        raise FlowdiagError(
            f"the data file {name} is missing from the installation", hint="reinstall flowdiag"
        )
    return tomllib.loads(data.decode())
