"""Selects the text to quote from large records.

A metrics report has a line for every metric of a TaskManager. A REST response contains all subtasks of a vertex, and
an event in Spark's event log contains all properties of a job. A quote shows only the sample, subtask or fields that
the finding is about, with the names that the format uses.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from flowdiag.parsers.flink.prometheus import FLINK_METRIC, mangle, parse_sample
from flowdiag.parsers.flink.rest_shapes import Kind, kind_of
from flowdiag.parsers.focus import Focus
from flowdiag.parsers.json_values import close_truncated_json, object_at, objects_at
from flowdiag.parsers.stacks.dumps import Thread, flink_threads, jcmd_threads

# Far longer than the line of a sample; of a longer line, only the beginning is quoted.
MAX_LINE: Final = 8192


@dataclass(frozen=True, slots=True)
class Sample:
    """A line with a sample of a metric.

    Attributes:
        line: number of lines before it in the block.
        start: offset of its first byte in the block.
        text: text of the line.
        distance: absolute difference between its value and the judged value.
    """

    line: int
    start: int
    text: str
    distance: float


# -- lines ---------------------------------------------------------------------------------------


def samples_in(block: bytes, focus: Focus) -> Iterator[Sample]:
    r"""Yield the lines of a metrics report or Prometheus text that contain the metric in question, in order.

    All lines belong to the first metric of `focus` that the block contains, because other metrics support other
    claims.

    >>> report = b"head\nw1.taskmanager.t1.orders.enrich.1.busyTimeMsPerSecond: 981\n"
    >>> focus = Focus(metrics=(("busyTimeMsPerSecond", None),), task="enrich", subtask_index=1)
    >>> [sample.text for sample in samples_in(report, focus)]
    ['w1.taskmanager.t1.orders.enrich.1.busyTimeMsPerSecond: 981']
    """
    for metric, near in focus.metrics:
        found = list(_lines_of(block, metric, near, focus))
        named = [sample for sample, by_name in found if by_name]
        if not named and len({sample.text.rpartition(" ")[0] for sample, _ in found}) == 1:
            # Task names are shortened and mangled in many ways, so the subtask number alone is enough.
            named = [sample for sample, _ in found]
        if named:
            yield from named
            return


def _lines_of(
    block: bytes, metric: str, near: float | None, focus: Focus
) -> Iterator[tuple[Sample, bool]]:
    """Yield the lines with a metric of one subtask, each with whether the line contains the task's name."""
    literal, pattern = _pattern(metric)
    lines = at = 0
    literals = {literal.encode(), literal.replace(".", "_").encode()}
    anchors = re.finditer(b"|".join(map(re.escape, literals)), block)
    for start in dict.fromkeys(block.rfind(b"\n", 0, found.start()) + 1 for found in anchors):
        end = block.find(b"\n", start)
        text = block[start : end if end >= 0 else len(block)][:MAX_LINE].decode("utf-8", "replace")
        text = text.rstrip()
        is_series = "{" in text and FLINK_METRIC.match(text.encode().lstrip(b'{"'))
        series = parse_sample(text.encode()) if is_series else None
        if series is not None:
            match, text = _match_series(*series, metric, focus), _series_text(*series)
        else:
            match = _match_report_line(text, pattern, focus)
        if match is None:
            continue
        value, named = match
        lines += block.count(b"\n", at, start)
        at = start
        yield Sample(lines, start, text, 0.0 if near is None else abs(value - near)), named


@lru_cache(maxsize=256)
def _pattern(metric: str) -> tuple[str, re.Pattern[str]]:
    """Return the longest literal part of a metric name, and a pattern for its lines in a report."""
    literal = max(re.split(r"[#*]", metric), key=len)
    name = re.escape(metric).replace(r"\*", r"[^:\s]+?").replace(r"\#", r"\d+")
    return literal, re.compile(rf"(?P<scope>.*?)\W{name}: (?P<value>[-+\w.]+)$")


