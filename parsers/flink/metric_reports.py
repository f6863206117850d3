"""Metrics reports in process logs: blocks of `identifier: value` lines, folded per minute.

`org.apache.flink.metrics.slf4j.Slf4jReporter` logs every registered metric every few seconds
as one record of many lines. In a TaskManager's log nearly every line is one of these, so this
module works per block and per line without parsing an identifier twice: an identifier is taken
apart the first time it is seen, and from then on a line costs one dictionary look-up and one
`float`.

The parts of an identifier are joined by a dot that may also occur *inside* them (host, job and
task names; up to Flink 1.12, since later versions turn it to `_` there). They are told apart by
what the whole block says: the metric's name by the table in `formats/metrics.toml`, the
TaskManager by the identifiers of its own `Status.*` metrics, the job by what the identifiers of
its tasks have in common.
"""

from __future__ import annotations

import math
import pkgutil
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from typing import Any, Final

import pyarrow as pa

from flowdiag.parsers.rows import EVENTS, METRIC, Event, RowBuilder, array_of, repeat_value

TEMPLATE: Final = "metrics-report"
PLACED_TEMPLATE: Final = "metrics-scope"

MINUTE_US: Final = 60_000_000
MAX_SAMPLES: Final = 200_000
"""Samples held before rows are made, whatever the clock says (about 10 MB)."""
MAX_IDENTIFIERS: Final = 100_000
"""Identifiers remembered per process; beyond that the unused ones are learnt anew."""
MAX_IDENTIFIER_BYTES: Final = 4096
"""Longer ones are not metrics, or not worth remembering."""

_TASK_SCOPES: Final = ("task", "task-or-operator", "operator")
_QUANTITIES: Final = {b"mean": "mean", b"max": "max", b"p50": "p50", b"p99": "p99"}
_SECTIONS: Final = {
    b"Counters": "counter",
    b"Gauges": "gauge",
    b"Meters": "meter",
    b"Histograms": "histogram",
}
_TRUTH: Final = {b"true": 1.0, b"false": 0.0}


@dataclass(frozen=True, slots=True)
class KnownMetric:
    """One row of `formats/metrics.toml`.

    Attributes:
        name: as registered; `#` stands for a number, `*` for one part without a dot.
        scope: task, task-or-operator, operator, process, jm-job or jm.
        kind: counter, gauge, meter or histogram.
        unit: of a sample, as registered (nanoseconds stay nanoseconds).
        versions: the range of Flink versions that register it.
        absent: a value that means "none yet" and is no sample.
    """

    name: str
    scope: str
    kind: str
    unit: str
    versions: str
    absent: float | None


@cache
def known_metrics() -> dict[str, KnownMetric]:
    """Every metric that is kept, by its name in the table."""
    data = pkgutil.get_data("flowdiag.parsers", "formats/metrics.toml")
    if data is None:  # pragma: no cover - the file is part of the package
        raise FileNotFoundError("formats/metrics.toml")
    return {
        name: KnownMetric(
            name=name,
            scope=scope,
            kind=row["kind"],
            unit=row["unit"],
            versions=row["versions"],
            absent=float(row["absent"]) if "absent" in row else None,
        )
        for scope, rows in tomllib.loads(data.decode()).items()
        for name, row in rows.items()
    }


@cache
def _longest_name() -> int:
    return max(name.count(".") + 1 for name in known_metrics())


def recognise_metric(parts: list[str]) -> tuple[KnownMetric, int] | None:
    """Find the known metric at the end of an identifier's parts, the longest name first.

    Returns:
        the metric and the number of parts that its name has.

    >>> recognise_metric(["h", "taskmanager", "t", "Status", "JVM", "CPU", "Load"])[1]
    4
    """
    names = known_metrics()
    for length in range(min(_longest_name(), len(parts)), 0, -1):
        tail = parts[-length:]
        metric = names.get(".".join(tail))
        if metric is None:
            metric = names.get(".".join("#" if part.isdecimal() else part for part in tail))
        if metric is None and length > 2:
            metric = names.get(".".join((*tail[:-2], "*", tail[-1])))
        if metric is None and length == 1:
            metric = names.get(tail[0].translate(_DIGITS_TO_NUMBER))
        if metric is not None:
            return metric, length
    return None


