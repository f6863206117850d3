"""Creates rows for the failures in a text that no record reports."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Final

from flowdiag.parsers.components import component_of, process_of
from flowdiag.parsers.exceptions import (
    OTHER_CLASS,
    Classified,
    is_root_cause,
    is_wrapper,
    task_named_in,
)
from flowdiag.parsers.flink.failures import lost_peer
from flowdiag.parsers.lines.failure_lines import (
    KNOWN_RECORD,
    ended_by,
    is_overcome,
    is_routine,
    is_survived,
    is_wrapper_failure,
    short_failure,
    was_stopped,
)
from flowdiag.parsers.lines.traces import CAUSE_CHARACTERS, middle_of, own_frame
from flowdiag.parsers.logs.paste_patterns import GRAVE
from flowdiag.parsers.logs.pasted import Pasted
from flowdiag.parsers.logs.pastes import HEAD_BYTES, PROSE_BYTES, engine_and_class, failures_in
from flowdiag.parsers.messages import parse_task
from flowdiag.parsers.rows import Event, Row

_QUERY = re.compile(
    r"Identifier: (?P<name>[^\[\n]{0,200}?) ?\[id = (?P<id>[^,\]\s]{1,60}), runId = (?P<run>[^,\]\s]{1,60})\]"
)
_QUERY_ID = re.compile(
    r"[Qq]uery (?P<name>[^\[\n]{0,200}?) ?\[id = (?P<id>[^,\]\s]{1,60}), runId = (?P<run>[^,\]\s]{1,60})\]"
)
_QUERY_CELLS = re.compile(
    r"(?P<name>[^\t|]{0,200}?)[\s|]{1,20}FAILED[\s|]{1,20}(?P<id>[0-9a-f-]{36})[\s|]{1,20}(?P<run>[0-9a-f-]{36})\b"
)
"""Matches the first cells of a failed query in the Structured Streaming tab of Spark's Web UI."""
_SILENT = re.compile(r"eartbeat of TaskManager|is no longer reachable")
_QUIET: Final = ("INFO", "DEBUG", "TRACE")
_SHUTDOWN: Final = re.compile(r"\bshutdown-hook-\d|ShutdownHook(?:Manager)?\b")
_VALUES: Final = frozenset(
    {"class", "exception", "user_frame", "options", "origin", "what", "run_id"}
)


def paste_rows(
    data: bytes,
    engine: str,
    source: int,
    *,
    whole: bool,
    failed: bool,
    known: Mapping[int, bool] = MappingProxyType({}),
    counts: Callable[[Pasted], bool] = lambda _: True,
) -> Iterator[Row]:
    """Yield rows for the failures that no record reports.

    An exception of a known class is a failure of the job. Below other records, the job may have handled it, so there
    its text must show that the job failed. Everything else is a `failure`, which rules compare with the outcome of
    the job.

    Args:
        data: the text, or its beginning.
        engine: engine of the source: flink, spark or unknown.
        source: index of the source.
        whole: whether `data` is the whole text.
        failed: whether records report failures. If so, exceptions below other records only repeat them.
        known: the records with a known message, by offset, with whether each reports its own exception.
        counts: returns whether to include a failure.
    """
    given = engine if engine in ("flink", "spark") else None
    for pasted in filter(counts, failures_in(data, whole=whole)):
        if _is_over(pasted, data):
            continue
        written_by, found = engine_and_class(pasted, given)
        if _is_reported(pasted, known):
            # Rules may ignore records below INFO, and then the exception may be the only sign of the failure.
            quiet = pasted.level in _QUIET
            searched = HEAD_BYTES if pasted.level in GRAVE else PROSE_BYTES
            if not (pasted.plain and quiet) and len(data) <= searched:
                yield _failure(pasted, found, written_by, source) | {"template": KNOWN_RECORD}
            continue
        if len(data) > PROSE_BYTES and (
            _answers_request(pasted) or is_routine((pasted.cause(found, outer=False)[0],))
        ):
            continue
        if _ends_script(pasted, data):
            row = _failure(pasted, found, written_by, source)
            row["fields"]["ended"] = "application"
            yield row
        elif _is_undecided(pasted, found, written_by, failed=failed):
            row = _failure(pasted, found, written_by, source)
            if _is_survived(pasted, data):
                row["fields"]["survived"] = "process"
            yield row
        else:
            yield _row(pasted, found, written_by, source)


