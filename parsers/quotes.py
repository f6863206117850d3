"""What of a record is worth quoting, where the record holds far more than what it proves.

A metrics report has a line per metric of a whole TaskManager, an answer of REST all subtasks of a vertex, an
event of Spark's event log every property of a job. Quoted is the sample, the subtask, or the few fields
that somebody judged, in the words of the format.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from flowdiag.parsers.flink.prometheus import FLINK_METRIC, mangle, parse_sample
from flowdiag.parsers.flink.rest_shapes import Kind, kind_of
from flowdiag.parsers.focus import Focus
from flowdiag.parsers.json_values import close_truncated_json, object_at, objects_at

MAX_LINE: Final = (
    8192  # a sample's line is far shorter; only the beginning of a longer one is quoted
)


@dataclass(frozen=True, slots=True)
class Sample:
    """A line of a block: how many lines stand before it, where it begins, what it says.

    `off` is how far its value is from the one that was judged.
    """

    line: int
    start: int
    text: str
    off: float


# -- lines ---------------------------------------------------------------------------------------


def samples_in(block: bytes, focus: Focus) -> Iterator[Sample]:
    r"""The lines of a report or of a Prometheus text that hold what was judged, in order.

    Only lines of the first metric of `focus` that is there; those of another metric prove something else.

    >>> report = b"head\nw1.taskmanager.t1.orders.enrich.1.busyTimeMsPerSecond: 981\n"
    >>> focus = Focus(metrics=(("busyTimeMsPerSecond", None),), task="enrich", subtask_index=1)
    >>> [sample.text for sample in samples_in(report, focus)]
    ['w1.taskmanager.t1.orders.enrich.1.busyTimeMsPerSecond: 981']
    """
    for metric, near in focus.metrics:
        found = list(_lines_of(block, metric, near, focus))
        named = [sample for sample, by_name in found if by_name]
        if not named and len({sample.text.rpartition(" ")[0] for sample, _ in found}) == 1:
            # Names of tasks are shortened and mangled in many ways: the number of the subtask must do.
            named = [sample for sample, _ in found]
        if named:
            yield from named
            return


def _lines_of(
    block: bytes, metric: str, near: float | None, focus: Focus
) -> Iterator[tuple[Sample, bool]]:
    """Lines of one metric and subtask; whether the task's name is in it as well."""
    literal, pattern = _pattern(metric)
    lines = at = 0
    literals = {literal.encode(), literal.replace(".", "_").encode()}
    starts = sorted({start for one in literals for start in _starts_of_lines(block, one)})
    for start in starts:
        end = block.find(b"\n", start)
        text = block[start : end if end >= 0 else len(block)][:MAX_LINE].decode("utf-8", "replace")
        text = text.rstrip()
        series = _series_in(text) if "{" in text else None
        if series is not None:
            told, text = _by_series(*series, metric, focus), _series_text(*series)
        else:
            told = _by_scope(text, pattern, focus)
        if told is None:
            continue
        lines += block.count(b"\n", at, start)
        at = start
        yield Sample(lines, start, text, 0.0 if near is None else abs(told[0] - near)), told[1]


def _starts_of_lines(block: bytes, literal: bytes) -> Iterator[int]:
    at = block.find(literal)
    while at >= 0:
        yield block.rfind(b"\n", 0, at) + 1
        at = block.find(literal, at + len(literal))


@lru_cache(maxsize=256)
def _pattern(metric: str) -> tuple[str, re.Pattern[str]]:
    """The longest literal part of a metric's name, and what a line of a report with it looks like."""
    literal = max(re.split(r"[#*]", metric), key=len)
    name = re.escape(metric).replace(r"\*", r"[^:\s]+?").replace(r"\#", r"\d+")
    return literal, re.compile(rf"(?P<scope>.*?)\W{name}: (?P<value>[-+\w.]+)$")


def _by_scope(text: str, pattern: re.Pattern[str], focus: Focus) -> tuple[float, bool] | None:
    """Value of a line of a report, and whether the task is named; None: it is somebody else's."""
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


def _series_in(text: str) -> tuple[str, dict[str, str], float] | None:
    """The series of a line of Prometheus, and its value; None of other lines."""
    return parse_sample(text.encode()) if FLINK_METRIC.match(text.encode().lstrip(b'{"')) else None