def _match_report_line(
    text: str, pattern: re.Pattern[str], focus: Focus
) -> tuple[float, bool] | None:
    """Return the value in a report line and whether the line contains the owner's name, or None for another owner."""
    found = pattern.match(text)
    value = None if found is None else _number(found["value"])
    if found is None or value is None:
        return None
    scope = found["scope"]
    if focus.subtask_index is None:
        return value, focus.taskmanager is None or mangle(focus.taskmanager) in mangle(scope)
    task, index = scope[: -len(str(focus.subtask_index))], str(focus.subtask_index)
    if not scope.endswith(index) or task[-1:].isalnum():
        return None
    return value, focus.task is not None and mangle(task).rstrip("_").endswith(
        mangle(focus.task).rstrip("_")
    )


_LABELS: Final = ("tm_id", "task_name", "operator_name", "subtask_index")


def _series_text(name: str, labels: Mapping[str, str], value: float) -> str:
    """Format a series with only the labels that identify its owner, without long IDs."""
    texts = {key.removeprefix("exported_"): text for key, text in labels.items()}
    shown = ",".join(f'{key}="{texts[key]}"' for key in _LABELS if texts.get(key))
    return f"{name}{{{shown}}} {value:.15g}"


def _match_series(
    name: str, labels: Mapping[str, str], value: float, metric: str, focus: Focus
) -> tuple[float, bool] | None:
    """Return the value of a series and whether its labels contain the owner's name, or None for another owner."""
    tail = re.escape(metric.replace(".", "_")).replace(r"\*", r"\w+?").replace(r"\#", r"\d+")
    if not re.search(rf"_{tail}(?:_total)?$", name.replace(".", "_")) or not math.isfinite(value):
        return None
    texts = {key.removeprefix("exported_"): text for key, text in labels.items()}
    index = texts.get("subtask_index")
    if focus.subtask_index is not None:
        named = mangle(texts.get("task_name", "")) == mangle(focus.task or "")
        return (value, named) if index == str(focus.subtask_index) else None
    if index is not None:
        return None
    manager = focus.taskmanager
    return value, manager is None or mangle(texts.get("tm_id", "")) == mangle(manager)


def _number(text: str) -> float | None:
    """Parse a finite number or a boolean; return None for anything else."""
    if text in ("true", "false"):
        return float(text == "true")
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


# -- documents -----------------------------------------------------------------------------------


def entry_text(block: bytes, focus: Focus | None = None) -> str | None:
    """Return the relevant part of a JSON response in one line, or None if it cannot be determined.

    Args:
        block: bytes that start with a response of a REST API or Prometheus, an archive, or a file of a collection.
        focus: what the finding is about; None for the response as a whole.

    >>> entry_text(b'[{"id": "1.busyTimeMsPerSecond", "value": "981"}]',
    ...     Focus(metrics=(("busyTimeMsPerSecond", None),), subtask_index=1))
    '1.busyTimeMsPerSecond: 981'
    """
    focus = focus or Focus()
    first: list[str] | None = None
    for body, path in _bodies(block):
        # A collection stores all responses of a tick together, and entries of subtasks have only a number. Use
        # only responses for the same resource as the first one, such as `/jobs/1/vertices/2`.
        resource = path.split("/")[:5]
        first = resource if first is None else first
        if resource == first and (text := _entry(body, path, focus)):
            return text
    return None


def _bodies(block: bytes) -> Iterator[tuple[Any, str]]:
    """Yield the responses at the start of a block, each with its path if the block contains it."""
    text = block.decode("utf-8", "replace").lstrip("\ufeff \t\r\n,")
    decoder = json.JSONDecoder()
    while text[:1] in ("{", "[", '"'):
        try:
            body, end = decoder.raw_decode(text)
        except (ValueError, RecursionError):
            try:
                body, end = json.loads(close_truncated_json(text.encode())), len(text)
            except (ValueError, RecursionError):
                return
        if isinstance(body, str):  # archives contain responses as text
            try:
                body = json.loads(body)
            except (ValueError, RecursionError):
                return
        path = ""
        if isinstance(body, Mapping) and isinstance(body.get("path"), str) and "body" in body:
            path, body = body["path"], body["body"]
        yield body, path
        text = text[end:].lstrip("\r\n")


