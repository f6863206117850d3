"""Builds the batches of a DStream application, and their outputs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from math import gcd
from statistics import median

import msgspec

from flowdiag.analyses.rate.assemble.rows import JSON, Row, Unit, field_of, optional_ref_of
from flowdiag.analyses.rate.facts import (
    Batch,
    OpenTask,
    Output,
    StageLoad,
    StreamInput,
    Work,
)
from flowdiag.parsers.rows import Event


def interval_of(about: Sequence[Row], batches: Sequence[Row]) -> tuple[int | None, str | None]:
    """Return the recorded batch interval or, failing that, the greatest common divisor of the gaps between batches."""
    for row in about:
        text = field_of(row, "interval_ms")
        if text.isdecimal() and int(text) > 0:
            return int(text), field_of(row, "origin") or "listener"
    for row in batches:
        if row.get("interval_ms"):
            return row["interval_ms"], "rest"
    times = sorted({row["batch"] for row in batches})
    gaps = [b - a for a, b in pairwise(times)]
    if len(gaps) < 2:
        return None, None
    common = reduce(gcd, gaps)
    # A restart or spliced logs can make the divisor much too small, but most gaps still equal the interval.
    typical = int(median(gaps))
    return (common if common * 4 >= typical else typical), "observed"


def batch_rows(rows: Sequence[Row], traces: Iterable[Row]) -> list[Row]:
    """Return the rows of the batches in order. Without any, return one per batch in the estimators' input.

    All estimators of an application receive the same delays. The submission of a batch then stands for its time.
    """
    if rows:
        return sorted(rows, key=lambda row: int(row["batch"]))
    found: dict[int, Row] = {}
    for row in traces:
        texts = [field_of(row, name) for name in ("time", "processing", "scheduling")]
        if row.get("template") == "pid-input" and all(text.isdecimal() for text in texts):
            end, processing, scheduling = map(int, texts)
            submission = end - processing - scheduling
            found[end] = {
                "batch": submission,
                "submission": submission,
                "start": end - processing,
                "end": end,
                "processing": processing,
                "scheduling": scheduling,
                "completed": True,
                "origins": ["log"],
                "ref": {"source": row["source"], "offset": row["offset"]},
            }
    return sorted(found.values(), key=lambda row: int(row["batch"]))


def batches_of(
    rows: Iterable[Row],
    stages: Mapping[int, StageLoad],
    work: Mapping[Unit, Work],
    tasks: Mapping[Unit, tuple[OpenTask, ...]],
    singles: Mapping[str, Sequence[Row]],
    interval_ms: int | None,
) -> tuple[Batch, ...]:
    """Return the batches in order, with record counts from REST or the estimators.

    Args:
        rows: the rows of batches, in order.
        stages: the worst stage, by batch time.
        work: the jobs of each batch.
        tasks: the tasks of each batch that have not ended.
        singles: single records, by kind of event.
        interval_ms: the batch interval.
    """
    rows = [*rows]
    open_in_log = _open_in_log(rows)
    batches = tuple(
        replace(
            _batch(
                row,
                stages.get(row["batch"]),
                work.get((row["batch"], None, None)),
                jobs_suffice=row["batch"] != open_in_log,
            ),
            open_tasks=tasks.get((row["batch"], None, None), ()),
        )
        for row in rows
    )
    rest_streams = _rest_inputs(singles[Event.SPARK_RECEIVER], interval_ms)
    if rest_streams:
        batches = tuple(_with_streams(batch, rest_streams) for batch in batches)
    return _with_traced_records(batches, singles[Event.SPARK_PID])


def _open_in_log(rows: Sequence[Row]) -> int | None:
    """Return the time of the last batch if the driver's log contains its start but not its end.

    All its jobs may have ended while the code of an output operation still waits on the driver.
    """
    begun = [row for row in rows if row.get("begun") or row.get("job_start") is not None]
    if not begun:
        return None
    last = max(begun, key=lambda row: int(row["batch"]))
    failed = last.get("failed_jobs") or last.get("failed")
    logged = "log" in (last.get("origins") or ()) and last.get("begun")
    return last["batch"] if logged and not last.get("completed") and not failed else None


def _batch(row: Row, stage: StageLoad | None, work: Work | None, *, jobs_suffice: bool) -> Batch:
    completed, approximate = bool(row.get("completed")), False
    start, end, processing = _times(row, completed)
    scheduling, submission = row.get("scheduling"), row.get("submission")
    job_start, job_end = row.get("job_start"), row.get("job_end")
    origins = set(row.get("origins") or ())
    if processing is None and job_start is not None and not origins & {"listener", "rest"}:
        start, approximate = job_start, True
        if job_end is not None and jobs_suffice:
            completed, end, processing = True, job_end, max(0, job_end - job_start)
    if scheduling is None and start is not None:
        scheduling = max(0, start - (submission if submission is not None else row["batch"]))
    state = _state(row, completed)
    if state == "processing" and start is None:
        start = _start_ms(row)
    return Batch(
        time_ms=row["batch"],
        state=state,
        records=row.get("records"),
        submission_ms=submission,
        start_ms=start,
        end_ms=end if completed else None,
        processing_ms=processing if completed else None,
        scheduling_ms=scheduling,
        failed_outputs=_failed_output_count(row, completed),
        reason=row.get("reason") or row.get("job_cause"),
        streams=_streams(row.get("streams")),
        stage=stage,
        work=work,
        approximate=approximate,
        lineage=_lineage(row),
        ref=optional_ref_of(row),
    )


def _lineage(row: Row) -> frozenset[str]:
    return frozenset((row.get("lineage") or "").split())


def _start_ms(row: Row) -> int | None:
    """Return when a running batch began, in ms. REST responses and copied tables have only batch time and delay."""
    delayed = None if row.get("scheduling") is None else row["batch"] + row["scheduling"]
    return max((ms for ms in (row.get("begun_ms"), delayed) if ms is not None), default=None)


def _state(row: Row, completed: bool) -> str:
    if completed:
        return "completed"
    return "processing" if row.get("begun") or row.get("job_start") is not None else "queued"


def _times(row: Row, completed: bool) -> tuple[int | None, int | None, int | None]:
    """Return start, end and processing delay of a batch, recorded or derived from its delays."""
    time, start, end = row["batch"], row.get("start"), row.get("end")
    processing, scheduling = row.get("processing"), row.get("scheduling")
    if end is None and processing is not None and row.get("log_total") is not None:
        end = time + row["log_total"]
        start = end - processing
    if end is None and processing is not None and scheduling is not None and completed:
        # REST contains delays without times, so the time from batch time to submission is unknown.
        start = time + scheduling
        end = start + processing
    return start, end, processing


def _failed_output_count(row: Row, completed: bool) -> int:
    """Return the number of failed outputs. An event log alone shows only failed jobs, which a stop can also cause."""
    if row.get("failed") is not None:
        return int(row["failed"])
    return min(1, row.get("failed_jobs") or 0) if completed else 0


def _streams(text: str | None) -> tuple[StreamInput, ...]:
    if not text:
        return ()
    try:
        items = JSON.decode(text)
    except msgspec.DecodeError:
        return ()
    return tuple(
        StreamInput(
            stream=item["stream"], records=item["records"], description=item.get("description")
        )
        for item in items
        if isinstance(item.get("stream"), int) and isinstance(item.get("records"), int)
    )


def _rest_inputs(receivers: Iterable[Row], interval_ms: int | None) -> dict[int, dict[int, int]]:
    """Return the records by batch time and stream, from REST: the rate times the interval."""
    inputs: dict[int, dict[int, int]] = defaultdict(dict)
    for row in receivers:
        rates, stream = field_of(row, "rates"), field_of(row, "stream")
        if not rates or not stream.isdecimal() or not interval_ms:
            continue
        for time, rate in JSON.decode(rates):
            inputs[int(time)][int(stream)] = round(rate * interval_ms / 1000)
    return dict(inputs)


def _with_streams(batch: Batch, inputs: Mapping[int, Mapping[int, int]]) -> Batch:
    if batch.streams or batch.time_ms not in inputs:
        return batch
    streams = tuple(
        StreamInput(stream=stream, records=records)
        for stream, records in sorted(inputs[batch.time_ms].items())
    )
    return replace(batch, streams=streams)


def _with_traced_records(batches: tuple[Batch, ...], traces: Iterable[Row]) -> tuple[Batch, ...]:
    """Add record counts from the estimators' input to batches that only the driver's log contains.

    The end of a batch, which both contain to the millisecond, identifies the batch.
    """
    if all(batch.streams or batch.records is not None for batch in batches):
        return batches
    counts: dict[int, list[int]] = defaultdict(list)
    for row in traces:
        time, elements = field_of(row, "time"), field_of(row, "elements")
        if row.get("template") == "pid-input" and time.isdecimal() and elements.isdecimal():
            counts[int(time)].append(int(elements))
    alone = all(len(entries) == 1 for entries in counts.values())
    return tuple(
        replace(
            batch,
            records=sum(counts[batch.end_ms]),
            streams=(StreamInput(stream=0, records=counts[batch.end_ms][0]),) if alone else (),
        )
        if batch.records is None and batch.end_ms in counts
        else batch
        for batch in batches
    )


def outputs_of(rows: Iterable[Row]) -> tuple[Output, ...]:
    """Return the failed output operations, by batch."""
    return tuple(
        Output(
            batch_ms=row["batch"],
            output=int(number) if (number := row.get("output") or "").isdecimal() else 0,
            name=row.get("name"),
            duration_ms=row.get("duration"),
            failure=row.get("cause"),
            time_us=row.get("failed_us"),
            ref=optional_ref_of(row),
        )
        for row in sorted(rows, key=lambda row: (row["batch"], row.get("output") or ""))
    )
