"""Parses stack traces below a record: the exception, its causes and the frame of user code.

Formats:
- Java's own (`Caused by: `, `Suppressed: `, `[CIRCULAR REFERENCE`)
- the extended formats of log4j and logback (` ~[flink-dist.jar:1.17.2]`)
- logback's root-cause-first format (`Wrapped by: `)
- bare frames without `at ` (Flink's stuck tasks)
- Flink's `SerializedThrowable` wrappers, whose text starts with the wrapped class
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from flowdiag.parsers.components import component_named
from flowdiag.parsers.kubernetes_requests import short_request

CAUSE_CHARACTERS: Final = 500
_MIDDLE: Final = 4  # maximum exceptions in the middle of a chain whose messages are kept
_LINKS: Final = 32  # maximum exceptions of a chain

_FRAME = r"(?:[\w$.@-]*/{1,2})?(?:[\w$<>-]+\.)+[\w$<>-]+\((?:[\w$.-]+:\d+|[\w$.-]+\.\w+|Native Method|Unknown Source|<[\w ]+>)\)"
_FRAME_LINE = re.compile(rf"\s*(?:at\s+)?({_FRAME})")
_TRACE_LINE = re.compile(
    r"\s*(?:at\s+[\w$<]|\.\.\. \d+ (?:more|common frames)|Caused by: |Suppressed: |Wrapped by: "
    rf"|\[CIRCULAR REFERENCE|{_FRAME}\s*(?:~?\[|$))"
)
_EXCEPTION_LINE = re.compile(
    r"\s*(?:Exception in thread \"[^\"\n]*\" |\[)?"
    r"(?:[\w$]+\.)+(?:package\$)?(?=[A-Z])[\w$]*?(?:Exception|Error|Throwable|Failure|Abort|Interrupt|NotCompatible)[\w$]*"
    r"(?::|\s*$)"
)
_SERIALIZED = re.compile(
    r"(?:(?:[\w$]+\.)*SerializedThrowable(?:: |\s*$)|\(?Serialized Throwable: ?)+"
)
# PyFlink quotes the traceback of its Python worker in the message of a Java exception.
_PYTHON_BEGINS: Final = "Traceback (most recent call last):"
_PYTHON_NAME: Final = r"(?:[A-Za-z_]\w{0,80}\.){0,8}[A-Z]\w{0,80}(?:Error|Exception|Interrupt|Exit)"
_PYTHON_ERROR: Final = re.compile(rf"{_PYTHON_NAME}(?:: |$)")
# Below a frame, also an error with an unusual name.
_PYTHON_LAST: Final = re.compile(
    rf"(?:{_PYTHON_NAME}|(?:[A-Za-z_]\w{{0,80}}\.){{1,8}}[A-Z]\w{{0,80}})(?:: |$)"
)
_PYTHON_ENDS: Final = re.compile(rf"(?<=\s){_PYTHON_NAME}(?:: |\s*\Z)")
# Spark prints the failure of a task below the failure of its clean-up.
_BEFORE: Final = "Previous exception in task: "
_TRACEBACK: Final = 8000  # maximum characters
_ORDINARY: Final = (
    "org.apache.flink.",
    "java.",
    "javax.",
    "jdk.",
    "sun.",
    "com.sun.",
    "scala.",
    "akka.",
    "org.apache.pekko.",
    "org.apache.flink",
)


_OF_JDK: Final = ("java.", "javax.", "jdk.", "sun.", "com.sun.", "scala.")
_LIBRARIES: Final = (
    *_ORDINARY,
    "org.apache.",
    "com.alibaba.",
    "com.aliyun.",
    "com.dtstack.",
    "com.google.",
    "com.amazonaws.",
    "com.esotericsoftware.",
    "com.fasterxml.",
    "com.github.benmanes.",
    "com.github.luben.",
    "com.ibm.icu.",
    "com.ning.compress.",
    "com.twitter.chill.",
    "com.zaxxer.",
    "com.databricks.",
    "ch.qos.logback.",
    "io.airlift.",
    "io.confluent.",
    "io.netty.",
    "io.vertx.",
    "it.unimi.dsi.",
    "kotlin.",
    "com.azure.",
    "com.codahale.",
    "com.microsoft.",
    "net.jpountz.",
    "net.razorvine.",
    "okhttp3.",
    "org.antlr.",
    "org.codehaus.",
    "org.eclipse.",
    "org.forstdb.",
    "org.glassfish.",
    "org.json4s.",
    "org.roaringbitmap.",
    "org.rocksdb.",
    "org.slf4j.",
    "org.sparkproject.",
    "org.springframework.",
    "org.xerial.",
    "py4j.",
    "reactor.",
    "software.amazon.",
)


_CIRCULAR: Final = re.compile(r"\s*\[CIRCULAR REFERENCE: ?(.{1,2000})\]\s*\Z")


@dataclass(frozen=True, slots=True)
class Trace:
    """A parsed stack trace.

    Attributes:
        exception: class and message of the thrown exception, at most 500 characters.
        cause: class and message of the deepest cause; of the exception if it has no cause.
        user_frame: the topmost frame outside Flink and the JVM, as `class.method(File.java:12)`, in the deepest cause
            that has such a frame.
        second: the first cause, if it has a cause of its own.
        chain: all exceptions, outermost first; for a trace with the root cause first, only the root cause.
    """

    exception: str | None = None
    cause: str | None = None
    user_frame: str | None = None
    second: str | None = None
    chain: tuple[str, ...] = ()


_MESSAGE_LINES: Final = 12  # maximum lines of a message below its first
ANNOUNCES: Final = ("exceptions:", "terminated with:")
"""Endings of a message that continues on the next line, even if that line starts with a date."""


def is_trace_line(text: str) -> bool:
    """Return whether a line looks like a line of a stack trace other than the first."""
    return _TRACE_LINE.match(text) is not None


def is_exception_line(text: str) -> bool:
    """Return whether a line can start a stack trace, with the qualified class name of an exception."""
    return _EXCEPTION_LINE.match(text) is not None


def read_trace(lines: Iterable[str], given: str = "") -> Trace:
    """Parse the lines below a record.

    Args:
        lines: lines without carriers; lines outside the trace are ignored.
        given: the end of the record's own line, which may be an exception.
    """
    given, lines = _with_announced(given, lines)
    lines = _with_whole_messages(lines)
    exception = _without_wrappers(given) if is_exception_line(given) else None
    causes: list[str] = []
    is_wrapped = False
    user_frame: str | None = None
    has_frame = False  # whether the current exception has a user frame
    begun = given.rstrip().endswith(_PYTHON_BEGINS)
    for line in _without_suppressed(lines, begun=begun):
        text = line.strip()
        if text.startswith("Wrapped by: "):
            is_wrapped = True
            continue
        if text.startswith("Caused by: "):
            named = _without_wrappers(referenced_cause(text[11:], (exception, *causes)))
            if named is not None:
                causes.append(named)
            has_frame = False
            continue
        found = _FRAME_LINE.match(line)
        if found is not None:
            frame = found[1]
            name = frame[frame.rfind("/", 0, frame.find("(")) + 1 :]  # drop the module
            if not has_frame and not name.startswith(_ORDINARY):
                user_frame, has_frame = name[:CAUSE_CHARACTERS], True
            continue
        if exception is None and is_exception_line(text):
            exception = _without_wrappers(text)
    if is_wrapped:
        causes = []  # the root cause comes first
    return Trace(
        exception=exception,
        cause=causes[-1] if causes else exception,
        user_frame=user_frame,
        second=causes[0] if len(causes) > 1 else None,
        chain=tuple(causes if exception is None else (exception, *causes))[:_LINKS],
    )


def _with_announced(given: str, lines: Iterable[str]) -> tuple[str, list[str]]:
    """Join an exception's message with the lines that continue it."""
    below = [*lines]
    whole = [given]
    continues = _continues(given, below)
    for line in below:
        continues = continues and not _is_below(line)
        announced = continues or whole[-1].rstrip().endswith(ANNOUNCES)
        if announced and line.strip() and not _is_below(line):
            whole[-1] = f"{whole[-1].rstrip()} {line.strip()}"
        elif line.strip() or not continues:
            whole.append(line)
    return whole[0], whole[1:]


