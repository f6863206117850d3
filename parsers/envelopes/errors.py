"""Finds exceptions in JSON objects that store the class, message, trace and cause as separate values.

Such objects are responses of services and results of job runs. The names of the keys show what a value is. An object
without such keys reports no failure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from flowdiag.parsers.lines.failure_lines import is_wrapper_failure

_DEPTH: Final = 8
_MOST: Final = 400  # maximum lines of one response
_Fields = Mapping[str, Any]

# Keys are compared in lower case without `_`, `-`, `.` and `@`.
_NAMES: Final = (
    "errorclass", "exceptionclass", "exceptionclassname", "errorname", "exceptionname", "exceptiontype", "errortype",
    "ename", "classname", "javaclassname", "errorcode", "azureerrorcode", "awsapierrorcode", "gcperrorcode",
    "statuscode", "class", "type", "code", "name", "exception", "errorcategory",
)  # fmt: skip
_MESSAGES: Final = (
    "errormessage", "exceptionmessage", "evalue", "azureerrormessage", "awsapierrormessage", "databrickserrormessage",
    "message", "localizedmessage", "msg", "statemessage", "statedetails", "statechangereason", "failuremessage",
    "failurereason", "errordescription", "errordetails", "errordetail", "diagnostics", "detail", "details", "reason",
    "description", "error",
)  # fmt: skip
_OF_ERRORS: Final = re.compile(r"error|exception|failure|evalue|azure|awsapi|statechangereason")
"""Keys of messages that occur only in failures."""
_TRACES: Final = (
    "errortrace", "stacktrace", "traceback", "trace", "stack", "remotestacktrace", "exceptionstacktrace", "callstack",
    "extendedstacktrace",
)  # fmt: skip
_INNER: Final = (
    "error", "exception", "exceptions", "errors", "failure", "failures", "cause", "causedby", "innererror",
    "innerexception", "rootcause", "terminationreason", "failureinfo", "errordetails", "parameters", "serializedthrowable",
)  # fmt: skip
"""Keys of objects that describe a failure, outermost first."""
_EXCEPTION: Final = re.compile(
    r"(?:[a-z_]\w{0,80}\.){0,16}[A-Z][\w$]{0,120}(?:Exception|Error|Throwable|Failure)(?:\$\w{1,80})?\Z|(?:[a-z_]\w{0,80}\.){2,16}[A-Z][\w$]{2,120}\Z"
)
_CODE: Final = re.compile(
    r"[A-Z][A-Z0-9]{1,40}(?:[_.][A-Z0-9]{1,40}){1,10}\Z|(?:[A-Z][a-z0-9]{1,30}){2,10}\Z"
)
_FAILED: Final = re.compile(
    r"(?i:failed|failure|fail|error|errored|internal_error|timedout|terminated_with_errors|cancelled_by_error)\Z"
)
_STATES: Final = ("status", "state", "resultstate", "lifecyclestate", "jobrunstate", "success")
_PYTHON: Final = "Traceback (most recent call last)"


def lines_of_errors(value: object) -> list[str]:
    r"""Return the failures in an object as lines, in the format in which Java prints exceptions.

    >>> lines_of_errors({"errorClass": "a.b.XException", "message": "no batch", "cause": {"message": "disk full", "class": "a.YError"}})
    ['a.b.XException: no batch', 'Caused by: a.YError: disk full']
    >>> lines_of_errors({"error_code": "QUOTA_EXCEEDED", "message": "5 of 5 clusters"}), lines_of_errors({"message": "fine"})
    (['Error: QUOTA_EXCEEDED: 5 of 5 clusters'], [])
    """
    found: list[str] = []
    failures = [lines for lines in _failures(value, _DEPTH, inside=False) if lines]
    # A message that only refers to another failure is never the deepest one.
    for lines in sorted(failures, key=lambda lines: not is_wrapper_failure(lines[0])):
        begin = lines[0] in found or any(lines[0] in one for one in found)
        if not begin and len(found) < _MOST:
            first = lines[0].removeprefix("Error: ") if found else lines[0]
            found += [f"Caused by: {first}" if found else first, *lines[1:]]
    return found[:_MOST]


def _failures(value: object, depth: int, *, inside: bool) -> Iterator[list[str]]:
    """Yield the lines of each failure; an object comes before the objects inside it.

    Args:
        value: any JSON value.
        depth: maximum nesting.
        inside: whether the key of the value shows that it describes a failure.
    """
    if isinstance(value, list) and depth:
        for each in value[:20]:
            yield from _failures(each, depth - 1, inside=inside)
    elif isinstance(value, dict) and depth:
        yield from _failures_in_object(value, depth, inside=inside)


def _failures_in_object(value: _Fields, depth: int, *, inside: bool) -> Iterator[list[str]]:
    keys = {re.sub(r"[_\-.@]", "", key).lower(): key for key in value}
    lines = _own_lines(value, keys, inside=inside)
    if lines:
        yield lines
    inner = [keys[name] for name in _INNER if name in keys]
    for key in (*inner, *(key for key in value if key not in inner)):
        below = _decode_string(value[key])
        if not isinstance(below, str):
            yield from _failures(below, depth - 1, inside=inside or key in inner)
        elif key in inner and lines and _is_text(below) and " " in below and below not in lines[0]:
            yield ["Error: " + below]


def _decode_string(value: object) -> object:
    """Decode JSON in a string; return other values unchanged."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return value