_LABELS: Final = ("tm_id", "task_name", "operator_name", "subtask_index")


def _series_text(name: str, labels: Mapping[str, str], value: float) -> str:
    """A series by the labels that tell who it is; the others are ids that fill lines."""
    told = {key.removeprefix("exported_"): text for key, text in labels.items()}
    shown = ",".join(f'{key}="{told[key]}"' for key in _LABELS if told.get(key))
    return f"{name}{{{shown}}} {value:.15g}"


def _by_series(
    name: str, labels: Mapping[str, str], value: float, metric: str, focus: Focus
) -> tuple[float, bool] | None:
    """The same of a series of Prometheus."""
    tail = re.escape(metric.replace(".", "_")).replace(r"\*", r"\w+?").replace(r"\#", r"\d+")
    if not re.search(rf"_{tail}(?:_total)?$", name.replace(".", "_")) or not math.isfinite(value):
        return None
    told = {key.removeprefix("exported_"): text for key, text in labels.items()}
    index = told.get("subtask_index")
    if focus.subtask_index is not None:
        named = mangle(told.get("task_name", "")) == mangle(focus.task or "")
        return (value, named) if index == str(focus.subtask_index) else None
    if index is not None:
        return None
    machine = focus.taskmanager is None or mangle(told.get("tm_id", "")) == mangle(
        focus.taskmanager
    )
    return value, machine


def _number(text: str) -> float | None:
    """A finite number, or what a flag stands for."""
    if text in ("true", "false"):
        return float(text == "true")
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


# -- documents -----------------------------------------------------------------------------------


def entry_text(block: bytes, focus: Focus | None = None) -> str | None:
    """What a JSON answer says of what was judged, in one line; None where that cannot be told.

    Args:
        block: the answer of REST, of an archive, of a collection or of Prometheus from its first byte on;
            what follows it does not matter.
        focus: whose entry; None: what the answer says as a whole.

    >>> entry_of(b'[{"id": "1.busyTimeMsPerSecond", "value": "981"}]',
    ...     Focus(metrics=(("busyTimeMsPerSecond", None),), subtask_index=1))
    '1.busyTimeMsPerSecond: 981'
    """
    focus = focus or Focus()
    about: str | None = None
    for body, path in _bodies(block):
        # What one tick of a collection asked for stands together, and a subtask has its number only.
        about = _about(path) if about is None else about
        told = _entry(body, path, focus) if _about(path) == about else None
        if told:
            return told
    return None


def _about(path: str) -> str:
    """What an answer is about: `/jobs/1/vertices/2` of all that lies below it."""
    return "/".join(path.split("/")[:5])


def _bodies(block: bytes) -> Iterator[tuple[Any, str]]:
    """The answers from the beginning of a block on, with their paths where those are said."""
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
        if isinstance(body, str):  # in an archive an answer is a text
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
    say = _SAID.get(kind or "")
    return say(body, focus) if say is not None else None


def _range_series(body: Mapping[str, Any], focus: Focus) -> str | None:
    """The series that was judged, of an answer of Prometheus or a line of VictoriaMetrics."""
    results = objects_at(object_at(body, "data"), "result") or [body]
    for metric, near in focus.metrics:
        for item in results:
            labels = {k: v for k, v in object_at(item, "metric").items() if isinstance(v, str)}
            name = labels.get("__name__", "")
            values = [v for v in _values(item) if v is not None]
            told = _by_series(name, labels, values[0], metric, focus) if values and name else None
            if told is None or not told[1]:
                continue
            return _series_text(name, labels, _nearest(values, near))
    return None


def _values(item: Mapping[str, Any]) -> Iterator[float | None]:
    pairs = item.get("values") or [item.get("value")]
    for pair in pairs if isinstance(pairs, list) else ():
        yield _number(str(pair[1] if isinstance(pair, list) and len(pair) == 2 else pair))


def _nearest(values: Iterable[float], near: float | None) -> float:
    return (
        min(values, key=lambda value: abs(value - near)) if near is not None else next(iter(values))
    )


