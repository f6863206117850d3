"""Turns a Spark exception into parts of a finding: its class, its numbers, and the actions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.knowledge.exceptions import cause_of_class
from flowdiag.analyses.knowledge.message_advice import component_step, frame_action, with_advice
from flowdiag.analyses.model.finding import Action, Measurement
from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.assessment import AssessedApplication
from flowdiag.analyses.rate.facts import Record
from flowdiag.analyses.rate.failures.executors import meaning_of_exit
from flowdiag.analyses.rate.failures.troubles import error_line
from flowdiag.parsers.components import components
from flowdiag.parsers.exceptions import Classified, is_wrapper


def classify_record(record: Record) -> Classified | None:
    """Return the class of the exception. Pasted exceptions were classified while parsing."""
    name = record.fields.get("class")
    if name is None:
        # Imported late: line readers need Arrow, which listing the rules does not.
        from flowdiag.parsers.logs.pastes import classify_text

        found = classify_text(record.cause, "spark")
        if found is None or is_wrapper(found.name):
            # A long exception is shortened and ends with the Python error, so the classes in between are missing.
            found = classify_text(error_line(record.cause), "spark") or found
        if found is not None:
            found.values.update({key: record.fields[key] for key in _HEAP if key in record.fields})
        return found
    options = tuple(record.fields.get("options", "").split())
    return Classified(name, "", 0, dict(record.fields), options)


_OF_CODE: Final = (
    "invalid-sql",
    "failing-batches", "no-connection-left", "service-unreachable", "unreadable-record", "not-serializable",
    "python-worker-lost",
)  # fmt: skip
_HEAP: Final = ("where", "by", "process")


def cause_of_exception(found: Classified | None) -> tuple[str, tuple[str, ...]]:
    """Return the cause of an exception and the fitting remedies; `failing-batches` if it is unknown."""
    if found is None:
        return "failing-batches", ()
    cause, names = cause_of_class(found.name, "failing-batches")
    if cause == "task-failure":  # a cause of Flink only
        return "failing-batches", names
    if cause == "out-of-memory" and _is_of_driver(found):
        return cause, ("spark-driver-heap",)
    if cause == "class-loading":
        return cause, _linkage_remedies(found)
    return cause, names


_OF_SCALA: Final = re.compile(r"scala[./]|\bscala\$")
_PACKAGES: Final = {
    "kafka": "org.apache.spark:spark-sql-kafka-0-10_2.12:VERSION (or _2.13)",
    "avro": "org.apache.spark:spark-avro_2.12:VERSION (or _2.13)",
    "protobuf": "org.apache.spark:spark-protobuf_2.12:VERSION (or _2.13)",
    "com.databricks.spark.avro": "org.apache.spark:spark-avro_2.12:VERSION (or _2.13)",
}
"""The packages of Spark's data sources, by the name of the source."""


def _linkage_remedies(found: Classified) -> tuple[str, ...]:
    """Return the remedies for a missing class of Spark: add its package, or use another Scala version."""
    if found.name == "main-class-missing":
        return ("main",)
    if found.name == "class-conflict":
        return ("spark-version",)
    if found.values.get("identifier", "").lower().rstrip(".") in _PACKAGES:
        return ("spark-source",)
    return (
        ("spark-scala",)
        if _OF_SCALA.match(found.values.get("class_name", ""))
        else ("spark-package",)
    )


def _is_of_driver(found: Classified) -> bool:
    if found.values.get("where") == "driver":
        return True
    # The driver's log also contains the errors of Python workers.
    of_worker = "spark-python" in cause_of_class(found.name, "failing-batches")[1]
    return found.values.get("process") == "spark-driver" and not of_worker


def process_note(found: Classified | None) -> str:
    """Return a note for an exception of the driver or an exit code, or nothing for other exceptions."""
    if found is not None and "exit_code" in found.values:
        return meaning_of_exit(f"exit code {found.values['exit_code']}")
    if found is None or not _is_of_driver(found) or cause_of_exception(found)[0] != "out-of-memory":
        return ""
    by = ": a collect transfers the rows of all tasks to the driver" if "by" in found.values else ""
    return f"The driver, not an executor, ran out of memory{by}."


# Measurement name and unit of the values in exceptions.
_VALUES: Final = {
    "needed": ("needed", None),
    "available": ("available", None),
    "used": ("used", None),
    "total": ("total", None),
    "from": ("before", None),
    "to": ("now", None),
    "waited_ms": ("waited", "ms"),
    "waited_s": ("waited", "s"),
    "exit_code": ("exit-code", None),
    "executor": ("executor", None),
    "partition": ("partition", None),
}


_SIZES: Final = ("needed", "available", "used", "total")
_UNITS: Final = {"memory-full": "bytes", "direct-memory-full": "bytes"}
_CHANGED: Final = {
    "offsets-went-back": "offset",
    "offsets-gone": "offset",
    "checkpoint-changed": "sources",
}
"""Patterns for exceptions that contain the values `before` and `now`, with the name of the value."""