def _is_over(one: Pasted, data: bytes) -> bool:
    """Return whether the process overcame a failure, or only logged it because something stopped it on purpose."""
    text = f"{one.heading.message if one.heading else ''} {' '.join(one.chain)}"
    if is_overcome(text, _below(one, data), grave=one.level in GRAVE):
        return True
    if one.heading is None or one.level not in GRAVE:
        return False
    if not one.plain or not is_routine((text,)):
        return False
    return was_stopped(data[: one.offset].decode("utf-8", "replace"))


def _is_survived(one: Pasted, data: bytes) -> bool:
    """Return whether the process continued after a failure that was logged below ERROR and ended no process, job or task."""
    if one.heading is None or one.level in GRAVE:
        return False
    return ended_by((one.heading.message, *one.chain)) is None and is_survived(_below(one, data))


def _below(one: Pasted, data: bytes) -> bytes:
    """Return the text below the first line of a failure, or below the JSON document that contains it."""
    text = data[one.offset : one.offset + HEAD_BYTES]
    if text.startswith(b"{"):
        document = text.decode("utf-8", "replace")
        with suppress(ValueError):
            return document[json.JSONDecoder().raw_decode(document)[1] :].encode()
    return text.partition(b"\n")[2]


def _answers_request(one: Pasted) -> bool:
    """Return whether the JobManager only failed to answer a request about a job. The job itself is not affected."""
    logger = (one.heading.logger if one.heading is not None else None) or ""
    return _HANDLER.search(logger) is not None and _CHANGES_A_JOB.search(logger) is None


_HANDLER: Final = re.compile(r"\brest\.h\w{0,6}\.[\w.]{0,100}Handler\Z")
_CHANGES_A_JOB: Final = re.compile(r"Jar|Submit|Savepoint|Checkpoint|Rescal|Stop|Cancel|Terminat")


def _ends_script(one: Pasted, data: bytes) -> bool:
    """Return whether a Python exception ended the script, because the text ends with it or Spark then shuts down.

    Spark's own exceptions do not count, because other rules judge them.
    """
    if not one.python_trace.in_module or one.python_at is None or one.chain[:1] != [one.python]:
        return False
    last = (
        0
        if one.then is None
        else max(0, data.find(one.then.encode(), one.python_at) - one.python_at)
    )
    after = data[one.python_at + last :].partition(b"\n")[2]
    return not after.strip() or b" shutdown hook" in after[:_SHUTDOWN_BYTES] or _stops(after)


def _stops(after: bytes) -> bool:
    """Return whether Spark loses its Python process or its context soon after. A log at WARN has no shutdown hook."""
    found = [at for mark in _STOPPED if (at := after.find(mark)) >= 0]
    between = after[: min(found, default=0)]
    return bool(found) and sum(map(between.count, _LEVELS)) <= _LAST_RECORDS


_STOPPED: Final = (
    b"Received empty command",
    b"SparkContext was shut down",
    b"stopped SparkContext",
    b'SparkContext.dagScheduler()" is null',
)
_LEVELS: Final = (b" INFO ", b" WARN ")
_LAST_RECORDS: Final = 2
"""Maximum number of ordinary records in between: a script that continues after an exception leaves more."""
_SHUTDOWN_BYTES: Final = 4000
"""Maximum distance to the shutdown: when a script ends, a shutdown hook stops Spark a few lines later."""


def _is_undecided(one: Pasted, found: Classified | None, engine: str, *, failed: bool) -> bool:
    """Return whether the text does not show if the job failed for this reason."""
    if one.plain or (one.inline and not (one.frames or one.task)):
        return True  # perhaps a record with an unknown layout
    if one.level is not None:
        return failed or not _is_failure(one, found, engine)
    return found is None and ended_with(one) not in _OF_JOBS


def _is_reported(one: Pasted, known: Mapping[int, bool]) -> bool:
    """Return whether a record with a known message already reports this failure."""
    if one.heading is not None:
        above = known.get(one.heading.offset)
        # The exception's own line may be a known message.
        is_message = any(at in known for at in one.at)
        return bool(above) or (above is not None and one.plain) or is_message
    if one.inline and not one.frames:
        return one.offset in known
    # The record on the same line may report less, such as a lost task instead of the end of the job.
    return one.plain and one.offset in known and ended_with(one) in (None, "task", "process")