_DIGITS_TO_NUMBER: Final = {ord(digit): "#" for digit in "0123456789"}


@dataclass(frozen=True, slots=True)
class Place:
    """What the scope part of an identifier says.

    Attributes:
        scope: tm, jm, jm-job, task, operator, or unknown for a configured scope format.
        text: the scope as printed, where it could not be taken apart.
    """

    scope: str
    host: str | None = None
    taskmanager: str | None = None
    job_name: str | None = None
    task: str | None = None
    operator: str | None = None
    subtask_index: int | None = None
    text: str | None = None


@dataclass(slots=True, eq=False)
class _Series:
    """One identifier, and the samples since the last flush."""

    metric: KnownMetric
    name: str
    kind: str
    rest: str
    subtask_index: int | None
    values: list[float] = field(default_factory=list)
    folded: int = 0  # how many of the values come from reports that are complete
    quantities: dict[str, list[float]] | None = None
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class _Shape:
    """The lines of a report but for their values: the next one of the same process is alike.

    Attributes:
        beginnings: of every line that is read; a control line is its own.
        kept: per sample: position of its line, length of its beginning, identifier, series.
        columns: per series the places in `kept` of its samples; more than one where the report says it twice.
    """

    beginnings: Sequence[bytes]
    kept: Sequence[tuple[int, int, bytes, _Series]]
    columns: Sequence[tuple[_Series, Sequence[int]]]


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """What the rows of a minute have in common with those of the next one: all but times and numbers.

    Attributes:
        series, names: of each row.
        columns: of `EVENTS`, all that do not change with the minute, those without any value among them.
        metric: the first parts of the column `metric`, up to the operator.
        absent: the rows with a value that means "none yet".
    """

    series: list[_Series]
    names: list[str]
    columns: dict[str, pa.Array]
    metric: list[pa.Array]
    absent: list[int]


@dataclass(slots=True)
class _Process:
    """What is known of one process in the stream (a compose log holds several)."""

    series: dict[bytes, _Series] = field(default_factory=dict)
    twofold: list[_Series] = field(default_factory=list)
    # Identifier -> the `append` of its samples; None for what is not kept.
    appends: dict[bytes, object] = field(default_factory=dict)
    # The samples of reports that are like `shape`, a row for each: they go to their series together.
    alike: list[list[float]] = field(default_factory=list)
    delimiter: str = "."
    scopes: set[str] = field(default_factory=set)
    minute: int | None = None
    blocks: int = 0
    samples: int = 0
    offset: int = 0
    first_local_us: int | None = None
    last_local_us: int | None = None
    first_utc_us: int | None = None
    last_utc_us: int | None = None
    clock: str | None = None
    placed: set[Place] = field(default_factory=set)
    shape: _Shape | None = None
    rows: _Rows | None = None