def _listed_metric(items: list[Any], focus: Focus) -> str | None:
    """A metric of `…/metrics`: `1.busyTimeMsPerSecond: 981`."""
    prefix = "" if focus.subtask_index is None else f"{focus.subtask_index}."
    known = {
        str(item["id"]): item.get("value")
        for item in items
        if isinstance(item, Mapping) and isinstance(item.get("id"), str)
    }
    for metric, _ in focus.metrics:
        _, pattern = _pattern(metric)
        for name, value in known.items():
            ours = name == metric or name.startswith(prefix)
            if ours and pattern.match(f".{name}: {value}") and _number(str(value)) is not None:
                return f"{name}: {value}"
    return None


def _with(values: Mapping[str, Any], names: Iterable[str], unit: str = "") -> list[str]:
    """`name value` of those that say something."""
    return [
        f"{name} {json.dumps(values[name]) if isinstance(values[name], bool) else values[name]}"
        f"{unit if isinstance(values[name], int | float) else ''}"
        for name in names
        if isinstance(values.get(name), str | int | float) and values[name] not in (-1, "")
    ]


def _subtask(body: Mapping[str, Any], focus: Focus) -> Mapping[str, Any] | None:
    for one in objects_at(body, "subtasks"):
        if focus.subtask_index is not None and focus.subtask_index in (
            one.get("subtask"),
            one.get("index"),
        ):
            return one
    return None


def _said_of_subtask(*groups: tuple[str, tuple[str, ...], str]) -> Callable[..., str | None]:
    """What says fields of the subtask's entry: the object below it, its fields, their unit."""

    def say(body: Mapping[str, Any], focus: Focus) -> str | None:
        one = _subtask(body, focus)
        if one is None:
            return None
        told = [
            f"{below}.{text}" if below else text
            for below, names, unit in groups
            for text in _with(object_at(one, below) if below else one, names, unit)
        ]
        checkpoint = f"checkpoint {body['id']}, " if isinstance(body.get("id"), int) else ""
        number = (
            None if focus.subtask_index is None else focus.subtask_index + 1
        )  # as Flink shows it
        return f"{checkpoint}subtask {number}: {', '.join(told)}" if told else None

    return say


def _checkpoint(body: Mapping[str, Any], focus: Focus) -> str | None:
    told = _with(body, ("status",))
    if isinstance(body.get("num_subtasks"), int):
        told.append(
            f"{body.get('num_acknowledged_subtasks')} of {body['num_subtasks']} subtasks acknowledged"
        )
    told += _with(body, ("end_to_end_duration",), " ms") + _with(body, ("failure_message",))
    return f"checkpoint {body.get('id')}: {', '.join(told)}"


def _exception(body: Mapping[str, Any], focus: Focus) -> str | None:
    """The first line of the exception, and its deepest cause."""
    text = body.get("root-exception")
    if not isinstance(text, str):
        entries = objects_at(object_at(body, "exceptionHistory"), "entries")
        text = entries[0].get("stacktrace") if entries else None
    if not isinstance(text, str) or not text.strip():
        return None
    return _first_and_last(text)


_SAID: Final[Mapping[str, Callable[[Mapping[str, Any], Focus], str | None]]] = {
    Kind.BACKPRESSURE: _said_of_subtask(
        ("", ("busyRatio", "ratio", "idleRatio", "backpressure-level"), "")
    ),
    Kind.VERTEX: _said_of_subtask(
        ("", ("status",), ""),
        ("", ("duration",), " ms"),
        ("metrics", ("accumulated-busy-time", "accumulated-backpressured-time"), " ms"),
        ("metrics", ("read-records", "read-bytes"), ""),
    ),
    Kind.SUBTASKS: _said_of_subtask(
        ("", ("status",), ""),
        ("", ("end_to_end_duration",), " ms"),
        ("checkpoint", ("sync", "async"), " ms"),
        ("alignment", ("duration",), " ms"),
        ("", ("start_delay",), " ms"),
    ),
    Kind.DETAILS: _checkpoint,
    Kind.EXCEPTIONS: _exception,
}


# -- Spark's events ------------------------------------------------------------------------------


def event_text(line: bytes) -> str | None:
    """An event of Spark's event log, or of flowdiag's listener, by the few fields that count.

    >>> event_of(b'{"event":"batch_completed","num_records":609,"scheduling_delay":2638,"streams":[]}')
    'batch_completed: num_records 609, scheduling_delay 2638 ms'
    """
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        try:  # an event of many kilobytes is cut
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
    told = _of_progress(progress) if isinstance(progress, Mapping) else list(_of_event(event))
    return f"{name}: {', '.join(told)}" if told else name