def _with_whole_messages(lines: Sequence[str]) -> list[str]:
    """Join the message of each exception in a stack trace with the lines that continue it."""
    found: list[str] = []
    continues = False
    for at, line in enumerate(lines):
        if continues and not _is_below(line) and not line.startswith(_AFTER_MESSAGE):
            found[-1] = f"{found[-1].rstrip()} {line.strip()}"
            continue
        text = line.strip().removeprefix("Caused by: ")
        continues = _continues(text, lines[at + 1 : at + 2 + _MESSAGE_LINES])
        found.append(line)
    return found


_AFTER_MESSAGE: Final = ("Driver stacktrace", "=== Streaming Query ===")
"""Lines below the message of a Spark exception that do not belong to it."""


def _is_below(line: str) -> bool:
    """Return whether a line starts the part below a message: the frames or a cause."""
    return is_trace_line(line) or line.strip().startswith(_BEFORE)


def _continues(given: str, below: Sequence[str]) -> bool:
    """Return whether the next lines continue an exception's message: Java frames follow, not a Python traceback."""
    if not is_exception_line(given) or _PYTHON_BEGINS in given:
        return False
    first = next((at for at, line in enumerate(below) if _is_below(line)), None)
    if first is None or not 0 < first <= _MESSAGE_LINES:
        return False
    return not any(is_exception_line(line) or _PYTHON_BEGINS in line for line in below[:first])