class MetricFolder:
    """Folds the metrics reports of one split into rows of event `metric`.

    A row is one series of one minute: first, last, min, max and sum of `count` samples. Rows of
    a minute that two splits share are partial: they merge by these same operations.
    `local_us` and `utc_us` are those of the first report of the row; `duration_ms` is the time
    between the first and the last one (null where a report lacks the series), so that a counter
    has a rate. NaN, infinite, textual and "none yet" values are not counted; a series that had
    nothing else is a row with count 0, which tells a disabled metric from a missing one.

    Beside these, one `placed` row (template `metrics-scope`) tells where each subtask ran, the
    first time its scope is seen.
    """

    def __init__(self, source: int, wanted: Collection[str] | None = None) -> None:
        """Start with nothing folded.

        Args:
            source: index of the source that all blocks come from.
            wanted: names in `formats/metrics.toml` of the metrics that become rows; None for all.
        """
        self._source = source
        self._wanted = None if wanted is None else frozenset(wanted)
        self._processes: dict[str | None, _Process] = {}
        self.lines = 0
        """Lines read so far, whatever became of them."""
        self.blocks = 0
        """Reports read so far."""

    def add_block(
        self,
        lines: Iterable[bytes],
        *,
        offset: int,
        local_us: int | None = None,
        utc_us: int | None = None,
        clock: str | None = None,
        process: str | None = None,
        cut: Callable[[], list[bytes]] | None = None,
    ) -> list[pa.RecordBatch]:
        """Read one report.

        Args:
            lines: UTF-8 lines behind the record's first line, carriers stripped, with or
                without line end. Reading stops behind `Finished metrics report`; the caller
                ends the iterator where the next record starts or at its own cap.
            offset: first byte of the record in its decoded stream.
            local_us, utc_us, clock, process: as in `EVENTS`, of the record.
            cut: gives the lines in front of the next record, where other records may have come
                in between; not asked if the report has the same lines as the one before.

        Returns:
            batches of `EVENTS` for the minutes that this report ends; mostly none.
        """
        state = self._processes.get(process)
        if state is None:
            state = self._processes[process] = _Process()
        now = utc_us if utc_us is not None else local_us
        minute = None if now is None else now // MINUTE_US
        batches = []
        if state.blocks and (minute != state.minute or state.samples >= MAX_SAMPLES):
            batches = list(self._flush(process, state))
        if not state.blocks:
            state.minute, state.offset, state.clock = minute, offset, clock
            state.first_local_us, state.first_utc_us = local_us, utc_us
        state.last_local_us, state.last_utc_us = local_us, utc_us
        state.blocks += 1
        self.blocks += 1
        count = self._read(state, lines, cut)
        # An upper bound: counting the samples themselves would cost as much as reading them.
        state.samples += count
        self.lines += count
        if len(state.appends) > MAX_IDENTIFIERS:
            batches += self._flush(process, state)
            self._processes[process] = _Process(
                delimiter=state.delimiter, scopes=state.scopes, placed=state.placed
            )
        return batches

    def flush(self) -> list[pa.RecordBatch]:
        """Give out what is folded so far, at the end of a split."""
        return [
            batch
            for process, state in self._processes.items()
            if state.blocks
            for batch in self._flush(process, state)
        ]

    def _read(
        self, state: _Process, lines: Iterable[bytes], cut: Callable[[], list[bytes]] | None
    ) -> int:
        """Append each wanted metric's value to its series; return the number of lines."""
        if isinstance(lines, list):
            if state.shape is not None and self._read_alike(state, state.shape, lines):
                return len(state.shape.beginnings)
            if cut is not None:
                lines = cut()
            count = self._read_any(state, lines)
            state.shape = _shape_of(state, lines[:count])
            return count
        return self._read_any(state, lines)

    def _read_alike(self, state: _Process, shape: _Shape, lines: list[bytes]) -> bool:
        """Read a report that differs from the one before in its values only.

        No line is taken apart: that its beginnings are the same is seen without a Python call for each.

        Returns:
            False if it differs otherwise, too; then nothing was read.
        """
        beginnings = shape.beginnings
        if len(lines) < len(beginnings) or not all(map(bytes.startswith, lines, beginnings)):
            return False
        texts = [lines[position][length:] for position, length, _, _ in shape.kept]
        try:
            state.alike.append([*map(float, texts)])
        except ValueError:
            _give_out(state)
            for (_, _, identifier, series), text in zip(shape.kept, texts, strict=True):
                try:
                    series.values.append(float(text))
                except ValueError:
                    self._odd_value(state, identifier, text.strip())
            _join_twofold(state.twofold)
        return True

    def _read_any(self, state: _Process, lines: Iterable[bytes]) -> int:
        """Read a report line by line."""
        _give_out(state)
        get = state.appends.get
        unseen = _UNSEEN
        section: str | None = None
        count = 0
        for line in lines:
            count += 1
            identifier, _, text = line.rpartition(b": ")
            append = get(identifier, unseen)
            if append is None:
                continue
            if append is unseen:
                if not identifier:
                    control = line.strip()
                    if control.startswith(b"-- "):
                        section = _SECTIONS.get(control.split(b" ", 2)[1])
                    elif control.startswith(b"===") and b"Finished metrics report" in control:
                        break
                    continue
                append = self._learn(state, identifier, section)
                if append is None:
                    continue
            try:
                append(float(text))  # type: ignore[operator]
            except ValueError:
                self._odd_value(state, identifier, text.strip())
        _join_twofold(state.twofold)
        return count

    def _learn(self, state: _Process, identifier: bytes, section: str | None) -> object:
        """Take an identifier apart and remember it."""
        if len(identifier) > MAX_IDENTIFIER_BYTES:
            return None
        series = _series_of(identifier.decode("utf-8", "replace"), state, section)
        if series is None:
            state.appends[identifier] = None
            return None
        if series.metric.scope == "process":
            state.scopes.add(series.rest)
        state.series[identifier] = series
        if self._wanted is not None and series.metric.name not in self._wanted:
            # It still tells the names of processes and tasks.
            state.appends[identifier] = None
            return None
        if series.metric.scope == "task-or-operator":
            state.twofold.append(series)
        state.appends[identifier] = series.values.append
        return series.values.append

    def _odd_value(self, state: _Process, identifier: bytes, text: bytes) -> None:
        """Take in what is no number: booleans and histograms; other text is no sample."""
        series = state.series.get(identifier)
        if series is None:
            return
        truth = _TRUTH.get(text)
        if truth is not None:
            series.values.append(truth)
        elif text.startswith(b"count="):
            if series.quantities is None:
                series.quantities = {}
            for item in text.split(b", "):
                key, _, value = item.partition(b"=")
                quantity = _QUANTITIES.get(key)
                if quantity is not None:
                    try:
                        number = float(value)
                    except ValueError:
                        continue
                    series.quantities.setdefault(quantity, []).append(number)

    def _flush(self, process: str | None, state: _Process) -> Iterator[pa.RecordBatch]:
        """Make the rows of one process, and forget its samples."""
        _give_out(state)
        used = [s for s in state.series.values() if s.values or s.quantities]
        _place_all(state, used)
        owners: list[_Series] = []
        names: list[str] = []
        samples: list[list[float]] = []
        for series in used:
            if series.values:
                owners.append(series)
                names.append(series.name)
                samples.append(series.values)
            for quantity, values in (series.quantities or {}).items():
                owners.append(series)
                names.append(f"{series.name}.{quantity}")
                samples.append(values)
        known = state.rows
        if known is None or known.series != owners or known.names != names:
            known = state.rows = self._rows_of(process, owners, names)
            placed = [
                place
                for place in dict.fromkeys(series.place for series in used)
                if place is not None and place.scope == "task" and place not in state.placed
            ]
        else:
            placed = []  # all of them were there the last time
        if owners:
            yield self._metric_batch(state, known, samples)
        if placed:
            state.placed.update(placed)
            yield self._placed_batch(process, state, placed)
        for series in used:
            series.values.clear()
            series.folded = 0
            series.quantities = None
        state.blocks = state.samples = 0

    def _rows_of(self, process: str | None, series: list[_Series], names: list[str]) -> _Rows:
        """What the rows of these series say in every minute."""
        size = len(series)
        places = [one.place or _NOWHERE for one in series]
        fields = [None if place.text is None else [("scope", place.text)] for place in places]
        columns: dict[str, list[Any]] = {
            "source": [self._source] * size,
            "event": [Event.METRIC.value] * size,
            "template": [TEMPLATE] * size,
            "process": [process] * size,
            "job_name": [place.job_name for place in places],
            "task": [place.task for place in places],
            "subtask_index": [place.subtask_index for place in places],
            "taskmanager": [place.taskmanager for place in places],
            "host": [place.host for place in places],
            "fields": fields,
        }
        return _Rows(
            series,
            names,
            {
                kind.name: array_of(columns[kind.name], kind.type)
                if kind.name in columns
                else pa.nulls(size, kind.type)
                for kind in EVENTS
            },
            [
                pa.array(names, pa.string()),
                pa.array([one.kind for one in series], pa.string()),
                pa.array([place.scope for place in places], pa.string()),
                pa.array([place.operator for place in places], pa.string()),
            ],
            [row for row, one in enumerate(series) if one.metric.absent is not None],
        )

    def _metric_batch(
        self, state: _Process, rows: _Rows, samples: list[list[float]]
    ) -> pa.RecordBatch:
        """Build the columns directly: a row of its own would cost more than its samples."""
        size = len(samples)
        span = _span_ms(state)
        metric = pa.StructArray.from_arrays(
            [*rows.metric, *_statistics(rows, samples)], fields=list(METRIC)
        )
        columns: dict[str, pa.Array] = {**rows.columns, "metric": metric}
        for name, value in (
            ("offset", state.offset),
            ("local_us", state.first_local_us),
            ("utc_us", state.first_utc_us),
            ("clock", state.clock),
        ):
            columns[name] = repeat_value(value, EVENTS.field(name).type, size)
        # A series that missed a report says nothing about the time between its samples.
        spans = [None if len(each) % state.blocks else span for each in samples]
        columns["duration_ms"] = array_of(spans, EVENTS.field("duration_ms").type)
        return pa.RecordBatch.from_arrays([*columns.values()], schema=EVENTS)

    def _placed_batch(
        self, process: str | None, state: _Process, places: list[Place]
    ) -> pa.RecordBatch:
        builder = RowBuilder()
        for place in places:
            builder.add(
                {
                    "source": self._source,
                    "offset": state.offset,
                    "event": Event.PLACED.value,
                    "template": PLACED_TEMPLATE,
                    "local_us": state.first_local_us,
                    "utc_us": state.first_utc_us,
                    "clock": state.clock,
                    "process": process,
                    "job_name": place.job_name,
                    "task": place.task,
                    "subtask_index": place.subtask_index,
                    "taskmanager": place.taskmanager,
                    "host": place.host,
                }
            )
        return builder.take()