def _entry(body: Any, path: str, focus: Focus) -> str | None:
    if isinstance(body, Mapping) and (isinstance(body.get("data"), Mapping) or "metric" in body):
        return _range_series(body, focus)
    kind = kind_of(body, path)
    if isinstance(body, list):
        return _listed_metric(body, focus)
    if not isinstance(body, Mapping):
        return None
    describe = _ENTRY_TEXTS.get(kind or "")
    return describe(body, focus) if describe is not None else None


def _range_series(body: Mapping[str, Any], focus: Focus) -> str | None:
    """Return the series in question from a response of Prometheus or a line exported by VictoriaMetrics."""
    results = objects_at(object_at(body, "data"), "result") or [body]
    for metric, near in focus.metrics:
        for item in results:
            labels = {k: v for k, v in object_at(item, "metric").items() if isinstance(v, str)}
            name = labels.get("__name__", "")
            values = [v for v in _values(item) if v is not None]
            match = (
                _match_series(name, labels, values[0], metric, focus) if values and name else None
            )
            if match is not None and match[1]:
                value = values[0] if near is None else min(values, key=lambda v: abs(v - near))
                return _series_text(name, labels, value)
    return None


def _values(item: Mapping[str, Any]) -> Iterator[float | None]:
    pairs = item.get("values") or [item.get("value")]
    for pair in pairs if isinstance(pairs, list) else ():
        yield _number(str(pair[1] if isinstance(pair, list) and len(pair) == 2 else pair))


def _listed_metric(items: list[Any], focus: Focus) -> str | None:
    """Return the metric in question from a response of `…/metrics`, such as `1.busyTimeMsPerSecond: 981`."""
    prefix = "" if focus.subtask_index is None else f"{focus.subtask_index}."
    known = {
        str(item["id"]): item.get("value")
        for item in items
        if isinstance(item, Mapping) and isinstance(item.get("id"), str)
    }
    for metric, _ in focus.metrics:
        _, pattern = _pattern(metric)
        for name, value in known.items():
            matches = name == metric or name.startswith(prefix)
            if matches and pattern.match(f".{name}: {value}") and _number(str(value)) is not None:
                return f"{name}: {value}"
    return None


def _named_values(values: Mapping[str, Any], names: Iterable[str], unit: str = "") -> list[str]:
    """Format each known value as `name value`."""
    return [
        f"{name} {json.dumps(values[name]) if isinstance(values[name], bool) else values[name]}"
        f"{unit if isinstance(values[name], int | float) else ''}"
        for name in names
        if isinstance(values.get(name), str | int | float) and values[name] not in (-1, "")
    ]


def _subtask_text(*groups: tuple[str, tuple[str, ...], str]) -> Callable[..., str | None]:
    """Return a function that formats the entry of a subtask.

    Args:
        groups: triples of the key of a nested object (empty for the entry itself), its fields, and their unit.
    """

    def describe(body: Mapping[str, Any], focus: Focus) -> str | None:
        index = focus.subtask_index
        if index is None:
            return None
        entries = objects_at(body, "subtasks")
        entry = next((e for e in entries if index in (e.get("subtask"), e.get("index"))), None)
        if entry is None:
            return None
        parts = [
            f"{below}.{text}" if below else text
            for below, names, unit in groups
            for text in _named_values(object_at(entry, below) if below else entry, names, unit)
        ]
        checkpoint = f"checkpoint {body['id']}, " if isinstance(body.get("id"), int) else ""
        # Flink displays the index plus 1.
        return f"{checkpoint}subtask {index + 1}: {', '.join(parts)}" if parts else None

    return describe