def exception_measurements(found: Classified | None) -> Iterator[Measurement]:
    if found is None:
        return
    for key, (name, unit) in _VALUES.items():
        value = found.values.get(key)
        if value is not None:
            number = value.removeprefix("-").isdecimal() and key not in ("executor", "partition")
            what = _CHANGED.get(found.name) if key in ("from", "to") else None
            unit_name = unit or (_UNITS.get(found.name) if number and key in _SIZES else None)
            yield h.measurement(
                f"{what}-{name}" if what else name, float(value) if number else value, unit_name
            )


# Errors while reading a record, and errors that a record may cause in user code.
_READING: Final = re.compile(
    r"(?i:deseriali[sz]|serializationexception|malformed|(?<!s)pars(?:e|ing)|decod(?:e|ing)"
    r"|corrupt|(?:avro|json|proto)\w{0,40}(?:exception|error))"
    r"|NumberFormat|For input string|could not convert|invalid literal|CAST_INVALID|CAST_OVERFLOW|DateTimeException"
    r"|UPGRADE_EXCEPTION|InvalidProtocolBuffer|Expecting value|ClassCastException|cannot be cast"
)
_OF_RECORDS: Final = re.compile(
    r"\b(?:\w{0,40}(?:NullPointer|Arithmetic|IndexOutOfBounds|IllegalArgument|IllegalState|NoSuchElement)Exception"
    r"|MatchError|KeyError|ValueError|TypeError|IndexError|AttributeError|ZeroDivisionError|AssertionError)\b"
)
_RECOMMENDED: Final = re.compile(
    r"\b(?:set|setting|enable|use) (?:the )?(?:[a-z]{1,20} )?(?:option|configuration|config|conf|property)"
    r" ['\"`]?(?P<option>[A-Za-z][\w.]{2,100})['\"`]? (?:to|=) ['\"`]?(?P<value>[\w.-]{1,60}?)['\"`.,;]*(?=\s|$)"
)


def failure_remedies(text: str, for_records: str) -> tuple[str, ...]:
    """Return the remedies for a failure of an unknown class, according to its message.

    Args:
        text: class and message.
        for_records: `tolerate` or `catch`, the remedy for records that cannot be read or processed.

    >>> failure_remedies("java.lang.NumberFormatException: For input string", "tolerate")
    ('tolerate',)
    >>> failure_remedies("psycopg2.OperationalError: SSL SYSCALL error", "tolerate")
    ('fix-error',)
    """
    of_records = _READING.search(text) or (for_records == "catch" and _OF_RECORDS.search(text))
    return (for_records,) if of_records else ("fix-error",)


def recommended_options(text: str) -> dict[str, str]:
    """Return the options that an exception recommends, with their values.

    >>> recommended_options("If you'd like to ignore deletes, set the option 'ignoreDeletes' to 'true'. The table")
    {'ignoreDeletes': 'true'}
    """
    return {found["option"]: found["value"] for found in _RECOMMENDED.finditer(text)}


def failure_actions(
    assessed: AssessedApplication, record: Record, error: str, for_records: str
) -> tuple[Action, ...]:
    """Return the actions for an exception, according to its class or else its message."""
    found = classify_record(record)
    cause, names = cause_of_exception(found)
    text = "\n".join(filter(None, (*map(record.fields.get, ("exception", "middle")), record.cause)))
    if cause != "failing-batches" or names:
        known = exception_actions(assessed, cause, names, found, record)
        return with_advice(known or _component_actions(record, ()) or _FIX_ERROR, text, error)
    offered = tuple(
        Action(
            text=f"Decide whether to set {option} to {value}, as the exception suggests",
            option=option,
            measure="the records that this setting skips",
            verify="the query completes the batch that failed",
        )
        for option, value in recommended_options(text).items()
    )
    names = failure_remedies(error, for_records)
    known = offered or exception_actions(assessed, cause, names, found, record)
    return with_advice(_component_actions(record, known), text, error)


_FIX_ERROR: Final = (Action(text="Fix the error in the stack trace below"),)


def _component_actions(record: Record, known: tuple[Action, ...]) -> tuple[Action, ...]:
    """Return a first check of the component that threw the exception, if the trace shows no user code."""
    source = components().get(record.fields.get("component", ""))
    if source is None or source.role != "part" or frame_action(record.fields):
        return known
    of_error = (action for action in known if "Fix " in action.text or action.option)
    return (Action(text=component_step(source, record.cause or "")), *of_error)


def exception_actions(
    assessed: AssessedApplication,
    cause: str,
    names: tuple[str, ...],
    found: Classified | None,
    record: Record | None = None,
) -> tuple[Action, ...]:
    """Return the remedies for the cause, with the line of user code and the options in the exception."""
    source = found.values.get("identifier", "").lower().rstrip(".") if found is not None else ""
    known = h.remedies(cause, assessed.app, *names, package=_PACKAGES.get(source, ""), now="")
    of_python = found is not None and found.name == "python-memory-full"
    if record is not None and (cause in _OF_CODE or of_python):
        known = (*frame_action(record.fields), *known)
    covered = {action.option for action in known}
    return (
        *known,
        *(
            Action(
                text=f"Check {key}, which the exception names",
                option=key,
                measure="the value that the exception mentions",
            )
            for key in (found.options if found is not None else ())
            if key not in covered
        ),
    )