def parse_block(
    lines: Iterable[bytes | str],
    *,
    source: int = 0,
    offset: int = 0,
    local_us: int | None = None,
    utc_us: int | None = None,
    process: str | None = None,
) -> list[dict[str, object]]:
    """Read a single report into rows of `EVENTS`: for tests, and for reports met one by one."""
    folder = MetricFolder(source)
    encoded = (line.encode() if isinstance(line, str) else line for line in lines)
    batches = folder.add_block(
        encoded, offset=offset, local_us=local_us, utc_us=utc_us, process=process
    )
    return [row for batch in (*batches, *folder.flush()) for row in batch.to_pylist()]


def _shape_of(state: _Process, lines: list[bytes]) -> _Shape | None:
    """What a report has in common with the next one; None if it has no end."""
    if not lines or b"Finished metrics report" not in lines[-1]:
        return None
    beginnings = []
    kept = []
    for position, line in enumerate(lines):
        identifier, found, _ = line.rpartition(b": ")
        beginning = identifier + found or line
        beginnings.append(beginning)
        if state.appends.get(identifier) is not None:
            kept.append((position, len(beginning), identifier, state.series[identifier]))
    columns: dict[_Series, list[int]] = {}
    for column, (_, _, _, series) in enumerate(kept):
        columns.setdefault(series, []).append(column)
    return _Shape(beginnings, kept, [*columns.items()])