def _checkpoint(body: Mapping[str, Any], focus: Focus) -> str | None:
    parts = _named_values(body, ("status",))
    if isinstance(body.get("num_subtasks"), int):
        parts.append(
            f"{body.get('num_acknowledged_subtasks')} of {body['num_subtasks']} subtasks acknowledged"
        )
    parts += _named_values(body, ("end_to_end_duration",), " ms")
    parts += _named_values(body, ("failure_message",))
    return f"checkpoint {body.get('id')}: {', '.join(parts)}"


def _exception(body: Mapping[str, Any], focus: Focus) -> str | None:
    """Return the first line of the exception and its deepest cause."""
    text = body.get("root-exception")
    if not isinstance(text, str):
        entries = objects_at(object_at(body, "exceptionHistory"), "entries")
        text = entries[0].get("stacktrace") if entries else None
    if not isinstance(text, str) or not text.strip():
        return None
    return _first_and_last(text)


def _thread(threads: Sequence[Thread], focus: Focus) -> str | None:
    """Describe the thread in question: its name, its state, the lock that it waits for, and its line of user code."""
    thread = next((one for one in threads if one.name == focus.thread), None)
    if thread is None:
        return None
    frame = thread.read().frame
    lock = f" on {thread.lock}" if thread.lock else ""
    owner = f' owned by "{thread.owner}"' if thread.owner else ""
    place = f" at {frame}" if frame else ""
    return f'"{thread.name}" {thread.state}{lock}{owner}{place}'


_ENTRY_TEXTS: Final[Mapping[str, Callable[[Mapping[str, Any], Focus], str | None]]] = {
    Kind.BACKPRESSURE: _subtask_text(
        ("", ("busyRatio", "ratio", "idleRatio", "backpressure-level"), "")
    ),
    Kind.VERTEX: _subtask_text(
        ("", ("status",), ""),
        ("", ("duration",), " ms"),
        ("metrics", ("accumulated-busy-time", "accumulated-backpressured-time"), " ms"),
        ("metrics", ("read-records", "read-bytes"), ""),
    ),
    Kind.SUBTASKS: _subtask_text(
        ("", ("status",), ""),
        ("", ("end_to_end_duration",), " ms"),
        ("checkpoint", ("sync", "async"), " ms"),
        ("alignment", ("duration",), " ms"),
        ("", ("start_delay",), " ms"),
    ),
    Kind.DETAILS: _checkpoint,
    Kind.EXCEPTIONS: _exception,
    Kind.THREAD_DUMP: lambda body, focus: _thread(flink_threads(body), focus),
    Kind.JCMD_THREAD_DUMP: lambda body, focus: _thread(jcmd_threads(body)[0], focus),
}


# -- Spark's events ------------------------------------------------------------------------------


def event_text(line: bytes) -> str | None:
    """Return an event of Spark's event log or of flowdiag's listener, reduced to its main fields.

    >>> event_text(b'{"event":"batch_completed","num_records":609,"scheduling_delay":2638,"streams":[]}')
    'batch_completed: num_records 609, scheduling_delay 2638 ms'
    """
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        try:  # the caller truncates events of many kilobytes
            event = json.loads(close_truncated_json(line))
        except (ValueError, RecursionError):
            return None
    if not isinstance(event, Mapping):
        return None
    name = event.get("Event") or event.get("event")
    if not isinstance(name, str):
        return None
    name = re.split(r"[.$]", name)[-1]
    progress = event.get("progress")
    if isinstance(progress, str):
        try:
            progress = json.loads(progress)
        except ValueError:
            progress = None
    if isinstance(progress, Mapping):
        parts = _progress_parts(progress)
    else:
        parts = list(_event_parts(event))
    return f"{name}: {', '.join(parts)}" if parts else name


_DELAYS: Final = ("scheduling_delay", "processing_delay", "total_delay")


