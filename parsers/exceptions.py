"""What a chain of exceptions says: its class of failure, its values, the options it recommends.

The classes are data (`formats/exceptions.toml`), for Flink and Spark. A chain is given as it is printed,
outermost first; each of its texts is a class and a message and may be cut or wrapped anywhere. Nothing
here raises for bad text; a chain that says nothing known gives None.
"""

from __future__ import annotations

import functools
import pkgutil
import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.messages import TaskName, parse_task

_TEXT: Final = 4096  # characters of one exception that are looked at
_CHAIN: Final = 40  # exceptions of a chain that are looked at, from its end
_VALUE: Final = 300
_OPTIONS: Final = 6


class FailureClass(NamedTuple):
    """One class of failures; see the head of the table for what each part means."""

    name: str
    kind: str
    engine: str | None
    outer: bool
    hollow: bool
    last: bool
    texts: tuple[str, ...]  # lower case
    values: tuple[re.Pattern[str], ...]


class Classified(NamedTuple):
    """What a chain of exceptions says.

    Attributes:
        name: the class, a word of the table.
        kind: the kind of failure, as `failure_kind` gives it.
        link: which text of the chain said it, from 0.
        values: what that text says in numbers and names, as printed.
        options: the keys of options that that text itself names.
    """

    name: str
    kind: str
    link: int
    values: dict[str, str]
    options: tuple[str, ...]


@functools.cache
def classes() -> tuple[FailureClass, ...]:
    """The table, in its order."""
    name = "formats/exceptions.toml"
    data = pkgutil.get_data("flowdiag.parsers", name)
    if data is None:
        raise FlowdiagError(
            f"the data file {name} is missing from the installation", hint="reinstall flowdiag"
        )
    return tuple(
        FailureClass(
            name=entry["name"],
            kind=entry["kind"],
            engine=entry.get("engine"),
            outer=entry.get("outer", False),
            hollow=entry.get("hollow", False),
            last=entry.get("last", False),
            texts=tuple(text.lower() for text in entry["texts"]),
            values=tuple(
                re.compile(re.sub(r"\(\?<(?=[a-z])", "(?P<", pattern), re.ASCII)
                for pattern in entry.get("values", ())
            ),
        )
        for entry in tomllib.loads(data.decode())["class"]
    )


def classify(chain: Sequence[str], engine: str | None = None) -> Classified | None:
    """Find the class of a chain: of the deepest exception that says why, else of what was going on.

    Args:
        chain: classes and messages, outermost first.
        engine: flink or spark; None if nothing tells: every class counts.

    >>> found = classify(["a.JobException: Recovery is suppressed by FixedDelayRestartBackoffTime"
    ...                   "Strategy(maxNumberRestartAttempts=3)", "java.net.UnknownHostException: kafka-3"])
    >>> found.name, found.link, found.values
    ('service-unreachable', 1, {'host': 'kafka-3'})
    >>> classify(["java.lang.IllegalStateException: price is negative"]) is None
    True
    """
    texts = [" ".join(text[:_TEXT].split()) for text in chain]
    links = list(range(len(texts)))[-_CHAIN:][::-1]
    lower = {link: texts[link].lower() for link in links}
    deepest = links[0] if links else None
    for among in _passes():
        for link in links:
            for one in among:
                if one.engine not in (None, engine) and engine is not None:
                    continue
                if one.hollow and link != deepest:
                    continue
                if any(part in lower[link] for part in one.texts):
                    # What it wraps and what wraps it may be of one class: of a record that cannot be read the
                    # deepest says why, and the one above it where the record stands.
                    values: dict[str, str] = {}
                    for place in links:
                        if any(part in lower[place] for part in one.texts):
                            values = {**_values(one, texts[place]), **values}
                    return Classified(
                        _directed(one.name, values),
                        one.kind,
                        link,
                        values,
                        option_keys_in(texts[link]),
                    )
    return None


def _directed(name: str, values: dict[str, str]) -> str:
    """Offsets that changed went back, or those between are gone: the numbers tell."""
    before, after = values.get("from", ""), values.get("to", "")
    if name == "offsets-went-back" and before.isdecimal() and after.isdecimal():
        return name if int(after) < int(before) else "offsets-gone"
    return name