_UNSEEN: Final = object()
_NOWHERE: Final = Place(scope="unknown")


def _give_out(state: _Process) -> None:
    """Give the samples of reports that are alike to their series, and make one of what a report says twice."""
    if not state.alike or state.shape is None:
        return
    columns = [*zip(*state.alike, strict=True)]
    for series, places in state.shape.columns:
        if len(places) == 1:
            series.values += columns[places[0]]
        elif series.metric.scope == "task-or-operator":  # as `_join_twofold` has it
            series.values += map(max, *(columns[place] for place in places))
        else:
            series.values += chain(*zip(*(columns[place] for place in places), strict=True))
        series.folded = len(series.values)
    state.alike.clear()


def _join_twofold(twofold: list[_Series]) -> None:
    """Make one sample of what a report says twice.

    A task that is a single operator has its name, so that metrics which both register print the
    same identifier twice, in no order. The operator's is the same number or lacks what only the
    task sees (its `numBytesIn` is 0 where the task's is not), so the larger one is the task's.
    """
    for series in twofold:
        values = series.values
        fresh = len(values) - series.folded
        if fresh > 1:
            values[series.folded :] = [max(values[series.folded :])]
        series.folded = len(values)


def _statistics(rows: _Rows, samples: list[list[float]]) -> list[pa.Array]:
    """Count, first, last, min, max and sum of the samples of each row that are values."""
    counts: list[int] = list(map(len, samples))
    first: list[float | None] = [each[0] for each in samples]
    last: list[float | None] = [each[-1] for each in samples]
    least: list[float | None] = list(map(min, samples))
    most: list[float | None] = list(map(max, samples))
    total: list[float | None] = list(map(sum, samples))
    odd = set(rows.absent)
    if not all(map(math.isfinite, total)):  # type: ignore[arg-type]
        odd.update(row for row, each in enumerate(total) if not math.isfinite(each or 0.0))
    for row in odd:
        none_yet = rows.series[row].metric.absent
        values = [each for each in samples[row] if math.isfinite(each) and each != none_yet]
        counts[row] = len(values)
        first[row], last[row] = (values[0], values[-1]) if values else (None, None)
        least[row], most[row] = min(values, default=None), max(values, default=None)
        total[row] = sum(values) if values else None
    return [
        pa.array(counts, pa.int64()),
        *(pa.array(each, pa.float64()) for each in (first, last, least, most, total)),
    ]