_OF_JOBS: Final = ("query", "job", "batch", "task")
"""Values of `ended_with` that the rules about tasks, jobs and batches report."""


def ended_with(one: Pasted) -> str | None:
    if one.task is not None:
        return "task"
    above = one.heading.message if one.heading else ""
    lines = [] if _is_part(one) else one.lines
    if one.heading is not None:
        lines = [
            line for line in lines if _MAIN not in line
        ]  # an exception in a record was caught, whatever its frames
    return ended_by((above, *one.chain, *lines))


_MAIN: Final = ".deploy.SparkSubmit"
"""The lowest frames of a driver's main thread."""


def _is_part(one: Pasted) -> bool:
    """Return whether the stack trace starts with a cause, so that the exception above it is missing."""
    return (
        one.heading is None
        and one.lines[:1] != []
        and one.lines[0].lstrip().startswith("Caused by")
    )


def _is_failure(one: Pasted, found: Classified | None, engine: str | None) -> bool:
    """Return whether an exception below an unknown record is a failure rather than a handled exception.

    Clients log errors such as timeouts, refused connections and missing files before they retry. Only Spark's own
    messages report the end of a job or query.
    """
    if one.thread is not None:
        return True  # uncaught: it ended the query's thread
    if one.level not in GRAVE or found is None:
        return False
    if engine == "spark":
        return any(_ENDED.search(text) for text in one.chain)
    by_flink = any(text.startswith("org.apache.flink.") for text in one.chain)
    known = is_root_cause(found.name) or is_wrapper(found.name)
    return known and (by_flink or found.kind == "out-of-memory")


_ENDED = re.compile(r"StreamingQueryException|Job aborted|Writing job aborted|Py4JJavaError")


def _row(one: Pasted, found: Classified | None, engine: str, source: int) -> Row:
    outer = found is not None and is_wrapper(found.name)
    cause, offset = one.cause(found, outer=outer)
    fields = _fields(one, found, engine)
    row: Row = {
        "source": source,
        "offset": offset,
        "template": "bare-exception",
        "local_us": one.local_us,
        "utc_us": one.utc_us,
        "cause": cause[:CAUSE_CHARACTERS],
        "fields": fields,
    }
    if one.clock is not None:
        row["clock"] = one.clock
    if one.level is not None:
        row["level"] = fields["headed"] = one.level
    if engine == "spark":
        return row | _query_columns(one, fields)
    row["event"] = Event.EXCEPTION.value
    row |= _task_columns(one)
    if found is not None and found.kind == "taskmanager-lost":
        peer = next((p for text in reversed(one.chain) if any(p := lost_peer(text))), None)
        if peer is not None:
            fields["lost_taskmanager"], fields["lost_host"] = peer[0] or "", peer[1] or ""
            if _SILENT.search(cause):
                row["taskmanager"], row["host"] = peer
    return row


def _failure(one: Pasted, found: Classified | None, engine: str, source: int) -> Row:
    """Build the row for a failure that belongs to no class, or whose effect the text does not show."""
    cause, offset = one.cause(found, outer=False)
    if found is None and one.heading is not None and one.level in GRAVE and _follows(one, cause):
        above = one.heading.message  # the exception is only a consequence of the error above it
        if len(above.split()) > 3 and not is_routine((above,)):
            cause, offset = above, one.heading.offset
    fields = _fields(one, found, engine)
    fields["ended"] = _ended_process(ended_with(one) or "", fields.get("process"))
    fields["level"] = one.level or ""
    logger = None
    if one.heading is not None:
        logger, fields["message"] = one.heading.logger, one.heading.message[:CAUSE_CHARACTERS]
    # Something else stopped the process.
    if _SHUTDOWN.search(f"{logger} {fields.get('message', '')} {cause} {' '.join(one.lines[1:9])}"):
        fields["follows"] = "yes"
        fields.pop("component", None)
    return {
        "source": source,
        "offset": offset,
        "event": Event.FAILURE.value,
        "template": "plain-failure" if one.plain else "other-exception",
        "local_us": one.local_us,
        "utc_us": one.utc_us,
        "clock": one.clock,
        "level": one.level,
        "logger": logger,
        "cause": _shorten_cause(cause),
        "fields": {key: value for key, value in fields.items() if value},
        **_task_columns(one),
    }