def _event_parts(event: Mapping[str, Any]) -> Iterator[str]:
    yield from _named_values(event, ("Job ID", "Stage ID", "name", "num_records"))
    yield from _named_values(event, _DELAYS, " ms")
    streams = objects_at(event, "streams")
    if len(streams) > 1:
        yield from (
            f"stream {each.get('stream_id')}: {each.get('num_records')}" for each in streams
        )
    for stream in streams:
        counts = _PARTITION.findall(stream.get("description") or "")
        if len(counts) > 1:
            partition, count = max(counts, key=lambda pair: int(pair[1]))
            yield f"partition {partition}: {count} records"
    yield from _named_values(event, ("Executor ID", "executor_id", "location"))
    yield from _named_values(event, ("Removed Reason", "last_error_message"))
    for operation in objects_at(event, "output_operations"):
        reason = operation.get("failure_reason")
        if isinstance(reason, str) and reason.strip():
            yield f"failed: {_first_and_last(reason)}"
    result = object_at(event, "Job Result")
    yield from _named_values(result, ("Result",))
    for text in (object_at(result, "Exception").get("Message"), event.get("exception")):
        if isinstance(text, str) and text.strip():
            yield _first_and_last(text)


_THROWN = re.compile(r"(?:Caused by: )?(?:[\w$]+\.)*[A-Z][\w$]*(?:Error|Exception)\b")
_TRACEBACK: Final = "Traceback (most recent call last):"


def _first_and_last(text: str) -> str:
    """Return the first line of an exception and its deepest cause, which may be a Python error inside it.

    >>> _first_and_last("a.B: no\\n\\tat c.D\\nCaused by: e.FException: Traceback (most recent call last):"
    ...     "\\n  File x\\nValueError: bad\\n\\tat g.H")
    'a.B: no … ValueError: bad'
    """
    lines = [line.strip().removesuffix(_TRACEBACK).rstrip(" :") for line in text.splitlines()]
    lines = [line for line in lines if line]
    thrown = [line for line in lines if _THROWN.match(line)]
    return " … ".join(dict.fromkeys([*lines[:1], *thrown[-1:]]))


_PARTITION = re.compile(r"partition: (\d+)\s+offsets: \d+ to \d+\s+count: (\d+)")


def _progress_parts(progress: Mapping[str, Any]) -> list[str]:
    parts = _named_values(progress, ("name", "batchId"))
    sources = objects_at(progress, "sources")
    rows = [each["numInputRows"] for each in sources if isinstance(each.get("numInputRows"), int)]
    total = progress.get("numInputRows", sum(rows) if rows else None)
    parts += [f"numInputRows {total}"] if isinstance(total, int) else []
    durations = {
        key: value
        for key, value in object_at(progress, "durationMs").items()
        if isinstance(value, int | float)
    }
    longest = sorted(durations, key=lambda key: (key != "triggerExecution", -durations[key]))[:3]
    parts += [f"{key} {durations[key]} ms" for key in longest]
    for source in sources:
        parts += _largest_partition(source)
    for operator in objects_at(progress, "stateOperators"):
        dropped = operator.get("numRowsDroppedByWatermark")
        names = ("numRowsTotal", "numRowsDroppedByWatermark") if dropped else ("numRowsTotal",)
        parts += _named_values(operator, names)
        parts += _named_values(operator, ("memoryUsedBytes",), " B")
        parts += _named_values(operator, ("commitTimeMs",), " ms")
    parts += _named_values(object_at(progress, "eventTime"), ("watermark",))
    return parts


def _largest_partition(source: Mapping[str, Any]) -> list[str]:
    """Describe the partition with the most records of a source. Empty without offsets."""
    start, end = (_offsets(source.get(key)) for key in ("startOffset", "endOffset"))
    counts = {key: end[key] - start[key] for key in end if key in start}
    if len(counts) < 2 or not any(counts.values()):
        return []
    most = max(counts, key=lambda key: counts[key])
    return [f"partition {most}: {counts[most]} records"]


def _offsets(value: Any) -> dict[str, int]:
    """Return offsets by `topic-partition`."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    if not isinstance(value, Mapping):
        return {}
    return {
        f"{topic}-{partition}": offset
        for topic, parts in value.items()
        if isinstance(parts, Mapping)
        for partition, offset in parts.items()
        if isinstance(offset, int)
    }
