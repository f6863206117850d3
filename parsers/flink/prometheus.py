"""Reads metrics of Flink's Prometheus reporter, as scraped or as stored by Prometheus, into rows of `EVENTS`.

It reads the text exposition format and OpenMetrics (`/metrics`, `/federate`, a Pushgateway; one or several
processes and scrapes), responses of Prometheus' `/api/v1/query_range` and `query`, and lines exported by
VictoriaMetrics. The rows are like those of `metric_reports`: one per series and minute, and a `placed` row for each
place of a subtask.

The reporter mangles names. The name of a metric consists of `flink_`, the logical scope and
the registered name, with `_` in place of all special characters. Label values, such as task names and TaskManager
IDs, are mangled as well. Metric names are looked up in the table and get their dots back. Label values stay mangled,
because a `_` can replace any of several characters: use `mangle` to compare them with real names.

A value of 0 may mean "none", because the reporter writes 0 for null. If a subtask is never busy, idle or
back-pressured, its time shares are ignored.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any, BinaryIO, Final

import msgspec
import pyarrow as pa

from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.flink.metric_reports import MINUTE_US, PLACED_TEMPLATE
from flowdiag.parsers.flink.metric_table import FAMILY, KnownMetric, known_metrics
from flowdiag.parsers.json_values import decode_json, object_at, objects_at
from flowdiag.parsers.rows import METRIC_ROWS, Event, RowBuilder, Tally
from flowdiag.parsers.source import Source
from flowdiag.parsers.sources.collected import collected_kind, collected_of
from flowdiag.parsers.sources.file_times import NO_MOMENT, Moment, moment_in, moment_of_name

TEMPLATE: Final = "prometheus"
MAX_SERIES: Final = 1_000_000
MAX_LINE: Final = 64 * 1024
MAX_DOCUMENT_BYTES: Final = 256 * 1024 * 1024

# Logical scopes and the scope in a row, longest first because some are prefixes of others.
_SCOPES: Final = (
    ("taskmanager_job_task_operator_", "operator"),
    ("taskmanager_job_task_", "task"),
    ("taskmanager_", "tm"),
    ("jobmanager_job_", "jm-job"),
    ("jobmanager_", "jm"),
)
_REGISTERED: Final = {
    "operator": ("operator", "task-or-operator"),
    "task": ("task", "task-or-operator"),
    "tm": ("process",),
    "jm-job": ("jm-job",),
    "jm": ("jm", "process"),
}
_SPLIT: Final = "split.*"
_QUANTILES: Final = {"0.5": "p50", "0.99": "p99"}
_NO_WATERMARK: Final = -9.2e18  # "no watermark yet": as a double it is not exactly Long.MIN_VALUE
_SHARES: Final = ("busyTimeMsPerSecond", "idleTimeMsPerSecond", "backPressuredTimeMsPerSecond")

FLINK_METRIC = re.compile(rb"flink[_.](?:taskmanager|jobmanager)[_.]\w")


def mangle(name: str) -> str:
    """Replace the characters that the reporter does not allow in a label.

    >>> mangle("Source: orders -> Map")
    'Source:_orders____Map'
    """
    return re.sub(r"[^a-zA-Z0-9:_]", "_", name)


@dataclass(frozen=True, slots=True)
class NamedMetric:
    """A known metric, found by its mangled name.

    Attributes:
        metric: its entry in the table.
        name: its name with dots, as in metrics reports.
        scope: task, operator, tm, jm-job or jm.
    """

    metric: KnownMetric
    name: str
    scope: str


@lru_cache(maxsize=65536)
def named_metric(name: str) -> NamedMetric | None:
    """Look up a metric by its mangled name; return None if flowdiag does not use the metric.

    >>> named_metric("flink_taskmanager_job_task_Shuffle_Netty_Input_0_debloatedBufferSize").name
    'Shuffle.Netty.Input.0.debloatedBufferSize'
    >>> named_metric("flink_taskmanager_job_task_operator_mine_numRecordsIn") is None
    True
    """
    text = name.replace(".", "_")
    if not text.startswith("flink_"):
        return None
    text = text.removeprefix("flink_")
    for prefix, scope in _SCOPES:
        if text.startswith(prefix):
            tail = text.removeprefix(prefix)
            # OpenMetrics adds a suffix to counters.
            return _metric_in_scope(tail, scope) or _metric_in_scope(
                tail.removesuffix("_total"), scope
            )
    return None


def _metric_in_scope(tail: str, scope: str) -> NamedMetric | None:
    exact, patterns = _names_of(scope)
    if tail in exact:
        metric = exact[tail]
        return NamedMetric(metric, metric.name, scope)
    for pattern, metric in patterns:
        if found := pattern.fullmatch(tail):
            name = metric.name
            for part in found.groups():
                name = re.sub(r"[#*]", part, name, count=1)
            return NamedMetric(metric, name, scope)
    return None


@lru_cache(maxsize=8)
def _names_of(
    scope: str,
) -> tuple[dict[str, KnownMetric], list[tuple[re.Pattern[str], KnownMetric]]]:
    exact: dict[str, KnownMetric] = {}
    patterns = []
    for metric in known_metrics().values():
        if metric.scope not in _REGISTERED[scope]:
            continue
        # The name of a split is a label, not a part of the metric's name.
        text = metric.name.replace(_SPLIT, "split").replace(".", "_").replace("-", "_")
        if "#" in text or "*" in text:
            pattern = re.escape(text)
            pattern = pattern.replace(r"\#", r"(\d{1,6})").replace(r"\*", r"(\w+?)")
            patterns.append((re.compile(pattern), metric))
        else:
            exact[text] = metric
    return exact, patterns


@dataclass(frozen=True, slots=True)
class _Place:
    """The labels of a series that identify its subtask or process."""

    scope: str
    host: str | None = None
    taskmanager: str | None = None
    job_id: str | None = None
    job_name: str | None = None
    vertex_id: str | None = None
    task: str | None = None
    operator: str | None = None
    subtask_index: int | None = None
    attempt_id: str | None = None
    attempt: int | None = None


@dataclass(slots=True)
class _Series:
    """A series with its samples in the current minute."""

    named: NamedMetric
    name: str
    place: _Place
    minute: int | None = None
    first: Moment = NO_MOMENT
    last_us: int | None = None
    offset: int = 0
    count: int = 0
    values: tuple[float, float, float, float, float] = (0.0, 0.0, 0.0, 0.0, 0.0)
    started: bool = False


class SampleFolder:
    """Aggregates samples into one row per series and minute; series may appear in any order."""

    def __init__(
        self, source: int, tally: Tally, metric_names: Collection[str] | None = None
    ) -> None:
        """Start without samples.

        Args:
            source: index of the source.
            tally: counts the samples.
            metric_names: metrics to keep, as named in the table; None for all.
        """
        self._source, self._tally = source, tally
        self._metric_names = None if metric_names is None else frozenset(metric_names)
        self._rows = RowBuilder(METRIC_ROWS)
        self._placed: set[_Place] = set()

    def series(self, name: str, labels: Mapping[str, str]) -> _Series | None:
        """Return the series with this name and these labels, or None if the metric is not collected."""
        named = named_metric(name)
        if named is None or (
            self._metric_names is not None and named.metric.name not in self._metric_names
        ):
            return None
        shown = named.name.replace(_SPLIT, f"split.{labels.get('split') or '?'}")
        if shown.startswith(f"{FAMILY}."):
            shown = f"{labels.get(FAMILY) or '?'}{shown.removeprefix(FAMILY)}"
        if named.metric.kind == "histogram":
            quantity = _QUANTILES.get(labels.get("quantile", ""))
            if quantity is None:
                return None
            shown = f"{shown}.{quantity}"
        place = _place_of(named.scope, labels)
        if place is None:
            return None
        return _Series(named, shown, place)

    def add(self, series: _Series, value: float, moment: Moment, offset: int) -> None:
        now = moment.utc_us if moment.utc_us is not None else moment.local_us
        self._tally.recognised += 1
        self._tally.add_time(moment.utc_us)
        minute = None if now is None else now // MINUTE_US
        # If a counter restarts within the minute, its increase must not be lost.
        counts = series.named.metric.kind == "counter" and series.count > 0
        if not series.started:
            series.started = True
            series.minute, series.first, series.offset = minute, moment, offset
        elif minute != series.minute or (counts and value < series.values[1]):
            self.close(series)
            series.minute, series.first, series.offset = minute, moment, offset
        series.last_us = now
        absent = series.named.metric.absent
        if (
            not math.isfinite(value)
            or value == absent
            or (absent == -(2.0**63) and value < _NO_WATERMARK)
        ):
            return
        if series.count:
            first, _, low, high, total = series.values
            series.values = (first, value, min(low, value), max(high, value), total + value)
        else:
            series.values = (value,) * 5
        series.count += 1

    def close(self, series: _Series) -> None:
        """Add the row of the current minute, and clear the series."""
        place, count = series.place, series.count
        first, last, low, high, total = series.values if count else (None,) * 5
        begun = series.first.utc_us if series.first.utc_us is not None else series.first.local_us
        self._rows.add(
            {
                "source": self._source,
                "offset": series.offset,
                "event": Event.METRIC.value,
                "template": TEMPLATE,
                "local_us": series.first.local_us,
                "utc_us": series.first.utc_us,
                "job_id": place.job_id,
                "job_name": place.job_name,
                "vertex_id": place.vertex_id,
                "task": place.task,
                "subtask_index": place.subtask_index,
                "attempt_id": place.attempt_id,
                "attempt": place.attempt,
                "taskmanager": place.taskmanager,
                "host": place.host,
                "duration_ms": (series.last_us - begun) // 1000
                if series.last_us is not None and begun is not None and series.last_us >= begun
                else None,
                "metric": {
                    "name": series.name,
                    "kind": series.named.metric.kind,
                    "scope": place.scope,
                    "operator": place.operator,
                    "count": count,
                    "first": first,
                    "last": last,
                    "min": low,
                    "max": high,
                    "sum": total,
                },
            }
        )
        series.count, series.values = 0, (0.0, 0.0, 0.0, 0.0, 0.0)
        if place.scope == "task" and place not in self._placed:
            self._placed.add(place)
            self._rows.add(
                {
                    "source": self._source,
                    "offset": series.offset,
                    "event": Event.PLACED.value,
                    "template": PLACED_TEMPLATE,
                    "local_us": series.first.local_us,
                    "utc_us": series.first.utc_us,
                    "job_id": place.job_id,
                    "job_name": place.job_name,
                    "vertex_id": place.vertex_id,
                    "task": place.task,
                    "subtask_index": place.subtask_index,
                    "taskmanager": place.taskmanager,
                    "host": place.host,
                }
            )

    def take(self, *, final: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield a batch if there are enough rows; with `final`, yield all remaining rows."""
        if self._rows.full or (final and len(self._rows)):
            yield self._rows.take()