def _shorten_cause(cause: str) -> str:
    """Shorten a cause to `CAUSE_CHARACTERS`, using the summary of a longer report."""
    if len(cause) > CAUSE_CHARACTERS:
        cause = short_failure(cause) or cause
    return cause[:CAUSE_CHARACTERS]


_ENDED_IN_PROCESS: Final = {
    ("application", "spark-executor"): "process",
    ("task", "spark-driver"): "",
}


def _ended_process(ended: str, process: str | None) -> str:
    """Return what a failure ended. The main thread of an executor ends no application, and the driver runs no tasks."""
    return _ENDED_IN_PROCESS.get((ended, process or ""), ended)


def _follows(one: Pasted, cause: str) -> bool:
    """Return whether an exception only repeats the error of the record above it."""
    above = one.heading.message if one.heading is not None else ""
    return is_routine((cause,)) or (is_wrapper_failure(cause) and ": " in above)


def _fields(one: Pasted, found: Classified | None, engine: str) -> dict[str, str]:
    fields = {"exception": one.chain[0][:CAUSE_CHARACTERS]} | middle_of(one.chain)
    if found is not None:
        fields["class"] = found.name
        fields |= {name: value for name, value in found.values.items() if name not in _VALUES}
        if found.options:
            fields["options"] = " ".join(found.options)
    elif one.classified_by_words(engine) is not None:
        fields["class"] = OTHER_CLASS
    if (frame := one.user_frame) is not None:
        fields["user_frame"] = frame
    if (own := own_frame(one.lines)) is not None:
        fields["own_frame"] = own
    if (component := component_of(one.chain, one.lines, logger_above(one))) is not None:
        fields["component"] = component.name
    if one.python_trace.frame is not None:
        fields["python_frame"] = one.python_trace.frame
    above = one.heading.message if one.heading is not None else ""
    fields |= _process(one, engine, above)
    if (of_task := _EXECUTOR.search("\n".join((*one.chain, above)))) is not None:
        fields["place"] = f"executor {of_task['executor']} on {of_task['host']}"
    return fields


_EXECUTOR: Final = re.compile(
    r"\(TID \d{1,12}(?:\) \(|, )(?P<host>[\w.:-]{1,200}),? executor (?P<executor>\w{1,40})\)"
)
"""The executor of a Spark task, in the text of its failure."""


def _process(one: Pasted, engine: str, above: str) -> dict[str, str]:
    """Return the name of the process as a field, if it is known. Spark's driver runs notebooks and Py4J's gateway."""
    if (process := process_of(one.chain, one.lines, logger_above(one), above)) is not None:
        return {"process": process.name}
    in_gateway = any("at py4j." in line for line in one.lines)
    if engine == "spark" and (one.notebook is not None or in_gateway):
        return {"process": "spark-driver"}
    return {}


def logger_above(one: Pasted) -> str | None:
    """Return the logger of the record above an exception, or None."""
    return one.heading.logger if one.heading is not None else None


def _task_columns(one: Pasted) -> Row:
    """Return the outermost subtask, operator or source that a Flink exception mentions, as columns."""
    if one.task is not None:
        name = parse_task(one.task)
        return {
            "task": name.task,
            "subtask_index": name.subtask_index,
            "parallelism": name.parallelism,
            "host": one.location,
        }
    named = task_named_in(one.chain)
    if named is None:
        return {}
    return {
        "task": named.task,
        "subtask_index": named.subtask_index,
        "parallelism": named.parallelism,
    }


def _query_columns(one: Pasted, fields: dict[str, str]) -> Row:
    """Return the columns for a Spark exception: the query that it ended, or the batch that failed."""
    text = " ".join((*one.chain, f"query {one.thread}" if one.thread else ""))
    named = (
        _QUERY.search(text)
        or _QUERY_ID.search(text)
        or _QUERY_CELLS.match((one.row or "").lstrip())
    )
    fields |= {"origin": "paste", "what": "terminated"}
    if named is None and _is_part(one):
        fields["part"] = "cause"
    elif (
        named is None
        and fields.get("process") == "spark-executor"
        and ended_with(one) in ("task", "process")
    ):
        fields["part"] = "task"
    if named is None and one.is_of_dstream:
        fields["what"] = "batch"
        return {"event": Event.SPARK_INCIDENT.value}
    row: Row = {"event": Event.SPARK_QUERY.value}
    if named is not None:
        fields |= {"id": named["id"], "run_id": named["run"]}
        row["job_name"] = named["name"].strip() or None
    return row
