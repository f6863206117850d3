"""Parses metrics reports in logs (blocks of `identifier: value` lines) and aggregates them per minute.

Every few seconds, `org.apache.flink.metrics.slf4j.Slf4jReporter` logs all registered metrics as one record of many
lines. Nearly every line of a TaskManager's log then belongs to a report. So this module parses each identifier only
once. After that, a line costs one dictionary lookup and one call of `float`.

The parts of an identifier are joined by dots. Up to Flink 1.12 the parts themselves (host, job and task
names) may contain dots; later versions replace those with `_`. Only the whole report shows where each part ends. The
table in `formats/metrics.toml` identifies the name of the metric. The TaskManager's own `Status.*` metrics identify
the TaskManager, and the common prefix of its tasks identifies the job.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import Any, Final, NamedTuple

import pyarrow as pa

from flowdiag.parsers.flink.metric_table import (
    Chains,
    KnownMetric,
    Place,
    jobs_of,
    owner_of,
    parts_of,
    place_of_process,
    recognize_metric,
    split_job,
)
from flowdiag.parsers.rows import EVENTS, METRIC, Event, RowBuilder, array_of, repeat_value

TEMPLATE: Final = "metrics-report"
PLACED_TEMPLATE: Final = "metrics-scope"

MINUTE_US: Final = 60_000_000
MAX_SAMPLES: Final = 200_000
"""Maximum number of samples in memory (about 10 MB); more are flushed even within a minute."""
MAX_IDENTIFIERS: Final = 100_000
"""Maximum number of identifiers cached per process; beyond it the cache is cleared."""
MAX_IDENTIFIER_BYTES: Final = 4096
"""Maximum length of an identifier; a longer identifier is not a metric."""

_TASK_SCOPES: Final = ("task", "task-or-operator", "operator")
_QUANTITIES: Final = {b"mean": "mean", b"max": "max", b"p50": "p50", b"p99": "p99"}
_SECTIONS: Final = {
    b"Counters": "counter",
    b"Gauges": "gauge",
    b"Meters": "meter",
    b"Histograms": "histogram",
}
_TRUTH: Final = {b"true": 1.0, b"false": 0.0}
_TRUTH_AS_NUMBERS: Final = {b"true": b"1", b"false": b"0"}


@dataclass(slots=True, eq=False)
class _Series:
    """An identifier with its samples since the last flush.

    Attributes:
        folded: number of values that come from complete reports.
        counted: number of values of the reports up to `last`, without quantities.
        first, last: the numbers of the first and last report of the minute that contain the series.
    """

    metric: KnownMetric
    name: str
    kind: str
    rest: str
    subtask_index: int | None
    values: list[float] = field(default_factory=list)
    folded: int = 0
    counted: int = 0
    first: int | None = None
    last: int = 0
    quantities: dict[str, list[float]] | None = None
    place: Place | None = None

    def add_reports(self, first: int, last: int) -> None:
        """Note that the series is in these reports, whose values have been added."""
        if self.first is None:
            self.first = first
        self.last, self.counted = last, len(self.values)

    def clear(self) -> None:
        """Drop the samples."""
        self.values.clear()
        self.folded = self.counted = self.last = 0
        self.first = self.quantities = None


@dataclass(frozen=True, slots=True)
class _Shape:
    """The identifiers of a report, line by line. The next report of the same process usually has the same ones.

    Attributes:
        beginnings: the part of every line before its value; the whole line if it has no value.
        kept: identifier and series of each sample.
        lines: selects the lines of the samples from all lines.
        values: the slice of each sample's line that contains the value.
        columns: indices in `kept` of each series' samples; several if the report repeats an identifier.
    """

    beginnings: Sequence[bytes]
    kept: Sequence[tuple[bytes, _Series]]
    lines: Callable[[Sequence[bytes]], Sequence[bytes]]
    values: Sequence[slice]
    columns: Mapping[_Series, Sequence[int]]


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """The columns that do not change from minute to minute: everything except times and values.

    Attributes:
        series, names: series and metric name of each row.
        columns: the constant columns of `EVENTS`, including columns without values.
        metric: the constant parts of the column `metric`, up to the operator.
        absent: indices of the rows whose metric uses a special value for "none yet".
        shape: shape of the reports with exactly these series, if known.
    """

    series: list[_Series]
    names: list[str]
    columns: dict[str, pa.Array]
    metric: list[pa.Array]
    absent: list[int]
    shape: _Shape | None


class _Times(NamedTuple):
    """The time of a report, as printed and as an instant, in microseconds. Either may be unknown."""

    local_us: int | None
    utc_us: int | None

    def span_ms(self, until: _Times) -> int | None:
        """Return the milliseconds until another report, or None if unknown or negative."""
        for first, last in ((self.utc_us, until.utc_us), (self.local_us, until.local_us)):
            if first is not None and last is not None:
                return (last - first) // 1000 if last >= first else None
        return None


@dataclass(slots=True)
class _Process:
    """The state of one process in the stream. A log of Docker Compose contains several processes."""

    series: dict[bytes, _Series] = field(default_factory=dict)
    shared_names: list[_Series] = field(default_factory=list)
    # Identifier -> `append` of its list of samples; None for skipped identifiers.
    appends: dict[bytes, object] = field(default_factory=dict)
    # One list of samples per report with this `shape`; added to the series in bulk. The first has this number.
    pending: list[list[float]] = field(default_factory=list)
    pending_from: int = 0
    delimiter: str = "."
    scopes: set[str] = field(default_factory=set)
    minute: int | None = None
    times: list[_Times] = field(default_factory=list)
    samples: int = 0
    offset: int = 0
    clock: str | None = None
    placed: set[Place] = field(default_factory=set)
    shape: _Shape | None = None
    rows: _Rows | None = None

    def add_pending(self, samples: list[float]) -> None:
        """Keep the samples of the last report, which has the current shape."""
        if not self.pending:
            self.pending_from = len(self.times) - 1
        self.pending.append(samples)

    @property
    def is_uniform(self) -> bool:
        """Whether all reports of the minute have the shape of the current rows."""
        known = self.rows is not None and self.rows.shape is self.shape
        return known and len(self.pending) == len(self.times)

    def clear(self) -> None:
        """Drop the samples of the minute."""
        self.pending.clear()
        self.times.clear()
        self.samples = 0


class MetricFolder:
    """Aggregates the metrics reports of a split into rows of event `metric`.

    A row aggregates one series over one minute: first, last, min, max and sum of `count` samples. If two splits share
    a minute, each yields a partial row, and the same operations merge them. `local_us` and `utc_us` are the times of
    the first report that contains the series. `duration_ms` is the time from there to the last such report, from which
    a counter's rate follows. NaN, infinite, textual and "none yet" values do not
    count. A series without other values yields a row with count 0, which distinguishes a disabled metric from a
    missing one.

    When the scope of a subtask first appears, an additional `placed` row (template `metrics-scope`) shows where it
    runs.
    """

    def __init__(self, source: int, metric_names: Collection[str] | None = None) -> None:
        """Start without samples.

        Args:
            source: index of the source that contains the reports.
            metric_names: metrics to keep, as named in `formats/metrics.toml`; None for all.
        """
        self._source = source
        self._metric_names = None if metric_names is None else frozenset(metric_names)
        self._processes: dict[str | None, _Process] = {}
        self.lines = 0
        """Number of lines read so far, kept or not."""
        self.blocks = 0
        """Number of reports read so far."""

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
            lines: the lines after the record's first line, in UTF-8, without carriers, with or without line endings.
                Reading stops after `Finished metrics report`. The caller ends the iterator at the next record or at
                its own limit.
            offset: offset of the record in its decoded stream.
            local_us, utc_us, clock, process: the record's columns of these names.
            cut: returns only the lines before the next record, in case other records interrupt the report. It is not
                called if the report has the same lines as the previous one.

        Returns:
            Batches of `EVENTS` for the minutes that this report completes; usually none.
        """
        state = self._processes.get(process)
        if state is None:
            state = self._processes[process] = _Process()
        now = utc_us if utc_us is not None else local_us
        minute = None if now is None else now // MINUTE_US
        batches = []
        if state.times and (minute != state.minute or state.samples >= MAX_SAMPLES):
            batches = list(self._flush(process, state))
        if not state.times:
            state.minute, state.offset, state.clock = minute, offset, clock
        state.times.append(_Times(local_us, utc_us))
        self.blocks += 1
        count = self._read(state, lines, cut)
        # An upper bound, because counting the samples would cost as much as reading them.
        state.samples += count
        self.lines += count
        if len(state.appends) > MAX_IDENTIFIERS:
            batches += self._flush(process, state)
            self._processes[process] = _Process(
                delimiter=state.delimiter, scopes=state.scopes, placed=state.placed
            )
        return batches

    def flush(self) -> list[pa.RecordBatch]:
        """Return all remaining rows at the end of a split."""
        return [
            batch
            for process, state in self._processes.items()
            if state.times
            for batch in self._flush(process, state)
        ]

    def _read(
        self, state: _Process, lines: Iterable[bytes], cut: Callable[[], list[bytes]] | None
    ) -> int:
        """Append the value of each metric to its series. Return the number of lines."""
        if isinstance(lines, list):
            if state.shape is not None and self._read_same_shape(state, state.shape, lines):
                return len(state.shape.beginnings)
            if cut is not None:
                lines = cut()
            count = self._read_lines(state, lines)
            state.shape = _shape_of(state, lines[:count])
            return count
        return self._read_lines(state, lines)

    def _read_same_shape(self, state: _Process, shape: _Shape, lines: list[bytes]) -> bool:
        """Read a report that differs from the previous report only in its values.

        Its lines need not be parsed: comparing their beginnings takes no Python call per line.

        Returns:
            False, without having read anything, if the report differs in other ways.
        """
        beginnings = shape.beginnings
        if len(lines) < len(beginnings) or not all(map(bytes.startswith, lines, beginnings)):
            return False
        kept = shape.lines(lines)
        texts = [line[part] for line, part in zip(kept, shape.values, strict=True)]
        try:
            state.add_pending([*map(float, texts)])
            return True
        except ValueError:
            texts = [*map(bytes.strip, texts)]
        try:
            state.add_pending([*map(float, map(_TRUTH_AS_NUMBERS.get, texts, texts))])
        except ValueError:
            _distribute(state)
            for (identifier, series), text in zip(shape.kept, texts, strict=True):
                try:
                    series.values.append(float(text))
                except ValueError:
                    self._add_other_value(state, identifier, text)
            _complete_report(state)
        return True

    def _read_lines(self, state: _Process, lines: Iterable[bytes]) -> int:
        _distribute(state)
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
                append = self._parse_identifier(state, identifier, section)
                if append is None:
                    continue
            try:
                append(float(text))  # type: ignore[operator]
            except ValueError:
                self._add_other_value(state, identifier, text.strip())
        _complete_report(state)
        return count

    def _parse_identifier(self, state: _Process, identifier: bytes, section: str | None) -> object:
        """Parse an identifier and cache the result."""
        if len(identifier) > MAX_IDENTIFIER_BYTES:
            return None
        series = _series_of(identifier.decode("utf-8", "replace"), state, section)
        if series is None:
            state.appends[identifier] = None
            return None
        if series.metric.scope == "process":
            state.scopes.add(series.rest)
        state.series[identifier] = series
        if self._metric_names is not None and series.metric.name not in self._metric_names:
            # The identifier still reveals the names of processes and tasks.
            state.appends[identifier] = None
            return None
        if series.metric.scope == "task-or-operator":
            state.shared_names.append(series)
        state.appends[identifier] = series.values.append
        return series.values.append

    def _add_other_value(self, state: _Process, identifier: bytes, text: bytes) -> None:
        """Parse a value that is not a number. Only booleans and histograms are kept."""
        series = state.series.get(identifier)
        if series is None:
            return
        truth = _TRUTH.get(text)
        if truth is not None:
            series.values.append(truth)
        elif text.startswith(b"count="):
            if series.quantities is None:
                series.quantities = {}
            report = len(state.times) - 1
            series.add_reports(report, report)
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
        """Yield the rows of one process and clear its samples."""
        if state.is_uniform and state.rows is not None:
            samples = _pending_samples(state.pending, state.rows)
            reports = [(0, len(state.times) - 1)] * len(samples)
            yield self._metric_batch(state, state.rows, samples, reports)
        else:
            yield from self._flush_series(process, state)
        state.clear()

    def _flush_series(self, process: str | None, state: _Process) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a minute whose reports differ from each other or from the rows of the minute before."""
        rows = state.rows
        _distribute(state)
        used = [s for s in state.series.values() if s.values or s.quantities]
        _place_all(state, used)
        used.sort(key=_subject)  # so that the rows of a subject can be packed
        owners, names, samples = _samples_by_row(used)
        is_new = rows is None or rows.series != owners or rows.names != names
        if rows is None or is_new or rows.shape is not state.shape:
            rows = state.rows = self._rows_of(process, owners, names, state.shape)
        if owners:
            reports = [(series.first or 0, series.last) for series in owners]
            yield self._metric_batch(state, rows, samples, reports)
        if is_new:  # otherwise all places have been reported before
            yield from self._placed_batch(process, state, used)
        for series in used:
            series.clear()

    def _rows_of(
        self,
        process: str | None,
        series: list[_Series],
        names: list[str],
        shape: _Shape | None,
    ) -> _Rows:
        """Build the columns that are the same in every minute."""
        size = len(series)
        places = [each.place or _NOWHERE for each in series]
        columns: dict[str, list[Any]] = {
            "source": [self._source] * size,
            "event": [Event.METRIC.value] * size,
            "template": [TEMPLATE] * size,
            "process": [process] * size,
            **{name: [getattr(place, name) for place in places] for name in _PLACE_COLUMNS},
            "fields": [None if place.text is None else [("scope", place.text)] for place in places],
        }
        return _Rows(
            series=series,
            names=names,
            columns={
                kind.name: array_of(columns[kind.name], kind.type)
                if kind.name in columns
                else pa.nulls(size, kind.type)
                for kind in EVENTS
            },
            metric=[
                pa.array(names, pa.string()),
                pa.array([each.kind for each in series], pa.string()),
                pa.array([place.scope for place in places], pa.string()),
                pa.array([place.operator for place in places], pa.string()),
            ],
            absent=[row for row, each in enumerate(series) if each.metric.absent is not None],
            shape=_reusable_shape(shape, series, names),
        )

    def _metric_batch(
        self,
        state: _Process,
        rows: _Rows,
        samples: Sequence[Sequence[float]],
        reports: Sequence[tuple[int, int]],
    ) -> pa.RecordBatch:
        """Build the batch by column, because building it by row would cost more than reading the samples.

        Args:
            state: the process, with the times of its reports.
            rows: the constant columns.
            samples, reports: the samples of each row, and the numbers of their first and last report.
        """
        size = len(samples)
        metric = pa.StructArray.from_arrays(
            [*rows.metric, *_statistics(rows, samples)], fields=list(METRIC)
        )
        columns: dict[str, pa.Array] = {**rows.columns, "metric": metric}
        for name, value in (("offset", state.offset), ("clock", state.clock)):
            columns[name] = repeat_value(value, EVENTS.field(name).type, size)
        known = {each: (state.times[each[0]], state.times[each[1]]) for each in {*reports}}
        for name, values in (
            ("local_us", {each: first.local_us for each, (first, _) in known.items()}),
            ("utc_us", {each: first.utc_us for each, (first, _) in known.items()}),
            ("duration_ms", {each: first.span_ms(last) for each, (first, last) in known.items()}),
        ):
            kind = EVENTS.field(name).type
            columns[name] = (
                repeat_value(values[reports[0]], kind, size)
                if len(known) == 1
                else array_of([*map(values.__getitem__, reports)], kind)
            )
        return pa.RecordBatch.from_arrays([*columns.values()], schema=EVENTS)

    def _placed_batch(
        self, process: str | None, state: _Process, used: list[_Series]
    ) -> Iterator[pa.RecordBatch]:
        """Yield a batch with the places seen for the first time, if there are any."""
        builder = RowBuilder()
        for place in dict.fromkeys(series.place for series in used):
            if place is None or place.scope != "task" or place in state.placed:
                continue
            state.placed.add(place)
            builder.add(
                {
                    "source": self._source,
                    "offset": state.offset,
                    "event": Event.PLACED.value,
                    "template": PLACED_TEMPLATE,
                    "local_us": state.times[0].local_us,
                    "utc_us": state.times[0].utc_us,
                    "clock": state.clock,
                    "process": process,
                    **{name: getattr(place, name) for name in _PLACE_COLUMNS},
                }
            )
        if len(builder):
            yield builder.take()


def _subject(series: _Series) -> tuple[str, ...]:
    """Return a sort key that puts the series of a subject next to each other, ordered by metric name."""
    place = series.place or _NOWHERE
    return (place.scope, place.job_name or "", series.rest, f"{series.subtask_index}", series.name)


def _samples_by_row(used: list[_Series]) -> tuple[list[_Series], list[str], list[list[float]]]:
    """Return the series, the names and the samples of all rows."""
    owners: list[_Series] = []
    names: list[str] = []
    samples: list[list[float]] = []
    for series in used:
        if series.values:
            owners.append(series)
            names.append(series.name)
            samples.append(series.values)
        for quantity, values in sorted((series.quantities or {}).items()):
            owners.append(series)
            names.append(f"{series.name}.{quantity}")
            samples.append(values)
    return owners, names, samples


def _shape_of(state: _Process, lines: list[bytes]) -> _Shape | None:
    """Return the shape of a report, for comparison with the next report, or None if the report is incomplete."""
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
    positions = [position for position, *_ in kept]
    return _Shape(
        beginnings=beginnings,
        kept=[(identifier, series) for _, _, identifier, series in kept],
        # With one position, `itemgetter` does not return a tuple; with none, it fails.
        lines=itemgetter(*positions)
        if len(positions) > 1
        else lambda lines: [lines[position] for position in positions],
        values=[slice(length, None) for _, length, *_ in kept],
        columns=columns,
    )


_PLACE_COLUMNS: Final = ("job_name", "task", "subtask_index", "taskmanager", "host")
_UNSEEN: Final = object()
_NOWHERE: Final = Place(scope="unknown")


def _distribute(state: _Process) -> None:
    """Move pending samples to their series, and merge identifiers that occur twice."""
    if not state.pending or state.shape is None:
        return
    columns = [*zip(*state.pending, strict=True)]
    for series, places in state.shape.columns.items():
        series.values += _samples_of(series, columns, places)
        series.folded = len(series.values)
        series.add_reports(state.pending_from, state.pending_from + len(state.pending) - 1)
    state.pending.clear()


def _pending_samples(pending: Sequence[Sequence[float]], rows: _Rows) -> list[Sequence[float]]:
    """Return the samples of each row, if all reports of the minute have the same shape as the rows."""
    columns = [*zip(*pending, strict=True)]
    places = rows.shape.columns if rows.shape is not None else {}
    return [_samples_of(series, columns, places[series]) for series in rows.series]


def _samples_of(
    series: _Series, columns: Sequence[Sequence[float]], places: Sequence[int]
) -> Sequence[float]:
    """Pick the samples of one series from reports of the same shape."""
    if len(places) == 1:
        return columns[places[0]]
    repeated = [columns[place] for place in places]
    if series.metric.scope == "task-or-operator":  # as in `_merge_shared_names`
        return [*map(max, *repeated)]
    return [*chain(*zip(*repeated, strict=True))]


def _complete_report(state: _Process) -> None:
    """Merge the samples of the last report, which was read line by line, and note which series it contains."""
    _merge_shared_names(state.shared_names)
    number = len(state.times) - 1
    for series in state.series.values():
        if len(series.values) != series.counted:
            series.add_reports(number, number)


def _merge_shared_names(repeated: list[_Series]) -> None:
    """Merge the two samples of identifiers that a report contains twice.

    A task with a single operator has the operator's name. If both register a metric, the report prints it twice
    under one identifier, in any order. The operator's value is either equal or lacks data that only the task
    counts (its `numBytesIn` is 0), so the larger value is the task's.
    """
    for series in repeated:
        values = series.values
        fresh = len(values) - series.folded
        if fresh > 1:
            values[series.folded :] = [max(values[series.folded :])]
        series.folded = len(values)


def _statistics(rows: _Rows, samples: Sequence[Sequence[float]]) -> list[pa.Array]:
    """Return arrays of count, first, last, min, max and sum of the valid samples in each row."""
    counts: list[int] = list(map(len, samples))
    first: list[float | None] = [each[0] for each in samples]
    last: list[float | None] = [each[-1] for each in samples]
    least: list[float | None] = list(map(min, samples))
    most: list[float | None] = list(map(max, samples))
    total: list[float | None] = list(map(sum, samples))
    irregular = set(rows.absent)
    if not all(map(math.isfinite, total)):  # type: ignore[arg-type]
        irregular.update(row for row, each in enumerate(total) if not math.isfinite(each or 0.0))
    for row in irregular:
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


def _series_of(identifier: str, state: _Process, section: str | None) -> _Series | None:
    """Create the series for a known metric; its scope is resolved when the report is complete."""
    if state.delimiter == "." and "Status" in identifier:
        # The identifier of a JVM metric (`….Status.JVM.…`) shows the delimiter (`metrics.scope.delimiter`).
        _, _, tail = identifier.rpartition("Status")
        if tail[1:4] == "JVM" and tail[4:5] == tail[0] != ".":
            state.delimiter = tail[0]
            # Identifiers that were parsed with the wrong delimiter must be parsed again.
            state.appends.clear()
    if state.delimiter != ".":
        identifier = identifier.replace(".", "_").replace(state.delimiter, ".")
    parts = parts_of(identifier)
    found = recognize_metric(parts)
    if found is None:
        return None
    metric, length = found
    scope_parts = parts[:-length]
    subtask: int | None = None
    if metric.scope in _TASK_SCOPES:
        # A user metric with the name of a Flink metric has its group between scope and name.
        if not scope_parts or not scope_parts[-1].isdecimal() or len(scope_parts[-1]) > 6:
            return None
        subtask = int(scope_parts[-1])
    elif metric.scope != "process" and "taskmanager" in scope_parts:
        return None  # a user metric, because the JobManager's own metrics never have this scope
    return _Series(
        metric=metric,
        name=".".join(parts[-length:]),
        kind=section or metric.kind,
        rest=".".join(scope_parts if subtask is None else scope_parts[:-1]),
        subtask_index=subtask,
    )


def _place_all(state: _Process, used: list[_Series]) -> None:
    """Resolve the scopes of new series, now that the report is complete."""
    new = [series for series in used if series.place is None]
    if not new:
        return
    bodies, task_bodies = _split_scopes(state)
    jobs = jobs_of({body for _, body in bodies.values()})
    chains = Chains((owner, *split_job(body, jobs)) for owner, body in task_bodies)
    for series in new:
        if series.subtask_index is None:
            series.place = place_of_process(series.rest)
        elif series.rest not in bodies:
            series.place = Place("unknown", subtask_index=series.subtask_index, text=series.rest)
        else:
            owner, body = bodies[series.rest]
            job, name = split_job(body, jobs)
            host, anchor, taskmanager = owner.partition(".taskmanager.")
            is_task = series.metric.scope != "operator" and (owner, body) in task_bodies
            series.place = Place(
                scope="task" if is_task else "operator",
                host=host if anchor else None,
                taskmanager=taskmanager if anchor else None,
                job_name=job,
                task=name if is_task else chains.task_of(owner, job, name),
                operator=None if is_task else name,
                subtask_index=series.subtask_index,
            )


def _split_scopes(state: _Process) -> tuple[dict[str, tuple[str, str]], set[tuple[str, str]]]:
    """Split each printed task scope into the scope of its process and `job.task`.

    Returns:
        The two parts by printed scope, and the set of scopes that certainly belong to a task, not to an operator.
    """
    bodies: dict[str, tuple[str, str]] = {}
    tasks: set[tuple[str, str]] = set()
    for series in state.series.values():
        if series.subtask_index is not None and series.rest not in bodies:
            owner = owner_of(series.rest, state.scopes)
            if owner is not None:
                bodies[series.rest] = (owner, series.rest[len(owner) + 1 :])
        if series.metric.scope == "task" and series.rest in bodies:
            tasks.add(bodies[series.rest])
    return bodies, tasks


def _reusable_shape(
    shape: _Shape | None, series: Sequence[_Series], names: Sequence[str]
) -> _Shape | None:
    """Return the given shape if the rows consist of exactly the values of its series, or None.

    A row of a histogram has another name than its series.
    """
    if shape is None or {*series} != shape.columns.keys():
        return None
    alike = all(each.name == name for each, name in zip(series, names, strict=True))
    return shape if alike else None