_DELAYS: Final = ("scheduling_delay", "processing_delay", "total_delay")


def _of_event(event: Mapping[str, Any]) -> Iterator[str]:
    yield from _with(event, ("Job ID", "Stage ID", "name", "num_records"))
    yield from _with(event, _DELAYS, " ms")
    streams = objects_at(event, "streams")
    if len(streams) > 1:
        yield from (f"stream {one.get('stream_id')}: {one.get('num_records')}" for one in streams)
    yield from _of_partitions(streams)
    yield from _with(event, ("Executor ID", "executor_id", "location"))
    yield from _with(event, ("Removed Reason", "last_error_message"))
    for one in objects_at(event, "output_operations"):
        reason = one.get("failure_reason")
        if isinstance(reason, str) and reason.strip():
            yield f"failed: {_first_and_last(reason)}"
    result = object_at(event, "Job Result")
    yield from _with(result, ("Result",))
    for text in (object_at(result, "Exception").get("Message"), event.get("exception")):
        if isinstance(text, str) and text.strip():
            yield _first_and_last(text)


_THROWN = re.compile(r"(?:Caused by: )?(?:[\w$]+\.)*[A-Z][\w$]*(?:Error|Exception)\b")
_TRACEBACK: Final = "Traceback (most recent call last):"


def _first_and_last(text: str) -> str:
    """The first line of an exception, and its deepest cause: of Java, or of Python inside it.

    >>> _first_and_last("a.B: no\\n\\tat c.D\\nCaused by: e.FException: Traceback (most recent call last):"
    ...     "\\n  File x\\nValueError: bad\\n\\tat g.H")
    'a.B: no … ValueError: bad'
    """
    lines = [line.strip().removesuffix(_TRACEBACK).rstrip(" :") for line in text.splitlines()]
    lines = [line for line in lines if line]
    thrown = [line for line in lines if _THROWN.match(line)]
    return " … ".join(dict.fromkeys([*lines[:1], *thrown[-1:]]))


_PARTITION = re.compile(r"partition: (\d+)\s+offsets: \d+ to \d+\s+count: (\d+)")


def _of_partitions(streams: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The partition with most records of each stream that describes its own."""
    for one in streams:
        counts = _PARTITION.findall(one.get("description") or "")
        if len(counts) > 1:
            partition, count = max(counts, key=lambda pair: int(pair[1]))
            yield f"partition {partition}: {count} records"


def _of_progress(progress: Mapping[str, Any]) -> list[str]:
    told = _with(progress, ("name", "batchId"))
    sources = objects_at(progress, "sources")
    rows = [one["numInputRows"] for one in sources if isinstance(one.get("numInputRows"), int)]
    total = progress.get("numInputRows", sum(rows) if rows else None)
    told += [f"numInputRows {total}"] if isinstance(total, int) else []
    durations = {
        key: value
        for key, value in object_at(progress, "durationMs").items()
        if isinstance(value, int | float)
    }
    longest = sorted(durations, key=lambda key: (key != "triggerExecution", -durations[key]))[:3]
    told += [f"{key} {durations[key]} ms" for key in longest]
    for one in sources:
        told += _largest_partition(one)
    for one in objects_at(progress, "stateOperators"):
        dropped = one.get("numRowsDroppedByWatermark")
        told += _with(one, ("numRowsTotal", *(["numRowsDroppedByWatermark"] if dropped else ())))
        told += _with(one, ("memoryUsedBytes",), " B") + _with(one, ("commitTimeMs",), " ms")
    told += _with(object_at(progress, "eventTime"), ("watermark",))
    return told


def _largest_partition(source: Mapping[str, Any]) -> list[str]:
    """The partition of a source that gave most, where offsets tell."""
    start, end = (_offsets(source.get(key)) for key in ("startOffset", "endOffset"))
    counts = {key: end[key] - start[key] for key in end if key in start}
    if len(counts) < 2 or not any(counts.values()):
        return []
    most = max(counts, key=lambda key: counts[key])
    return [f"partition {most}: {counts[most]} records"]


def _offsets(value: Any) -> dict[str, int]:
    """Offsets by `topic-partition`."""
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