# Packages of drivers and connectors of any vendor.
_LIBRARY_PACKAGE: Final = re.compile(
    r"\A(?:[a-z]\w{0,40}\.){2,4}(?:jdbc|driver|connectors?|sdk|protocol)\.(?:[a-z]\w{0,40}\.){1,8}[A-Z]"
)


def is_library(method: str) -> bool:
    """Return whether a class or method belongs to the JDK, an engine or a well-known library.

    >>> is_library("java.net.Socket.connect"), is_library("com.acme.Enrich.map")
    (True, False)
    """
    return method.startswith(_LIBRARIES) or _LIBRARY_PACKAGE.search(method) is not None


_PYTHON_CALL: Final = re.compile(r"\s*self\.|\s*[\w.]+\([a-z_][\w.]*\)\Z")
"""A line of Python code that looks like a stack frame without a line number."""


def own_frame(lines: Iterable[str]) -> str | None:
    """Return the topmost frame of user code, in the deepest cause that has such a frame.

    >>> own_frame(["a.E: x", "\\tat org.apache.kafka.A.b(A.java:1)", "\\tat com.acme.Enrich.map(Enrich.java:7)"])
    'com.acme.Enrich.map(Enrich.java:7)'
    """
    deepest, is_open = None, True
    above = ""
    for line in _without_suppressed(lines, begun=False):
        if _PYTHON_CALL.match(line):
            continue
        if line.strip().startswith("Caused by: "):
            is_open = True
        is_cut = above.endswith((".", "("))  # a mail program wrapped the frame above
        above = line.rstrip()
        found = _FRAME_LINE.match(line) if is_open and not is_cut else None
        if found is None:
            continue
        frame = found[1]
        name = frame[frame.rfind("/", 0, frame.find("(")) + 1 :]
        if not is_library(name) and component_named(name.partition("(")[0]) is None:
            deepest, is_open = name[:CAUSE_CHARACTERS], False
    return deepest


def middle_of(chain: Sequence[str]) -> dict[str, str]:
    """Return the messages between the outermost and the deepest exception as a field. They may contain advice.

    >>> middle_of(["a.A: x", "b.B: set y", "c.C: z"]), middle_of(["a.A: x", "c.C: z"])
    ({'middle': 'b.B: set y'}, {})
    """
    texts = [text[:CAUSE_CHARACTERS] for text in chain[1:-1]]
    return {"middle": "\n".join(dict.fromkeys(texts[-_MIDDLE:]))} if texts else {}


def thrown_at(lines: Iterable[str]) -> str | None:
    """Return the topmost frame outside the JDK in the deepest cause, where the exception was thrown.

    >>> thrown_at(["a.E", "\\tat java.util.Objects.requireNonNull(Objects.java:221)", "\\tat org.apache.flink.A.b(A.java:1)"])
    'org.apache.flink.A.b(A.java:1)'
    """
    found, is_open = None, True
    for line in _without_suppressed(lines, begun=False):
        if line.strip().startswith("Caused by: "):
            is_open = True
        frame = _FRAME_LINE.match(line) if is_open else None
        if frame is not None and not _PYTHON_CALL.match(line):
            name = frame[1][frame[1].rfind("/", 0, frame[1].find("(")) + 1 :]
            if not name.startswith(_OF_JDK):
                found, is_open = name[:CAUSE_CHARACTERS], False
    return found