@functools.cache
def _passes() -> tuple[tuple[FailureClass, ...], ...]:
    """Who is asked first: those that say why, those that say little, those that say what went on."""
    return (
        tuple(one for one in classes() if not one.last),
        tuple(one for one in classes() if one.last and not (one.outer or one.hollow)),
        tuple(one for one in classes() if one.last and one.outer),
        tuple(one for one in classes() if one.last and one.hollow),
    )


def is_wrapper(name: str) -> bool:
    """Whether a class says what was going on, or what it wraps; the cause below it says why."""
    return any(one.name == name and (one.outer or one.hollow) for one in classes())


def is_root_cause(name: str) -> bool:
    """Whether a class by itself says why something failed, whatever stands around it."""
    return any(one.name == name and not one.last for one in classes())


def kind_of_class(name: str) -> str | None:
    """The kind of failure of a class; None for a name that is none."""
    return next((one.kind for one in classes() if one.name == name), None)


def engine_of_class(name: str) -> str | None:
    """The engine at work where a class of exceptions comes up; None: either."""
    return next((one.engine for one in classes() if one.name == name), None)


_OF_TASK = re.compile(
    r"(?:for operator|Task) '?(?P<task>[^\n']{1,300}?\([0-9]{1,6}/[0-9]{1,6}\)(?:#[0-9]{1,6})?)"
    r"|state backend for (?P<operator>[\w$ .-]{1,200}?)_[0-9a-f]{32}_(?P<subtask>\([0-9]{1,6}/[0-9]{1,6}\))"
    r"|OperatorCoordinator for '(?P<source>[^'\n]{1,300})'"
)


def task_named_in(chain: Iterable[str]) -> TaskName | None:
    """The subtask, operator or source that a chain of exceptions names; of several the outermost.

    >>> named_task(["java.lang.Exception: Could not perform checkpoint 7 for operator Map (2/4)#0."])
    TaskName(task='Map', subtask_index=1, parallelism=4, attempt=0)
    """
    found = next((hit for text in chain if (hit := _OF_TASK.search(text[:_TEXT]))), None)
    if found is None:
        return None
    if found["source"] is not None:
        return TaskName(found["source"], None, None, None)
    return parse_task(found["task"] or f"{found['operator']} {found['subtask']}")


def _values(one: FailureClass, text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for pattern in one.values:
        match = pattern.search(text)
        if match is not None:
            for name, value in match.groupdict().items():
                if value:
                    found.setdefault(name, value.strip().rstrip(".,:;'\"")[:_VALUE])
    return found


# Options of Flink, Spark and of their connectors, as exceptions name them; not classes or packages.
_OPTION = re.compile(
    r"(?<![\w./$:-])(?:taskmanager|jobmanager|execution|state|akka|pekko|slot|slotmanager|cluster|heartbeat"
    r"|restart-strategy|high-availability|classloader|task|pipeline|parallelism|table|rest|kubernetes"
    r"|yarn|fs|s3|spark|failOnDataLoss|mergeSchema|transaction|max|request|delivery)"
    r"(?:[.-][a-zA-Z0-9]+){1,8}(?!\.?[\w/(:$-])"
)
_NO_OPTION: Final = (".java", ".scala", ".jar", ".py", ".example", ".com", ".net", ".org", ".local")


def option_keys_in(text: str) -> tuple[str, ...]:
    """The keys of options that a text names, in its order, each once.

    >>> options_named("by setting the keys 'taskmanager.memory.network.min', 'task.x.y' of s3.example")
    ('taskmanager.memory.network.min', 'task.x.y')
    >>> options_named("akka.pattern.AskTimeoutException: raise akka.ask.timeout.")
    ('akka.ask.timeout',)
    """
    return tuple(dict.fromkeys(_keys(text)))[:_OPTIONS]


def _keys(text: str) -> Iterator[str]:
    for found in _OPTION.finditer(text[:_TEXT]):
        key = found[0].rstrip(".-")
        if "." in key and not key.endswith(_NO_OPTION) and not key.startswith("pekko.tcp"):
            yield key
