"""Identifies the software that threw an exception, from the table `formats/components.toml`.

A component is a client library, a connector, a file system or a process of an engine. `component_of` returns the
component that threw an exception, and `process_of` the process in which it happened. Both return None rather than
guess. The job's own code is not a component.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from flowdiag.parsers.formats import read_format

_LINKS: Final = 32  # maximum exceptions of a chain
_FRAMES: Final = 400  # maximum frames of one exception
_TEXT: Final = 2000  # maximum characters searched in one message


class Component(NamedTuple):
    """An entry of the table; the header of the data file explains the fields."""

    name: str
    what: str
    check: str
    log: str
    role: str
    files: bool
    packages: tuple[str, ...]
    texts: tuple[re.Pattern[str], ...]
    server: str | None = None
    database: bool = False
    methods: tuple[re.Pattern[str], ...] = ()
    cases: tuple[tuple[re.Pattern[str], str], ...] = ()

    def check_for(self, text: str) -> str:
        """Return the first step for a message: the step of its kind, or the usual step."""
        text = text[:_TEXT]
        return next((check for case, check in self.cases if case.search(text)), self.check)


class Link(NamedTuple):
    """One exception of a chain: its class and message, and the methods of its stack, topmost first.

    `shared` is the number of frames that Java prints only below the enclosing exception (`... 5 more`).
    """

    text: str
    methods: list[str]
    shared: int = 0


@functools.cache
def components() -> dict[str, Component]:
    """Return the components by name, in the order of the table."""
    return {
        entry["name"]: Component(
            name=entry["name"],
            what=entry["what"],
            check=entry["check"],
            log=entry["log"],
            role=entry.get("role", "part"),
            files=entry.get("files", False),
            packages=tuple(entry.get("packages", ())),
            texts=tuple(re.compile(text, re.ASCII) for text in entry.get("texts", ())),
            server=entry.get("server"),
            database=entry.get("database", False),
            methods=tuple(re.compile(text, re.ASCII) for text in entry.get("methods", ())),
            cases=tuple(
                (re.compile(case["text"], re.ASCII), case["check"])
                for case in entry.get("cases", ())
            ),
        )
        for entry in read_format("formats/components.toml")["component"]
    }


def component_of(
    chain: Sequence[str], lines: Iterable[str] = (), logger: str | None = None
) -> Component | None:
    """Return the component that threw an exception, or None if the job's own code did, or if it is unknown.

    The deepest exception with a known class, message or stack decides. Engines, and transports such as Netty, count
    only if nothing more specific does.

    Args:
        chain: exceptions as class and message, outermost first.
        lines: the stack trace; its frames decide if the JDK's own code threw the exception.
        logger: logger of the record above the exception.

    >>> component_of(["org.apache.flink.util.FlinkRuntimeException: Failed to send data to Kafka orders-0",
    ...               "org.apache.kafka.common.errors.TimeoutException: Topic orders not present"]).name
    'kafka-client'
    >>> component_of(["java.lang.NullPointerException"], ["java.lang.NullPointerException",
    ...               "\\tat com.acme.Enrich.map(Enrich.java:7)", "\\tat org.apache.flink.A.b(A.java:1)"])
    """
    links = links_of(chain, lines)
    weak: list[Component] = []
    is_open = True  # whether frames may still decide: not once the job's own code is above them
    for link in reversed(links):
        if link.text.startswith(_BRIDGED) and link is not links[-1]:
            continue  # only repeats the exception below it
        found = [
            _unreachable_component(link.text),
            component_named(_class_of(link.text)),
            _by_text(link.text),
        ]
        if is_open:
            by_methods, is_open = _by_methods(link.methods)
            found.append(by_methods)
        for each in filter(None, found):
            if each.role == "part":
                return each
            weak.append(each)
        if not is_open:
            return None
    by_logger = component_named(logger or "")
    if by_logger is not None and by_logger.role == "part":
        return by_logger
    weak += [by_logger] if by_logger is not None else []
    ranked = sorted(weak, key=lambda each: each.role != "transport")
    return ranked[0] if ranked else None


def part_of(chain: Sequence[str], lines: Iterable[str]) -> str | None:
    """Return the name of the client library, connector or other part that threw an exception, if known."""
    source = component_of(chain, lines)
    return source.name if source is not None and source.role == "part" else None


def process_of(
    chain: Sequence[str], lines: Iterable[str] = (), logger: str | None = None, above: str = ""
) -> Component | None:
    """Return the process in which an exception happened, or None if neither frames, texts nor logger show it.

    >>> process_of(["java.lang.OutOfMemoryError: Java heap space"],
    ...            ["\\tat org.apache.flink.runtime.entrypoint.ClusterEntrypoint.main(C.java:1)"]).name
    'flink-jobmanager'
    >>> process_of(["a.B: x"], (), "TaskSetManager", "Lost task 1.0 in stage 2.0 (TID 3) (host executor 1)").name
    'spark-executor'
    """
    links = links_of(chain, lines)
    texts = (*(link.text for link in reversed(links)), above)
    named = next(filter(None, map(_process_in, texts)), None)
    if named is not None:
        return named
    # The lowest frames show which process the thread belongs to.
    methods = [method for link in reversed(_with_shared(links)) for method in reversed(link)]
    reports = _REPORTS_JOB.search(above) is not None  # the process only reports the end of a job
    logger = "" if reports else logger or ""
    found = next(filter(None, map(_process_named, methods)), None) or _process_named(logger)
    if found is not None:
        return found
    names = [*methods, logger]
    return next(
        (p for n in names for p in _processes() if any(m.search(n) for m in p.methods)), None
    )


# --- names ------------------------------------------------------------------------------------------

_REPORTS_JOB: Final = re.compile(
    r"\bJob \S{1,200} (?:reached (?:globally )?terminal state|\([0-9a-f]{32}\) switched from)"
)
_BRIDGED: Final = "py4j.protocol.Py4JJavaError"
_ORDINARY: Final = re.compile(
    r"(?:java|javax|jdk|sun|com\.sun|scala|kotlin|akka|org\.apache\.pekko|jdk\.internal)\."
)
_SHADED: Final = re.compile(r"\.shaded?\.(?:[a-z]+[0-9]+\.)?|(?<=^org\.)sparkproject\.")


@functools.lru_cache(maxsize=65_536)
def component_named(name: str) -> Component | None:
    """Look up a class, method or logger by its longest known prefix.

    >>> component_named("org.apache.flink.shaded.netty4.io.netty.channel.Channel").name
    'netty'
    """
    shaded = _SHADED.search(name)
    if shaded is not None:
        inner = component_named(name[shaded.end() :])
        if inner is not None:
            return inner
    return _longest(_prefixes(), name)


def _process_in(text: str) -> Component | None:
    """Return the process that the text of a message identifies."""
    for process in _processes():
        if any(one.search(text[:_TEXT]) for one in process.texts):
            return process
    return None


def _process_named(name: str) -> Component | None:
    found = _longest(_prefixes(), name)
    if found is not None and found.role == "part":  # a component inside a process
        found = _longest(_prefixes_of_processes(), name)
    return found if found is not None and found.role == "process" else None


def _longest(prefixes: dict[str, Component], name: str) -> Component | None:
    name = name[:300].replace("$", ".")
    while name:
        if name in prefixes:
            return prefixes[name]
        name = name.rpartition(".")[0]
    return None


@functools.cache
def _prefixes() -> dict[str, Component]:
    return {name: each for each in components().values() for name in each.packages}


@functools.cache
def _prefixes_of_processes() -> dict[str, Component]:
    return {name: each for each in _processes() for name in each.packages}


@functools.cache
def _processes() -> tuple[Component, ...]:
    return tuple(each for each in components().values() if each.role == "process")


_UNREACHED: Final = re.compile(
    r"(?i)\b(?:connect(?:ing|ion)?|reach) (?:to |with )?(?:the )?(.{3,80})"
)


def _unreachable_component(text: str) -> Component | None:
    """Return the component that could not be reached, not the component that reported the failure.

    >>> _unreachable_component("org.apache.iceberg.hive.RuntimeMetaException: Failed to connect to Hive Metastore").name
    'hive-metastore'
    """
    found = _UNREACHED.search(text[:_TEXT])
    return None if found is None else _by_text(found[1])


def _by_text(text: str) -> Component | None:
    for each in components().values():
        if each.role != "process" and any(one.search(text[:_TEXT]) for one in each.texts):
            return each
    return None


def _by_methods(methods: Sequence[str]) -> tuple[Component | None, bool]:
    """Return the component of the topmost frames, and whether the next exception may identify the component better."""
    weak: Component | None = None
    for method in methods:
        if _ORDINARY.match(method):
            continue
        found = component_named(method)
        if found is None:
            return weak, weak is not None
        if found.role != "transport":
            return (found if found.role == "part" else weak or found), True
        weak = weak or found
    return weak, True


# --- traces -----------------------------------------------------------------------------------------

_METHOD: Final = re.compile(
    r"\s{0,40}(?P<at>at\s{1,8})?(?:[\w.$@-]{0,80}/{1,2}){0,2}(?P<name>(?:[\w$-]{1,120}\.){1,24}[\w$<>-]{1,160})"
    r"(?:\([^()\n]{1,200}\)|(?(at)(?:\([^()\n]{0,200})?\s{0,8}\Z|(?!)))"
)
"""A stack frame, possibly wrapped by a terminal."""
_CAUSE: Final = re.compile(r"\s{0,40}(?:Caused by|Wrapped by): ")
_MORE: Final = re.compile(r"\s{0,40}\.\.\. ([0-9]{1,4}) (?:more|common frames omitted)")
_REMOTE: Final = re.compile(r"org\.apache\.hadoop\.ipc\.RemoteException\(([\w.$]{3,200})\)")
"""A Hadoop `RemoteException`, which contains the class that the server threw."""
_CLASS: Final = re.compile(r"(?:[a-z_]\w{0,80}\.){1,16}[\w$]{1,160}")


def links_of(chain: Sequence[str], lines: Iterable[str] = ()) -> list[Link]:
    """Combine a chain with its stack trace into links, outermost first.

    Args:
        chain: exceptions as class and message, outermost first.
        lines: the stack trace, with the exceptions of the chain in the same order.
    """
    blocks = [*_blocks(lines)][-_LINKS:]
    texts = [*chain][-_LINKS:]
    if not texts:
        return blocks
    blocks = blocks[-len(texts) :]
    blocks = [Link("", []) for _ in range(len(texts) - len(blocks))] + blocks
    return [block._replace(text=text) for text, block in zip(texts, blocks, strict=True)]


def _blocks(lines: Iterable[str]) -> Iterator[Link]:
    """Yield the exceptions of a stack trace in printed order."""
    block = Link("", [])
    for line in _without_other_traces(lines):
        cause = _CAUSE.match(line)
        if cause is not None:
            if block.text or block.methods:
                yield block
            block = Link(line[cause.end() :].strip(), [])
        elif (more := _MORE.match(line)) is not None:
            block = block._replace(shared=int(more[1]))
        elif (found := _METHOD.match(line)) is not None:
            block.methods.append(found["name"])
            del block.methods[_FRAMES:]
        elif not block.methods and not block.text:
            block = Link(line.strip(), [])
    if block.text or block.methods:
        yield block


def _without_other_traces(lines: Iterable[str]) -> Iterator[str]:
    """Drop suppressed exceptions and, below the frames of a Spark task, the driver's frames."""
    limit: int | None = None  # lines indented deeper than this are skipped
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if _CAUSE.match(line) is not None and (limit is None or indent <= max(limit, 0)):
            limit = None
        if line.lstrip().startswith("Suppressed: "):
            limit = indent
        elif line.startswith("Driver stacktrace"):
            limit = -1
        elif limit is None:
            yield line


def _with_shared(links: Iterable[Link]) -> list[list[str]]:
    """Return the methods of each exception, including frames that Java prints only below the enclosing exception."""
    found: list[list[str]] = []
    for link in links:
        rest = found[-1][-link.shared :] if found and link.shared else []
        found.append([*link.methods, *rest])
    return found


def _class_of(text: str) -> str:
    found = _REMOTE.match(text) or _CLASS.match(text)
    return found[found.re.groups] if found is not None else ""