def referenced_cause(text: str, known: Iterable[str | None]) -> str:
    """Return a cause that Java prints only as a reference, or an empty string if it is already known.

    Java prints each exception in full only once, which may be below a suppressed exception that has the same cause.

    >>> referenced_cause("[CIRCULAR REFERENCE: a.b.XException: old]", ()), referenced_cause("[CIRCULAR REFERENCE: x]", ["x"])
    ('a.b.XException: old', '')
    """
    if "CIRCULAR REFERENCE" not in text[:40]:
        return text
    shared = _CIRCULAR.match(text)
    return "" if shared is None or shared[1] in known else shared[1]


def _without_suppressed(lines: Iterable[str], *, begun: bool) -> Iterator[str]:
    """Yield the lines that are not blank and not part of a suppressed exception.

    Args:
        lines: the lines below a record.
        begun: see `_with_python_causes`.
    """
    suppressed: int | None = None  # indentation of the current suppressed exception
    for line in _with_python_causes(map(_to_cause_line, lines), begun=begun):
        text = line.strip()
        if not text:
            continue
        if text.startswith("Suppressed: "):
            indent = len(line) - len(line.lstrip())
            suppressed = indent if suppressed is None else min(suppressed, indent)
            continue
        if suppressed is not None:
            indent = len(line) - len(line.lstrip())
            is_cause = text.startswith(("Caused by: ", "Wrapped by: "))
            if indent > suppressed or (is_cause and indent == suppressed):
                continue
            if is_cause:
                suppressed = None
        yield line


def _with_python_causes(lines: Iterable[str], *, begun: bool) -> Iterator[str]:
    """Turn the error of a Python traceback in an exception's message into a cause of the exception.

    Args:
        lines: the lines below a record.
        begun: whether a traceback starts in the record's own line.
    """
    inside, frames = begun, 0
    in_message = False  # between an exception and its first frame, so that a traceback is part of its message
    for line in lines:
        error = _PYTHON_ERROR if not frames else _PYTHON_LAST
        if inside and line[:1] not in " \t" and error.match(line) is not None:
            inside, frames = False, 0
            line = f"Caused by: {line}"
        else:
            text = line.strip()
            frames += inside and text.startswith('File "')
            begins = text.endswith(_PYTHON_BEGINS) and (in_message or text != _PYTHON_BEGINS)
            inside = inside or begins
            starts = is_exception_line(line) or text.startswith("Caused by: ")
            in_message = starts or (in_message and _FRAME_LINE.match(line) is None)
        yield line


def _to_cause_line(line: str) -> str:
    """Convert Spark's line about a previous exception to a `Caused by` line."""
    text = line.strip()
    return f"Caused by: {text.removeprefix(_BEFORE)}" if text.startswith(_BEFORE) else line


def python_root(text: str) -> str:
    """Return the error of a Python traceback in an exception message. Return other text unchanged.

    >>> python_root("a.B: SDK harness: Traceback (most recent call last): File \\"j.py\\", line 2 x[k] KeyError: 'k'")
    "KeyError: 'k'"
    >>> python_root("java.io.IOException: Broken pipe")
    'java.io.IOException: Broken pipe'
    """
    _, begins, below = text.rpartition(_PYTHON_BEGINS)
    found = [*_PYTHON_ENDS.finditer(below[:_TRACEBACK])] if begins else []
    return below[found[-1].start() :].strip() if found else text


def _without_wrappers(text: str) -> str | None:
    """Return the class and message without Flink's wrappers, or None if only wrappers are left."""
    text = text.strip()
    if text.startswith('Exception in thread "'):
        text = text[text.find('" ', 21) + 2 :]
    wrapper = _SERIALIZED.match(text)
    if wrapper is not None:
        text = text[wrapper.end() :]
    return short_request(text.strip())[:CAUSE_CHARACTERS] or None