def _span_ms(state: _Process) -> int | None:
    """Milliseconds between the first and the last report folded."""
    for first, last in (
        (state.first_utc_us, state.last_utc_us),
        (state.first_local_us, state.last_local_us),
    ):
        if first is not None and last is not None:
            return (last - first) // 1000 if last >= first else None
    return None


def _series_of(identifier: str, state: _Process, section: str | None) -> _Series | None:
    """Tell a known metric from the rest; the scope is settled when its block is complete."""
    if state.delimiter == "." and "Status" in identifier:
        state.delimiter = _delimiter_of(identifier)
        if state.delimiter != ".":
            # Everything learnt with the wrong delimiter is learnt anew.
            state.appends.clear()
    if state.delimiter != ".":
        identifier = identifier.replace(".", "_").replace(state.delimiter, ".")
    parts = identifier.split(".")
    found = recognise_metric(parts)
    if found is None:
        return None
    metric, length = found
    scope_parts = parts[:-length]
    subtask: int | None = None
    if metric.scope in _TASK_SCOPES:
        # A user's metric may have the name of one of Flink's; its group stands in between.
        if not scope_parts or not scope_parts[-1].isdecimal() or len(scope_parts[-1]) > 6:
            return None
        subtask = int(scope_parts[-1])
    elif metric.scope != "process" and "taskmanager" in scope_parts:
        return None  # a user's metric again: the JobManager's own are never in this scope
    return _Series(
        metric=metric,
        name=".".join(parts[-length:]),
        kind=section or metric.kind,
        rest=".".join(scope_parts if subtask is None else scope_parts[:-1]),
        subtask_index=subtask,
    )


def _delimiter_of(identifier: str) -> str:
    """Find `metrics.scope.delimiter` in the identifier of a JVM metric."""
    _, found, tail = identifier.rpartition("Status")
    if found and len(tail) > 4 and tail[1:4] == "JVM" and tail[4] == tail[0]:
        return tail[0]
    return "."


def _place_all(state: _Process, used: list[_Series]) -> None:
    """Settle the scopes of the series that have none yet."""
    new = [series for series in used if series.place is None]
    if not new:
        return
    bodies: dict[str, tuple[str, str]] = {}  # scope as printed -> (process scope, job.task)
    for series in state.series.values():
        if series.subtask_index is not None and series.rest not in bodies:
            owner = _owner(series.rest, state.scopes)
            if owner is not None:
                bodies[series.rest] = (owner, series.rest[len(owner) + 1 :])
    jobs = _jobs_of({body for _, body in bodies.values()})
    task_names = {
        (bodies[series.rest][0], bodies[series.rest][1])
        for series in state.series.values()
        if series.metric.scope == "task" and series.rest in bodies
    }
    chains = _Chains((owner, *_split_job(body, jobs)) for owner, body in task_names)
    for series in new:
        if series.subtask_index is None:
            series.place = _place_of_process(series)
        elif series.rest not in bodies:
            series.place = Place("unknown", subtask_index=series.subtask_index, text=series.rest)
        else:
            owner, body = bodies[series.rest]
            job, name = _split_job(body, jobs)
            host, taskmanager = _split_owner(owner)
            is_task = series.metric.scope != "operator" and (owner, body) in task_names
            series.place = Place(
                scope="task" if is_task else "operator",
                host=host,
                taskmanager=taskmanager,
                job_name=job,
                task=name if is_task else chains.task_of(owner, job, name),
                operator=None if is_task else name,
                subtask_index=series.subtask_index,
            )


