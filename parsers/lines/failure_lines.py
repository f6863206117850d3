"""Recognizes failures without an exception class, and what a failure ended (`formats/failure-lines.toml`)."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from flowdiag.parsers.formats import read_format
from flowdiag.parsers.lines.traces import is_exception_line

KNOWN_RECORD: Final = "known-record"
"""Template for failures that repeat a record with a known message. They count only if no rule reports that record."""
_TEXT: Final = 2048  # maximum characters searched in one line
_LINES: Final = 400  # maximum lines searched for one failure


class FailureLine(NamedTuple):
    """A kind of line that reports a failure; the header of the data file explains the fields."""

    name: str
    engine: str | None
    weak: bool
    ends: bool
    begins: bool
    patterns: tuple[re.Pattern[str], ...]
    sample: str


class _Ending(NamedTuple):
    ended: str
    text: re.Pattern[str]


@functools.cache
def failure_lines() -> tuple[FailureLine, ...]:
    """Return the kinds of lines in the order of the data file."""
    return tuple(
        FailureLine(
            name=entry["name"],
            engine=entry.get("engine"),
            weak=entry.get("weak", False),
            ends=entry.get("ends", False),
            begins=entry.get("begins", False),
            patterns=tuple(re.compile(pattern) for pattern in entry["patterns"]),
            sample=entry["sample"],
        )
        for entry in _data()["line"]
    )


def failure_line(text: str, *, weak: bool = False) -> FailureLine | None:
    """Return the kind of failure that a line reports, or None if it reports none.

    Args:
        text: the line without its header.
        weak: whether vague wordings count as well.

    >>> failure_line("Task did not exit gracefully within 180 + seconds.").name
    'task-not-cancelled'
    >>> failure_line("Unable to load native-hadoop library for your platform", weak=True) is None
    True
    >>> failure_line("Container exited with a non-zero exit code 0") is None
    True
    >>> failure_line("Unable to find 'mime.types' file in classpath", weak=True) is None
    True
    """
    text = text[:_TEXT].strip()
    weak = weak and not is_fallback(text)
    for line in failure_lines():
        if line.weak <= weak:
            for pattern in line.patterns:
                if pattern.search(text):
                    return None if is_harmless(text) else line
    return None


def server_message(text: str) -> str:
    """Return the message of a server in a sentence, without the words before it. Return other text unchanged.

    >>> server_message("the sink stops at E11000 duplicate key error collection: shop.orders")
    'E11000 duplicate key error collection: shop.orders'
    """
    for line in failure_lines():
        if line.begins:
            for pattern in line.patterns:
                if (found := pattern.search(text[:_TEXT])) is not None:
                    return text[found.start() :]
    return text


def is_harmless(text: str) -> bool:
    """Return whether a line is a warning of healthy processes.

    >>> is_harmless('Failed to load class "org.slf4j.impl.StaticLoggerBinder".')
    True
    """
    return _pattern_of("harmless").search(text[:_TEXT]) is not None


def is_fallback(text: str) -> bool:
    """Return whether a line reports that an optional part is missing, or that the program continues without something.

    >>> is_fallback("Failed to find a usable hardware address; using random bytes: d5:ae")
    True
    """
    return _pattern_of("fallback").search(text[:_TEXT]) is not None


def is_harmless_record(logger: str | None, message: str, below: Iterable[str] = ()) -> bool:
    """Return whether healthy processes log this record, whatever its level.

    Args:
        logger: its logger.
        message: its text.
        below: the exceptions below it. Some records are only harmless if all of them are routine.

    >>> is_harmless_record("org.apache.curator.ConnectionState", "Authentication failed")
    True
    """
    name = (logger or "").rpartition(".")[2]
    if not name:
        return False
    record, found = f"{name}: {message[:_TEXT]}", [*below]
    trace = any(is_exception_line(text) and not is_routine((text,)) for text in found)
    return _benign(trace).match(record) is not None or any(
        re.match(_pattern_of_record(entry), record)
        and all(re.search(entry["below"], text[:_TEXT]) for text in found)
        for entry in _data()["benign"]
        if "below" in entry
    )


def benign_samples(trace: bool = False) -> list[str]:
    """Return a sample of each record that healthy processes log; with `trace`, also above an exception."""
    return [
        entry["sample"] for entry in _data()["benign"] if not (trace and _depends_on_trace(entry))
    ]


def is_overcome(text: str, after: bytes, *, grave: bool = False) -> bool:
    """Return whether the process overcame a failure, because a later record shows the success of the same step.

    Args:
        text: the record of the failure.
        after: the text below its first line, in UTF-8.
        grave: whether it was logged at ERROR or above.

    >>> is_overcome("Remote connection to [null] failed", b"Successful registration at resource manager akka.tcp://flink")
    True
    """
    return any(
        entry.get("errors", False) >= grave
        and re.search(entry["failure"], text[:_TEXT])
        and re.search(entry["later"].encode(), after)
        for entry in _data()["recovery"]
    )


def is_survived(after: bytes) -> bool:
    """Return whether a process continued after a failure: ordinary records follow, and nothing that ends it.

    >>> is_survived(b"24/03/02 11:04:19 INFO Client: order 7")
    True
    >>> is_survived(b"24/03/02 11:04:19 INFO Client: order 7\\n24/03/02 11:04:20 ERROR Client: no price")
    False
    """
    later: dict[str, str] = _data()["later"]
    return bool(
        re.search(later["works"].encode(), after) and not re.search(later["fails"].encode(), after)
    )


def was_stopped(text: str) -> bool:
    """Return whether a text shows that something stopped the process on purpose.

    >>> was_stopped("INFO CoarseGrainedExecutorBackend: Driver commanded a shutdown")
    True
    """
    return _pattern_of("stopped").search(text) is not None


def ended_by(texts: Iterable[str]) -> str | None:
    """Return what a failure ended (query, jobmanager, application, job, batch, process or task), or None if
    unknown.

    Args:
        texts: the record above the failure, its exceptions and its stack trace.

    >>> ended_by(["Job aborted due to stage failure: Task 4 in stage 30.0 failed 4 times"])
    'batch'
    """
    text = "\n".join([line[:_TEXT] for line in texts][:_LINES])
    return next((ending.ended for ending in _endings() if ending.text.search(text)), None)


def is_routine(texts: Iterable[str]) -> bool:
    """Return whether healthy jobs log this failure whenever they stop.

    >>> is_routine(["RECEIVED SIGNAL TERM"]), is_routine(["java.lang.IllegalStateException: no price"])
    (True, False)
    """
    return any(_pattern_of("routine").search(text[:_TEXT]) for text in texts)


def is_wrapper_failure(text: str) -> bool:
    """Return whether a text only reports that some other failure ended a process.

    >>> is_wrapper_failure("Exit code: 143"), is_wrapper_failure("java.io.IOException: exit code 143 of a hook, disk full")
    (True, False)
    """
    text = " ".join(text[:_TEXT].split())
    return any(re.search(pattern, text) for pattern in _data()["wrapper"])


def short_failure(text: str) -> str | None:
    """Summarize a long report in a few words; return None for other texts.

    >>> short_failure("Reason: OOMKilled Exit Code: 137")
    'Container killed: OOMKilled, exit code 137'
    """
    text = " ".join(text[:_TEXT].split())
    for entry in _data()["summary"]:
        if (found := re.search(entry["text"], text)) is not None:
            return _fill(entry["short"], found.groupdict())
    return None


def _fill(short: str, facts: Mapping[str, str | None]) -> str:
    """Fill facts into a short text. Optional parts whose fact is missing are dropped."""
    text = _OPTIONAL.sub(
        lambda part: f"{part[1]}{{{part[2]}}}{part[3]}" if facts[part[2]] else "", short
    )
    return text.format(**facts)


_OPTIONAL: Final = re.compile(r"\{([^{}|]{0,40})\|(\w{1,20})\|([^{}|]{0,40})\}")


@functools.cache
def _pattern_of(name: str) -> re.Pattern[str]:
    """Return a pattern that matches any text of a list in the data file."""
    return re.compile("|".join(_data()[name]))


@functools.cache
def _benign(trace: bool) -> re.Pattern[str]:
    """Return a pattern for the logger and the message of any record in the table, or of any with an exception."""
    entries = [entry for entry in _data()["benign"] if not (trace and _depends_on_trace(entry))]
    return re.compile("|".join(map(_pattern_of_record, entries)))


def _pattern_of_record(entry: Mapping[str, Any]) -> str:
    return f"(?:{entry['logger']}): (?:{entry['text']})"


def _depends_on_trace(entry: Mapping[str, Any]) -> bool:
    """Return whether a record is not harmless above any exception."""
    return bool(entry.get("alone") or "below" in entry)


@functools.cache
def _endings() -> tuple[_Ending, ...]:
    return tuple(
        _Ending(entry["ended"], re.compile("|".join(entry["texts"]), re.MULTILINE))
        for entry in _data()["ending"]
    )


@functools.cache
def _data() -> dict[str, Any]:
    return read_format("formats/failure-lines.toml")