def _place_of(scope: str, labels: Mapping[str, str]) -> _Place | None:
    """Read the place from the labels, or None for a task metric without a subtask."""

    def label(*names: str) -> str | None:
        # Prometheus renames a scraped label that conflicts with one of its own.
        for name in names:
            for spelt in (name, f"exported_{name}"):
                if value := labels.get(spelt):
                    return value
        return None

    index = label("subtask_index")
    subtask = int(index) if index and index.isdecimal() and len(index) <= 6 else None
    task = label("task_name")
    if scope in ("task", "operator") and (subtask is None or task is None):
        return None
    number = label("task_attempt_num")
    return _Place(
        scope=scope,
        host=label("host"),
        taskmanager=label("tm_id"),
        job_id=label("job_id"),
        job_name=label("job_name"),
        vertex_id=label("task_id"),
        task=task,
        operator=label("operator_name") if scope == "operator" else None,
        subtask_index=subtask,
        attempt_id=label("task_attempt_id"),
        attempt=int(number) if number and number.isdecimal() and len(number) <= 9 else None,
    )


# -- text ------------------------------------------------------------------------------------


def read_prometheus(
    stream: BinaryIO,
    source: Source,
    tally: Tally,
    metric_names: Collection[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read a source of kind `prometheus` into batches of `EVENTS`.

    Args:
        stream: the decoded stream of the source.
        source: provides the index and the name.
        tally: counts the samples of Flink metrics.
        metric_names: metrics to keep, as named in the table; None for all.

    Raises:
        FlowdiagError: the document is too large, damaged or truncated; batches yielded before are valid.
    """
    folder = SampleFolder(source.index, tally, metric_names)
    head = stream.read(4096) or b""
    rest: Iterable[bytes] = iter(lambda: stream.read(1024 * 1024), b"")
    begins = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
    named = moment_of_name(source.name)
    try:
        if begins in (b"{", b"["):
            data = bytearray(head)
            for piece in rest:
                data += piece
                if len(data) > MAX_DOCUMENT_BYTES:
                    raise FlowdiagError("the JSON is larger than 256 MiB")
            tally.bytes = len(data)
            yield from _read_json(bytes(data), folder, tally)
        else:
            lines = _lines(chain((head,), rest), tally)
            yield from _read_text(lines, folder, tally, named)
    finally:
        yield from folder.take(final=True)


def _lines(pieces: Iterable[bytes], tally: Tally) -> Iterator[tuple[int, bytes]]:
    """Yield lines with their offsets; an overlong line is cut off."""
    offset, pending = 0, b""
    for piece in pieces:
        tally.bytes += len(piece)
        *whole, pending = (pending + piece).split(b"\n")
        for line in whole:
            yield offset, line
            offset += len(line) + 1
        if len(pending) > MAX_LINE:
            yield offset, pending
            offset += len(pending)
            pending = b""
    if pending:
        yield offset, pending


def _read_text(
    lines: Iterable[tuple[int, bytes]], folder: SampleFolder, tally: Tally, named: Moment
) -> Iterator[pa.RecordBatch]:
    known: dict[bytes, _Series | None] = {}
    moment = named
    shares = _EmptyShares(folder)
    for offset, line in lines:
        line = line.strip()
        if not line:
            continue
        if line.startswith(b"#") or not FLINK_METRIC.match(line.lstrip(b'{"')):
            # A scrape loop may print the time between scrapes.
            moment = _moment_of_line(line) or moment
            continue
        tally.candidates += 1
        key, value, stamp = _split(line)
        if key is None:
            tally.add_unrecognized(line.decode("utf-8", "replace"))
            continue
        if key not in known:
            if len(known) >= MAX_SERIES:
                raise FlowdiagError("more than a million series: split the file")
            labels = _labels(key)
            if labels is None:
                tally.add_unrecognized(line.decode("utf-8", "replace"))
                continue
            known[key] = folder.series(*labels)
        series = known[key]
        if series is None:
            tally.recognised += 1  # no rule uses this metric
            continue
        shares.add(series, value, Moment(utc_us=stamp) if stamp is not None else moment, offset)
        yield from folder.take()
    shares.settle()
    for series in known.values():
        if series is not None and series.started:
            folder.close(series)


class _EmptyShares:
    """Holds back the time shares of a subtask until one is above 0. If all stay 0, they are dropped."""

    def __init__(self, folder: SampleFolder) -> None:
        self._folder = folder
        self._held: dict[tuple[_Place, Moment], dict[str, tuple[_Series, float, Moment, int]]] = {}

    def add(self, series: _Series, value: float, moment: Moment, offset: int) -> None:
        if series.name not in _SHARES or value != 0 or series.place.scope != "task":
            self._folder.add(series, value, moment, offset)
            return
        held = self._held.setdefault((series.place, moment), {})
        if series.name in held:  # this starts the next scrape, in a file without times
            self._release(self._held.pop((series.place, moment)))
            held = self._held.setdefault((series.place, moment), {})
        held[series.name] = (series, value, moment, offset)
        if len(held) == len(_SHARES):
            del self._held[series.place, moment]
            for share, _, when, at in held.values():
                self._folder.add(share, math.nan, when, at)
        elif len(self._held) > 100_000:
            self.settle()

    def settle(self) -> None:
        """Release the shares held back, because a share above 0 shows that they are real."""
        for held in self._held.values():
            self._release(held)
        self._held = {}

    def _release(self, held: Mapping[str, tuple[_Series, float, Moment, int]]) -> None:
        for series, value, moment, offset in held.values():
            self._folder.add(series, value, moment, offset)


def _moment_of_line(line: bytes) -> Moment | None:
    """Return the time on a line without a sample: output of `date`, an ISO time, or seconds since 1970."""
    if len(line) >= 120 or line.startswith((b"# HELP", b"# TYPE", b"# UNIT")):
        return None
    text = line.decode("utf-8", "replace").strip("# \t")
    if found := _DATE_COMMAND.search(text):
        month = _MONTHS.index(found["month"].lower()) + 1
        text = f"{found['year']}-{month:02}-{int(found['day']):02}T{found['time']}{found['zone'] or ''}"
    moment = moment_in(text)
    return None if moment == NO_MOMENT else moment


_MONTHS: Final = (
    *("jan", "feb", "mar", "apr", "may", "jun"),
    *("jul", "aug", "sep", "oct", "nov", "dec"),
)
_DATE_COMMAND = re.compile(
    r"(?i:mon|tue|wed|thu|fri|sat|sun)[a-z]*,? +(?P<month>(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov"
    r"|dec)) +(?P<day>\d{1,2}) +(?P<time>\d\d:\d\d:\d\d)(?: [AP]M)? *(?P<zone>UTC|GMT|Z)?[A-Z]{0,4} *"
    r"(?P<year>20\d\d)"
)
_SAMPLE_TAIL = re.compile(
    rb"\s*(?P<value>[-+]?(?:\d[\d.eE+-]*|\.\d+|Inf|inf|INF|NaN|nan))(?:\s+(?P<stamp>-?\d{1,17}(?:\.\d+)?))?\s*$"
)


def _split(line: bytes) -> tuple[bytes | None, float, int | None]:
    """Split a sample line into key, value and time in microseconds. The key is None if the line is damaged."""
    exemplar = line.find(b" # {")
    if exemplar > 0:
        line = line[:exemplar]
    end = line.rfind(b"}")
    end = end + 1 if end >= 0 else line.find(b" ")
    found = _SAMPLE_TAIL.match(line, end) if end > 0 else None
    if found is None:
        return None, 0.0, None
    try:
        value = float(found["value"])
    except ValueError:
        return None, 0.0, None
    stamp = None
    if found["stamp"]:
        # Milliseconds in the text format, seconds in OpenMetrics. 0 and implausible values are ignored.
        number = float(found["stamp"])
        seconds = number / 1000 if abs(number) > 1e11 else number
        stamp = int(seconds * 1000) * 1000 if 1e9 < seconds < 1e10 else None
    return line[:end], value, stamp


_LABEL = re.compile(
    r'\s*,?\s*(?:(?P<name>[a-zA-Z_][\w.]*)\s*=\s*)?"(?P<value>(?:[^"\\]|\\.)*)"\s*,?'
)
_ESCAPES: Final = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


def _labels(key: bytes) -> tuple[str, dict[str, str]] | None:
    """Parse the name and labels of a series; return None if they are damaged.

    >>> _labels(b'flink_jobmanager_job_uptime{job_name="a",}')
    ('flink_jobmanager_job_uptime', {'job_name': 'a'})
    >>> _labels(b'{"flink.jobmanager.job.uptime",job_name="a"}')
    ('flink.jobmanager.job.uptime', {'job_name': 'a'})
    """
    name, brace, text = key.decode("utf-8", "replace").partition("{")
    name = name.strip()
    labels: dict[str, str] = {}
    if not brace:
        return name, labels
    if not text.endswith("}"):
        return None
    text = text[:-1]
    at = 0
    while at < len(text):
        if not text[at:].strip(" ,\t"):
            break
        found = _LABEL.match(text, at)
        if found is None or found.end() == at:
            return None
        value = re.sub(r'\\[\\"n]', lambda hit: _ESCAPES[hit[0]], found["value"])
        if found["name"]:
            labels[found["name"]] = value
        elif not name:
            name = value
        at = found.end()
    return (name, labels) if name else None


def parse_sample(line: bytes) -> tuple[str, dict[str, str], float] | None:
    """Parse the name, labels and value of a sample; return None for any other line.

    >>> parse_sample(b'flink_jobmanager_job_uptime{job_name="a"} 5')
    ('flink_jobmanager_job_uptime', {'job_name': 'a'}, 5.0)
    """
    key, value, _ = _split(line.strip())
    named = None if key is None else _labels(key)
    return None if named is None else (*named, value)


# -- JSON ------------------------------------------------------------------------------------


def _results(body: object) -> list[Mapping[str, Any]]:
    if not isinstance(body, Mapping):
        return []
    data = object_at(body, "data")
    if data.get("resultType") in ("matrix", "vector"):
        return objects_at(data, "result")
    if isinstance(body.get("metric"), Mapping):  # a line from VictoriaMetrics' /api/v1/export
        return [body]
    return []


def _read_json(data: bytes, folder: SampleFolder, tally: Tally) -> Iterator[pa.RecordBatch]:
    for offset, body in _documents(data, tally):
        for item in _results(body):
            labels = {
                key: value
                for key, value in object_at(item, "metric").items()
                if isinstance(key, str) and isinstance(value, str)
            }
            name = labels.pop("__name__", "")
            samples = list(_samples(item))
            tally.candidates += len(samples)
            if not name:
                tally.add_unrecognized(
                    "a series without __name__: query the series itself, not rate(…)"
                )
                continue
            series = folder.series(name, labels)
            if series is None:
                tally.recognised += len(samples)
                continue
            for utc_us, value in samples:
                folder.add(series, value, Moment(utc_us=utc_us), offset)
            if series.started:
                folder.close(series)
            yield from folder.take()


def _documents(data: bytes, tally: Tally) -> Iterator[tuple[int, object]]:
    """Yield the responses in a file: a collection, a single response, or several concatenated responses."""
    if collected_kind(data[:200]) is not None:
        try:
            collected = collected_of(decode_json(data))
        except ValueError:
            raise FlowdiagError("the JSON is damaged or cut off") from None
        for answer in collected.answers if collected else ():
            yield 0, answer.body
        return
    try:
        yield 0, decode_json(data)
        return
    except ValueError:
        pass
    offset, any_good = 0, False
    for line in data.split(b"\n"):
        if line.strip():
            try:
                yield offset, msgspec.json.decode(line)
                any_good = True
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                if not any_good:
                    raise FlowdiagError("the JSON is damaged or cut off") from None
                tally.add_unrecognized(line[:300].decode("utf-8", "replace"))
        offset += len(line) + 1


def _samples(item: Mapping[str, Any]) -> Iterator[tuple[int, float]]:
    pairs = item.get("values")
    if isinstance(item.get("timestamps"), list) and isinstance(pairs, list):
        pairs = [
            [time / 1000, value]
            for time, value in zip(item["timestamps"], pairs, strict=False)
            if isinstance(time, int | float)
        ]
    if not isinstance(pairs, list):
        pairs = [item.get("value")]
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2:
            continue
        when, text = pair
        if isinstance(when, bool) or not isinstance(when, int | float) or not 1e9 < when < 1e10:
            continue
        try:
            value = math.nan if text is None else float(text)
        except (TypeError, ValueError):
            continue
        # Round to milliseconds, the precision of seconds stored as doubles.
        yield round(when * 1000) * 1000, value