def _owner(rest: str, scopes: set[str]) -> str | None:
    """Find the scope of the process that a task's scope starts with."""
    known = [scope for scope in scopes if rest.startswith(scope + ".")]
    if known:
        return max(known, key=len)
    # Without a process metric: the id of a TaskManager is taken to have no dot.
    host, anchor, tail = rest.partition(".taskmanager.")
    taskmanager, dot, _ = tail.partition(".")
    return f"{host}{anchor}{taskmanager}" if anchor and dot else None


def _split_owner(owner: str) -> tuple[str | None, str | None]:
    host, anchor, taskmanager = owner.partition(".taskmanager.")
    return (host, taskmanager) if anchor else (None, None)


def _place_of_process(series: _Series) -> Place:
    """Settle the scope of a metric of a process, or of a job on the JobManager."""
    rest = series.rest
    host, anchor, taskmanager = rest.partition(".taskmanager.")
    if anchor and ".jobmanager" not in host:
        return Place("tm", host=host, taskmanager=taskmanager)
    if rest.endswith(".jobmanager"):
        return Place("jm", host=rest.removesuffix(".jobmanager"))
    host, anchor, job = rest.partition(".jobmanager.")
    if anchor:
        return Place("jm-job", host=host, job_name=job)
    return Place("unknown", text=rest or None)


def _jobs_of(bodies: set[str]) -> list[str]:
    """Find the job names in `job.task` texts, where either part may have dots.

    A text with a single dot is clear. Otherwise the job is what all texts with the same first
    part have in common, up to a dot; with nothing to compare, the first part.
    """
    groups: dict[str, list[list[str]]] = {}
    for body in bodies:
        parts = body.split(".")
        groups.setdefault(parts[0], []).append(parts)
    jobs = []
    for first, members in groups.items():
        if len(members) == 1 or any(len(parts) <= 2 for parts in members):
            jobs.append(first)
            continue
        common = first_common(members)
        jobs.append(".".join(common))
    return sorted(jobs, key=len, reverse=True)


def first_common(members: list[list[str]]) -> list[str]:
    """The parts that all start with, leaving each at least one part.

    >>> first_common([["a", "b", "x"], ["a", "b", "y", "z"]])
    ['a', 'b']
    """
    shortest = min(len(parts) for parts in members) - 1
    common: list[str] = []
    for column in zip(*(parts[:shortest] for parts in members), strict=True):
        if any(part != column[0] for part in column):
            break
        common.append(column[0])
    return common


def _split_job(body: str, jobs: list[str]) -> tuple[str | None, str]:
    for job in jobs:
        if body.startswith(job + "."):
            return job, body[len(job) + 1 :]
    return None, body


class _Chains:
    """Which task runs an operator, from the chained names in the tasks' own names."""

    def __init__(self, tasks: Iterable[tuple[str, str | None, str]]) -> None:
        self._tasks: dict[tuple[str, str | None], list[tuple[str, frozenset[str]]]] = {}
        for owner, job, task in tasks:
            self._tasks.setdefault((owner, job), []).append((task, _members(task)))

    def task_of(self, owner: str, job: str | None, operator: str) -> str | None:
        """The task whose chain has this operator, if there is exactly one."""
        found = [
            task
            for task, members in self._tasks.get((owner, job), ())
            if operator == task or operator in members
        ]
        return found[0] if len(found) == 1 else None


def _members(task: str) -> frozenset[str]:
    """The operators in a task's name.

    Forks print as `A -> (B -> C, D)`. An operator's own name may have commas and parentheses,
    hence also the whole parts between arrows are members.

    >>> sorted(_members("Source: a -> (Map, Filter -> Sink: b)"))[:3]
    ['(Map', '(Map, Filter', 'Filter']
    """
    names: set[str] = set()
    for part in task.split(" -> "):
        names.add(part)
        for piece in part.split(", "):
            names.add(piece)
            names.add(piece.lstrip("(").rstrip(")"))
    return frozenset(names)