def _own_lines(value: _Fields, keys: Mapping[str, str], *, inside: bool) -> list[str]:
    """Return the lines of the failure that an object itself describes. Nested objects are left out."""
    name = next((text for _, text in _texts(value, keys, _NAMES) if _is_name(text)), "")
    key, message = next(_texts(value, keys, _MESSAGES), ("", ""))
    trace = next((text for _, text in _texts(value, keys, _TRACES)), "")
    is_class = _EXCEPTION.match(name) is not None
    failed = any(_FAILED.match(str(value[keys[each]])) for each in _STATES if each in keys)
    shown = (
        inside
        or is_class
        or _OF_ERRORS.search(key) is not None
        or (failed and bool(message))
        or (bool(name) and any("error" in each for each in keys))
    )
    return _with_trace(_first_line(name, message, is_class=is_class), trace) if shown else []


def _first_line(name: str, message: str, *, is_class: bool) -> str:
    """Join the class or code and the message into one line. Without a class, the line starts with `Error`."""
    if is_class or _EXCEPTION.match(message.partition(":")[0]):
        return ": ".join(
            filter(None, (name if is_class else "", message.removeprefix(f"{name}: ")))
        )
    parts = [part for part in (name, message) if part and part != "Error"]
    return ": ".join(["Error", *parts]) if parts else ""


def _with_trace(text: str, trace: str) -> list[str]:
    """Join an exception and its trace. The trace may repeat the first line; in Python, it precedes the error."""
    lines, own = trace.split("\n"), text.split("\n")
    if not trace.strip():
        return own if text else []
    if _PYTHON in trace:
        return lines if not text or own[0].removeprefix("Error: ")[:60] in trace else [*lines, *own]
    repeated = bool(text) and own[0].removeprefix("Error: ")[:60] in trace
    return lines if repeated or not text else [*own, *lines]


def _texts(
    value: _Fields, keys: Mapping[str, str], names: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    """Yield the texts at these keys; a list of lines becomes one text."""
    for name in names:
        text = value.get(keys.get(name, ""))
        if isinstance(text, list) and text and all(isinstance(line, str) for line in text):
            text = "\n".join(text)
        if isinstance(text, str) and _is_text(text) and _decode_string(text) is text:
            yield name, text.strip("\r\n ")


def _is_text(text: str) -> bool:
    return text.strip().lower() not in ("", "null", "none", "n/a", "-")


def _is_name(text: str) -> bool:
    return _EXCEPTION.match(text) is not None or _CODE.match(text) is not None
