"""Classifies exception chains, and extracts values and option keys from their messages.

The failure classes of Flink and Spark are data (`formats/exceptions.toml`). A chain lists exceptions in printed
order, outermost first, each as class and message, possibly truncated or wrapped. Bad text never raises. An unknown
chain gives None.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from flowdiag.parsers.components import Component, component_of
from flowdiag.parsers.formats import read_format
from flowdiag.parsers.messages import TaskName, parse_task

_TEXT: Final = 4096  # maximum characters searched in one exception
_CHAIN: Final = 40  # maximum exceptions searched, from the end of the chain
_VALUE: Final = 300
_OPTIONS: Final = 6


OTHER_CLASS: Final = "other"
"""The class of exceptions whose message fits a class, but whose stack trace or component shows another origin."""


class FailureClass(NamedTuple):
    """A class of failures; the header of the data file explains the fields."""

    name: str
    kind: str
    engine: str | None
    outer: bool
    hollow: bool
    last: bool
    texts: tuple[str, ...]  # lower case
    within: re.Pattern[str] | None
    values: tuple[re.Pattern[str], ...]

    def matches(self, text: str) -> bool:
        """Return whether a text in lower case belongs to the class."""
        found = any(part in text for part in self.texts)
        return found and (self.within is None or self.within.search(text) is not None)


class Classified(NamedTuple):
    """The failure class of an exception chain.

    Attributes:
        name: name of the class in the data file.
        kind: kind of failure, as in `failure_kind`.
        link: index of the decisive exception in the chain.
        values: numbers and names from its message, as printed.
        options: option keys in its message.
    """

    name: str
    kind: str
    link: int
    values: dict[str, str]
    options: tuple[str, ...]


@functools.cache
def classes() -> tuple[FailureClass, ...]:
    """Return the classes of the data file, in its order."""
    return tuple(
        FailureClass(
            name=entry["name"],
            kind=entry["kind"],
            engine=entry.get("engine"),
            outer=entry.get("outer", False),
            hollow=entry.get("hollow", False),
            last=entry.get("last", False),
            texts=tuple(text.lower() for text in entry["texts"]),
            within=re.compile(entry["within"], re.ASCII) if "within" in entry else None,
            values=tuple(
                re.compile(re.sub(r"\(\?<(?=[a-z])", "(?P<", pattern), re.ASCII)
                for pattern in entry.get("values", ())
            ),
        )
        for entry in read_format("formats/exceptions.toml")["class"]
    )


def classify(chain: Sequence[str], engine: str | None = None) -> Classified | None:
    """Return the failure class of a chain: that of its deepest known root cause or, without one, of the operation.

    Args:
        chain: exceptions as class and message, outermost first.
        engine: flink or spark; None tries the classes of both.

    >>> found = classify(["a.JobException: Recovery is suppressed by FixedDelayRestartBackoffTime"
    ...                   "Strategy(maxNumberRestartAttempts=3)", "java.net.UnknownHostException: kafka-3"])
    >>> found.name, found.link, found.values
    ('service-unreachable', 1, {'host': 'kafka-3'})
    >>> classify(["java.lang.IllegalStateException: price is negative"]) is None
    True
    >>> classify(["java.io.IOException: Failed to deserialize consumer record due to",
    ...           "a.ExceptionInChainedOperatorException: Could not forward element", "a.b.E: no key"]) is None
    True
    """
    texts = [" ".join(text[:_TEXT].split()) for text in chain]
    links = list(range(len(texts)))[-_CHAIN:][::-1]
    lower = {link: texts[link].lower() for link in links}
    deepest = links[0] if links else None
    fitting = {link: _fitting(lower[link]) for link in links}
    if not any(fitting.values()):
        return None
    for candidates in _classes_by_priority():
        for link in links:
            for candidate in candidates:
                if id(candidate) not in fitting[link]:
                    continue
                if engine is not None and candidate.engine not in (None, engine):
                    continue
                if candidate.hollow and link != deepest:
                    continue
                if not _is_elsewhere(candidate, texts, link):
                    return _build_result(candidate, texts, links, link)
    return None


@functools.lru_cache(maxsize=1024)
def _fitting(text: str) -> frozenset[int]:
    """Return the `id` of each class that a text in lower case belongs to. Logs repeat their exceptions."""
    return frozenset(id(each) for each in classes() if each.matches(text))


def is_of_other_service(name: str, text: str, source: Component | None) -> bool:
    """Return whether an exception fits a failure class by its wording, but comes from another kind of service.

    Args:
        name: name of the failure class.
        text: class and message of the exception.
        source: the component that threw it.
    """
    is_part = source is not None and source.role == "part"
    files = source is not None and source.files
    if name in _OF_FILES:
        return (is_part and not files) or _OTHER_SERVICE.search(text) is not None
    if name == "rpc-timeout":
        return is_part
    if name != "invalid-sql":
        return False
    return (
        files or (is_part and text.startswith(OF_TABLES)) or _OF_CATALOGUE.match(text) is not None
    )


# Requests to AWS services that do not store files.
_OTHER_SERVICE: Final = re.compile(
    r"\(Service: (?!(?:Amazon ?)?S3\b)\w"
    r"|Unable to load region|when calling the (?!\w{0,20}(?:Object|Bucket|MultipartUpload|UploadPart))\w{1,60} operation"
)
# Spark wraps errors of its catalog, which are not about the statement.
_OF_CATALOGUE: Final = re.compile(
    r"[\w.]{0,100}AnalysisException: (?:[a-z]\w{0,40}\.){2,12}[A-Z]\w{2,80}Exception\b"
)
OF_TABLES: Final = (
    "org.apache.flink.table.api.ValidationException",
    "org.apache.flink.table.api.TableException",
)
"""Planner exceptions that connectors and task code throw as well."""
_OF_FILES: Final = (
    "storage-throttled", "storage-denied", "storage-failure", "storage-read-only", "file-missing", "storage-endpoint",
)  # fmt: skip
# Status codes and words that many services use. They count only with a sign of a storage system.
_GENERIC: Final = ("storage-throttled", "storage-denied")
_OF_STORAGE: Final = re.compile(
    r"(?i)s3|\bgs://|\bgcs\b|abfs|wasb|hdfs|oss://|cosn?://|file:/|(?:^|[\s'\"(=])/?[\w.-]+/[\w.-]+/|bucket|inode|\bblob|filesystem|\bfile\b"
    r"|\bpath\b|directory|container|AccessControlException|checkpoint|savepoint|\bdelta\b|\[Errno|java\.nio"
)


def _is_elsewhere(candidate: FailureClass, texts: Sequence[str], link: int) -> bool:
    """Return whether an exception fits a class by its wording only, because other exceptions show another origin."""
    if candidate.name == "unreadable-record":
        # Kafka's source calls the operators that are chained to it while it deserializes a record.
        return any("ExceptionInChainedOperatorException" in text for text in texts[link + 1 :])
    if candidate.name in _OF_CLASSES:
        return any(text_above in text for text in texts[:link] for text_above in _NOT_OF_JOBS)
    if candidate.name not in _OF_FILES:
        return False
    source = component_of(texts[: link + 1])
    if source is not None and source.role == "part":
        return not source.files
    signs = " ".join(texts[: link + 1][-_SIGNS:])
    return candidate.name in _GENERIC and _OF_STORAGE.search(signs) is None


_OF_CLASSES: Final = ("class-loading", "class-conflict")
_NOT_OF_JOBS: Final = (
    # A DStream checkpoint contains serialized code, and its classes change with the code.
    "Failed to read checkpoint from directory",
    "entry point class",
    "load main class",
)
"""Messages above a missing class that another failure class explains."""
_SIGNS: Final = 4  # exceptions, up to the file error, that may identify the storage system


def _build_result(
    found: FailureClass, texts: Sequence[str], links: Sequence[int], link: int
) -> Classified:
    """Build the result for the exception at `link`, with the values of all exceptions of its class.

    An exception and its cause can have the same class. For an unreadable record, the deepest exception contains the
    reason, and the exception above it the position of the record.
    """
    values: dict[str, str] = {}
    for other in links:
        if found.matches(texts[other].lower()):
            own: dict[str, str] = {}
            for match in filter(None, (value.search(texts[other]) for value in found.values)):
                for name, value in match.groupdict().items():
                    if value:
                        own.setdefault(name, value.strip().rstrip(".,:;'\"")[:_VALUE])
            values = own | values
    name = found.name
    before, after = values.get("from", ""), values.get("to", "")
    if name == "offsets-went-back" and before.isdecimal() and after.isdecimal():
        # If the earliest offset is higher, the records in between no longer exist.
        name = name if int(after) < int(before) else "offsets-gone"
    return Classified(name, found.kind, link, values, option_keys_in(texts[link]))


@functools.cache
def _classes_by_priority() -> tuple[tuple[FailureClass, ...], ...]:
    """Return the classes by priority: root causes, vague causes, interrupted operations, bare wrappers."""
    return (
        tuple(each for each in classes() if not each.last),
        tuple(each for each in classes() if each.last and not (each.outer or each.hollow)),
        tuple(each for each in classes() if each.last and each.outer),
        tuple(each for each in classes() if each.last and each.hollow),
    )


def announced_failure(line: str) -> str | None:
    """Return the known message in a line without an exception class, or None.

    The line starts with the message, possibly after a label or after words such as `we see`.

    >>> announced_failure("The heartbeat of TaskManager with id tm-3 timed out."), announced_failure("Reason: Lost leadership")
    ('The heartbeat of TaskManager with id tm-3 timed out.', 'Lost leadership')
    >>> announced_failure("Since Monday we get Container killed by YARN for exceeding memory limits. Why?")
    'Container killed by YARN for exceeding memory limits. Why?'
    >>> announced_failure("The page explains how the JobManager reacts after it lost leadership.") is None
    True
    """
    text = line[:_TEXT].lower()
    if _EXPLAINS.search(text) is not None:
        return None
    begins = {
        0,
        *(found.end() for found in (_LABEL.match(text), _INTRODUCTION.match(text)) if found),
    }
    for begin in sorted(begins):
        latest = begin + _ARTICLE
        for each in classes():
            for part in each.texts:
                at = text.find(part, begin, latest + len(part)) if " " in part else -1
                if begin <= at <= latest and each.matches(text):
                    return line[begin:]
    return None


_ARTICLE: Final = 6  # maximum characters before the known part of a message: "The h"
_LABEL: Final = re.compile(r"[a-z ]{0,40}(?:: |- )")
_INTRODUCTION: Final = re.compile(
    r".{0,160}?\b(?:see|seeing|saw|gets?|getting|got|throws?|threw|says?|saying|shows?|showing|prints?|reports?|reporting"
    r"|receives?|received|receiving|hit|hitting|logs|logged|encounter(?:ed)?|(?:fail|die|stop|end|crash|restart)\w{0,3} with)"
    r"(?: an?| the| this| following| error| message| exception){0,4}[:,]? [\"'`“*]{0,3}"
)
# Words in sentences that explain failures in general.
_EXPLAINS: Final = re.compile(
    r"\b(?:if|when|means|usually|typically|happens|occurs|for example|e\.g\.|such as|how to)\b"
)


def is_wrapper(name: str) -> bool:
    """Return whether a class only describes the interrupted operation or wraps the actual exception."""
    return any(each.name == name and (each.outer or each.hollow) for each in classes())


def is_root_cause(name: str) -> bool:
    """Return whether failures of this class need no further explanation from the rest of the chain."""
    return any(each.name == name and not each.last for each in classes())


def kind_of_class(name: str) -> str | None:
    """Return the kind of a failure class, or None for an unknown name."""
    return next((each.kind for each in classes() if each.name == name), None)


def engine_of_class(name: str) -> str | None:
    """Return the engine that a failure class belongs to, or None for both engines."""
    return next((each.engine for each in classes() if each.name == name), None)


_OF_TASK = re.compile(
    r"(?:for operator|Task) '?(?P<task>[^\n']{1,300}?\([0-9]{1,6}/[0-9]{1,6}\)(?:#[0-9]{1,6})?)"
    r"|state backend for (?P<operator>[\w$ .-]{1,200}?)_[0-9a-f]{32}_(?P<subtask>\([0-9]{1,6}/[0-9]{1,6}\))"
    r"|OperatorCoordinator for '(?P<source>[^'\n]{1,300})'"
)


def task_named_in(chain: Iterable[str]) -> TaskName | None:
    """Return the outermost subtask, operator or source that a chain of exceptions mentions.

    >>> task_named_in(["java.lang.Exception: Could not perform checkpoint 7 for operator Map (2/4)#0."])
    TaskName(task='Map', subtask_index=1, parallelism=4, attempt=0)
    """
    found = next((hit for text in chain if (hit := _OF_TASK.search(text[:_TEXT]))), None)
    if found is None:
        return None
    if found["source"] is not None:
        return TaskName(found["source"], None, None, None)
    return parse_task(found["task"] or f"{found['operator']} {found['subtask']}")


# Option keys of Flink, Spark and their connectors, but not classes or packages.
_OPTION = re.compile(
    r"(?<![\w./$:-])(?:taskmanager|jobmanager|execution|state|akka|pekko|slot|slotmanager|cluster|heartbeat"
    r"|restart-strategy|high-availability|classloader|task|pipeline|parallelism|table|rest|kubernetes"
    r"|yarn|fs|dfs|s3|spark|hoodie|failOnDataLoss|mergeSchema|transaction|max|request|delivery)"
    r"(?:[.-][a-zA-Z0-9]+){1,8}(?!\.?[\w/(:$-])"
)
_NO_OPTION: Final = (".java", ".scala", ".jar", ".py", ".example", ".com", ".net", ".org", ".local")


def option_keys_in(text: str) -> tuple[str, ...]:
    """Return the option keys in a text, in order, without duplicates.

    >>> option_keys_in("by setting the keys 'taskmanager.memory.network.min', 'task.x.y' of s3.example")
    ('taskmanager.memory.network.min', 'task.x.y')
    >>> option_keys_in("akka.pattern.AskTimeoutException: raise akka.ask.timeout.")
    ('akka.ask.timeout',)
    """
    keys = (found[0].rstrip(".-") for found in _OPTION.finditer(text[:_TEXT]))
    options = (
        key
        for key in keys
        if "." in key and not key.endswith(_NO_OPTION) and not key.startswith("pekko.tcp")
    )
    return tuple(dict.fromkeys(options))[:_OPTIONS]
