"""From collected rows to the facts of `flowdiag rate`: the one place where rows become values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise
from math import gcd
from statistics import median
from typing import Any

import msgspec

from flowdiag.analyses.keys import JobKey, Ref
from flowdiag.analyses.rate.facts import (
    ApplicationFacts,
    Batch,
    Blocks,
    Executor,
    Memory,
    Operation,
    Output,
    Partition,
    QueryFacts,
    RateFacts,
    Record,
    StageLoad,
    StreamInput,
    Trigger,
    Work,
)
from flowdiag.analyses.rate.measure import UNKNOWN
from flowdiag.parsers.rows import Event

Row = Mapping[str, Any]

_ANY = msgspec.json.Decoder()


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What only the user can tell.

    Args:
        trigger_interval_ms: of the triggers of queries.
        real_time: whether queries run in real-time mode; None: not told.
        configuration: options of the application; they count more than those of the input.
    """

    trigger_interval_ms: int | None = None
    real_time: bool | None = None
    configuration: Mapping[str, str] = field(default_factory=dict)


def assemble(
    rows: Iterable[tuple[str, str]],
    damaged: Iterable[str] = (),
    *,
    told: Told | None = None,
) -> RateFacts:
    """Make facts of the rows of `measure.facts_frame`.

    Args:
        rows: (what, row as JSON).
        damaged: keys of applications of whose inputs one is cut.
        told: what the user says.
    """
    said = told or Told()
    by_app: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for what, text in rows:
        row = _ANY.decode(text)
        by_app[row.get("app", "")][what].append(row)
    cut = set(damaged)
    return RateFacts(
        applications=tuple(
            _application(key, kinds, key in cut, said) for key, kinds in sorted(by_app.items())
        )
    )


def _application(
    key: str, kinds: Mapping[str, list[Row]], damaged: bool, told: Told
) -> ApplicationFacts:
    singles: dict[str, list[Row]] = defaultdict(list)
    order = sorted(
        kinds.get("single", ()), key=lambda r: (r.get("time_us") or 0, r["source"], r["offset"])
    )
    for row in order:
        singles[row["event"]].append(row)
    stages = kinds.get("stage", ())
    by_batch = {
        row["batch"]: _stage(row["worst"]) for row in stages if row.get("batch") is not None
    }
    by_trigger = {
        (row["run_id"], row.get("batch_id")): _stage(row["worst"])
        for row in stages
        if row.get("run_id")
    }
    work = {
        (row.get("batch"), row.get("run_id"), row.get("batch_id")): Work(
            jobs=row["jobs"], busy_ms=row.get("busy")
        )
        for row in kinds.get("work", ())
    }
    about = singles[Event.SPARK_APPLICATION]
    settings: dict[str, str] = {}
    for row in singles[Event.SPARK_SETTINGS]:
        settings |= row.get("fields") or {}
    settings |= told.configuration
    raw = sorted(kinds.get("batch", ()), key=lambda row: row["batch"])
    interval, interval_from = _interval(about, raw)
    batches = tuple(
        _batch(row, by_batch.get(row["batch"]), work.get((row["batch"], None, None))) for row in raw
    )
    rest_streams = _rest_inputs(singles[Event.SPARK_RECEIVER], interval)
    if rest_streams:
        batches = tuple(_with_streams(batch, rest_streams) for batch in batches)
    batches = _with_traced_records(batches, singles[Event.SPARK_PID])
    started = [row["time_us"] for row in about if _what(row) == "started" and row.get("time_us")]
    ended = [row["time_us"] for row in about if _what(row) == "ended" and row.get("time_us")]
    times = [row["time_us"] for row in order if row.get("time_us")]
    times += [batch.end_ms * 1000 for batch in batches if batch.end_ms is not None]
    origins = {origin for row in raw for origin in row.get("origins") or ()}
    origins |= {_field(row, "origin") for row in about} - {""}
    if any(row.get("jobs") for row in raw):
        origins.add("event-log")
    versions = [_field(row, "version") for row in (*about, *singles[Event.SPARK_LOG_STARTED])]
    names = [row["job_name"] for row in about if row.get("job_name")]
    return ApplicationFacts(
        key=JobKey("", key),
        application=None if key.startswith(UNKNOWN) or not key else key,
        name=names[0] if names else settings.get("spark.app.name"),
        version=next((version for version in versions if version), None),
        interval_ms=interval,
        interval_from=interval_from,
        settings=settings,
        settings_known=bool(singles[Event.SPARK_SETTINGS] or told.configuration),
        batches=batches,
        outputs=tuple(_output(row) for row in sorted(kinds.get("output", ()), key=_output_order)),
        executors=_executors(singles[Event.SPARK_EXECUTOR], kinds.get("executor", ())),
        operations=_operations(kinds.get("operation", ())),
        blocks=_blocks(kinds.get("blocks", ())),
        partitions=_partitions(kinds.get("range", ())),
        memory=tuple(
            Memory(
                host=row["host"],
                free_bytes=row.get("free"),
                bytes=row.get("bytes") or 0,
                first_ms=row.get("first"),
                last_ms=row.get("last"),
            )
            for row in sorted(kinds.get("memory", ()), key=lambda row: str(row.get("host")))
            if row.get("host")
        ),
        queries=_queries(singles, by_trigger, work, told, _real_time(singles, settings, told)),
        receivers=_records(singles[Event.SPARK_RECEIVER]),
        limits=_records(singles[Event.SPARK_RATE_LIMIT]),
        traces=_records(singles[Event.SPARK_PID]),
        lost=_records(singles[Event.SPARK_DROPPED]),
        incidents=_records(singles[Event.SPARK_INCIDENT]),
        started_us=min(started, default=None),
        ended_us=max(ended, default=None),
        last_us=max(times, default=None),
        origins=frozenset(origins),
        damaged=damaged,
    )


def _what(row: Row) -> str:
    return _field(row, "what")


def _field(row: Row, name: str) -> str:
    value = (row.get("fields") or {}).get(name)
    return "" if value is None else str(value)


def _ref(row: Row) -> Ref:
    return Ref(row["source"], row["offset"])


def _records(rows: Iterable[Row]) -> tuple[Record, ...]:
    return tuple(
        Record(
            kind=row["event"],
            template=row.get("template"),
            time_us=row.get("time_us"),
            host=row.get("host"),
            name=row.get("job_name"),
            cause=row.get("cause"),
            batch_ms=row.get("epoch_ms"),
            duration_ms=row.get("duration_ms"),
            fields=row.get("fields") or {},
            ref=_ref(row),
        )
        for row in rows
    )


def _stage(row: Row) -> StageLoad:
    slowest = row.get("slowest") or {}
    return StageLoad(
        stage=row["stage"],
        name=row.get("name"),
        tasks=row["tasks"],
        total_ms=row["total"],
        longest_ms=row["longest"],
        index=slowest.get("task", -1),
        executor=slowest.get("executor"),
        host=slowest.get("host"),
        slowest_records=slowest.get("slowest_records") or 0,
        records=row.get("records") or 0,
        gc_ms=row.get("gc") or 0,
        spilled_bytes=row.get("spilled") or 0,
        fetch_ms=row.get("fetch") or 0,
    )


# -- batches -------------------------------------------------------------------------------------


def _interval(about: Sequence[Row], batches: Sequence[Row]) -> tuple[int | None, str | None]:
    """The batch interval: as told, else the largest number that divides all distances of batches."""
    for row in about:
        told = _field(row, "interval_ms")
        if told.isdecimal() and int(told) > 0:
            return int(told), _field(row, "origin") or "listener"
    for row in batches:
        if row.get("interval_ms"):
            return row["interval_ms"], "rest"
    times = sorted({row["batch"] for row in batches})
    gaps = [b - a for a, b in pairwise(times)]
    if len(gaps) < 2:
        return None, None
    common = reduce(gcd, gaps)
    # A splice of logs with another grid, or a restart, breaks the divisor but not most gaps.
    usual = int(median(gaps))
    return (common if common * 4 >= usual else usual), "observed"


def _batch(row: Row, stage: StageLoad | None, work: Work | None) -> Batch:
    time = row["batch"]
    start, end, processing = row.get("start"), row.get("end"), row.get("processing")
    submission, scheduling = row.get("submission"), row.get("scheduling")
    completed = bool(row.get("completed"))
    approximate = False
    if end is None and processing is not None and row.get("log_total") is not None:
        end = time + row["log_total"]
        start = end - processing
    if end is None and processing is not None and scheduling is not None and completed:
        # REST tells delays and no times; what lies between batch time and submission is unknown.
        start = time + scheduling
        end = start + processing
    origins = set(row.get("origins") or ())
    job_start, job_end = row.get("job_start"), row.get("job_end")
    if processing is None and job_start is not None and not origins & {"listener", "rest"}:
        if job_end is not None:
            completed = True
            start, end, processing = job_start, job_end, max(0, job_end - job_start)
        else:
            start = job_start
        approximate = True
    if scheduling is None and start is not None:
        scheduling = max(0, start - (submission if submission is not None else time))
    state = "completed" if completed else "queued"
    if not completed and (row.get("begun") or job_start is not None):
        state = "processing"
    ref = row.get("ref")
    return Batch(
        time_ms=time,
        state=state,
        records=row.get("records"),
        submission_ms=submission,
        start_ms=start,
        end_ms=end if completed else None,
        processing_ms=processing if completed else None,
        scheduling_ms=scheduling,
        failed_outputs=_failed(row, completed),
        reason=row.get("reason") or row.get("job_cause"),
        streams=_streams(row.get("streams")),
        stage=stage,
        work=work,
        approximate=approximate,
        ref=Ref(ref["source"], ref["offset"]) if ref else None,
    )


def _failed(row: Row, completed: bool) -> int:
    """Failed output operations; an event log alone knows failed jobs, one of which may be the stop."""
    if row.get("failed") is not None:
        return int(row["failed"])
    return min(1, row.get("failed_jobs") or 0) if completed else 0


def _streams(text: str | None) -> tuple[StreamInput, ...]:
    if not text:
        return ()
    try:
        items = _ANY.decode(text)
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
    """Records by batch time and stream, from the rates that REST tells: records = rate x interval."""
    inputs: dict[int, dict[int, int]] = defaultdict(dict)
    for row in receivers:
        rates, stream = _field(row, "rates"), _field(row, "stream")
        if not rates or not stream.isdecimal() or not interval_ms:
            continue
        for time, rate in _ANY.decode(rates):
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
    """Records of batches that only a driver's log tells of, from what the estimators were told.

    An estimator is told when a batch ended, which the log says to the millisecond, too.
    """
    if all(batch.streams or batch.records is not None for batch in batches):
        return batches
    told: dict[int, list[int]] = defaultdict(list)
    for row in traces:
        time, elements = _field(row, "time"), _field(row, "elements")
        if row.get("template") == "pid-input" and time.isdecimal() and elements.isdecimal():
            told[int(time)].append(int(elements))
    alone = all(len(counts) == 1 for counts in told.values())
    return tuple(
        replace(
            batch,
            records=sum(told[batch.end_ms]),
            streams=(StreamInput(stream=0, records=told[batch.end_ms][0]),) if alone else (),
        )
        if batch.records is None and batch.end_ms in told
        else batch
        for batch in batches
    )


def _output_order(row: Row) -> tuple[int, str]:
    return row["batch"], row.get("output") or ""


def _output(row: Row) -> Output:
    number = row.get("output") or ""
    ref = row.get("ref")
    return Output(
        batch_ms=row["batch"],
        output=int(number) if number.isdecimal() else 0,
        name=row.get("name"),
        duration_ms=row.get("duration"),
        failure=row.get("cause"),
        ref=Ref(ref["source"], ref["offset"]) if ref else None,
    )


def _executors(events: Iterable[Row], loads: Iterable[Row]) -> tuple[Executor, ...]:
    added: dict[str, Row] = {}
    removed: dict[str, Row] = {}
    for row in events:
        name = _field(row, "executor")
        (added if _what(row) == "added" else removed).setdefault(name, row)
    by_name = {row.get("executor") or "": row for row in loads}
    result = []
    nothing: Row = {}
    for name in sorted({*added, *removed, *by_name}, key=lambda n: (len(n), n)):
        here, gone = added.get(name), removed.get(name)
        load = by_name.get(name, nothing)
        cores = _field(here, "cores") if here else ""
        origin = gone or here
        result.append(
            Executor(
                executor=name,
                host=(here or {}).get("host") or load.get("host"),
                cores=int(cores) if cores.isdecimal() else None,
                added_us=here.get("time_us") if here else None,
                removed_us=gone.get("time_us") if gone else None,
                reason=gone.get("cause") if gone else None,
                tasks=load.get("tasks") or 0,
                total_ms=load.get("total") or 0,
                stages=load.get("stages") or 0,
                ratio=load.get("ratio"),
                ref=_ref(origin) if origin else None,
            )
        )
    return tuple(result)


def _operations(rows: Iterable[Row]) -> tuple[Operation, ...]:
    found = [
        Operation(
            output=int(row["output"]),
            name=row.get("name"),
            batches=row["batches"],
            total_ms=row.get("total") or 0,
        )
        for row in rows
        if str(row.get("output") or "").isdecimal() and row["batches"]
    ]
    return tuple(sorted(found, key=lambda one: one.output))


def _partitions(rows: Iterable[Row]) -> tuple[Partition, ...]:
    found = [
        Partition(
            name=row["partition"],
            records=row["records"],
            tasks=row["tasks"],
            ref=Ref(row["ref"]["source"], row["ref"]["offset"]) if row.get("ref") else None,
        )
        for row in rows
        if row.get("partition") and row.get("records") is not None
    ]
    return tuple(sorted(found, key=lambda one: one.name))


def _blocks(rows: Iterable[Row]) -> tuple[Blocks, ...]:
    found = [
        Blocks(
            stream=int(row["stream"]),
            blocks=row["blocks"],
            bytes=row.get("bytes") or 0,
            first_ms=row.get("first"),
            last_ms=row.get("last"),
            usual_bytes=row.get("usual") or 0.0,
            largest_bytes=row.get("largest") or 0,
        )
        for row in rows
        if str(row.get("stream") or "").isdecimal()
    ]
    return tuple(sorted(found, key=lambda one: one.stream))


# -- queries -------------------------------------------------------------------------------------


def _queries(
    singles: Mapping[str, list[Row]],
    stages: Mapping[tuple[str, str | None], StageLoad],
    work: Mapping[tuple[int | None, str | None, str | None], Work],
    told: Told,
    real_time: tuple[bool | None, str | None],
) -> tuple[QueryFacts, ...]:
    triggers: dict[str, dict[tuple[str, int | None, int], Trigger]] = defaultdict(dict)
    names: dict[str, str] = {}
    runs: dict[str, dict[str, None]] = defaultdict(dict)
    # The log's line is the beginning of the report only: what quotes all of it is better evidence.
    for row in sorted(singles[Event.SPARK_PROGRESS], key=lambda r: r.get("template") is not None):
        identity, run = _field(row, "id"), _field(row, "run_id")
        if row.get("job_name"):
            names.setdefault(identity, row["job_name"])
        runs[identity][run] = None
        key = (run, row.get("checkpoint"), row.get("time_us") or 0)
        if key not in triggers[identity]:  # the same progress in event log, listener and log
            number = str(row.get("checkpoint"))
            triggers[identity][key] = _trigger(
                row, run, stages.get((run, number)), work.get((None, run, number))
            )
    events: dict[str, list[Row]] = defaultdict(list)
    for row in singles[Event.SPARK_QUERY]:
        identity = _field(row, "id")
        if row.get("job_name"):
            names.setdefault(identity, row["job_name"])
        runs[identity][_field(row, "run_id")] = None
        events[identity].append(row)
    said = [
        int(_field(row, "interval_ms"))
        for row in singles[Event.SPARK_INCIDENT]
        if row.get("template") == "falling-behind" and _field(row, "interval_ms").isdecimal()
    ]
    limits = [
        _field(r, "files")
        for r in singles[Event.SPARK_INCIDENT]
        if r.get("template") == "file-limit"
    ]
    taken = [
        _field(r, "files")
        for r in singles[Event.SPARK_INCIDENT]
        if r.get("template") == "files-taken"
    ]
    alone = len(runs) == 1  # the source's lines name no query
    result = []
    for identity in sorted(runs):
        mine = tuple(sorted(triggers[identity].values(), key=lambda t: (t.time_us, t.batch or 0)))
        interval, source = told.trigger_interval_ms, "option" if told.trigger_interval_ms else None
        if interval is None and said and len(runs) == 1:
            interval, source = said[-1], "log"
        if interval is None:
            interval = observed_trigger_ms(mine)
            source = "observed" if interval else None
        result.append(
            QueryFacts(
                id=identity,
                name=names.get(identity),
                runs=tuple(runs[identity]),
                triggers=mine,
                events=_records(events[identity]),
                trigger_interval_ms=interval,
                interval_from=source,
                tries=_tries(mine, runs[identity], work),
                # A driver's log names no query: what it says of one it may say of any.
                real_time=real_time[0] if alone or real_time[1] != "log" else None,
                real_time_from=real_time[1] if alone or real_time[1] != "log" else None,
                file_limit=int(limits[-1]) if alone and limits and limits[-1].isdecimal() else None,
                files_taken=tuple(int(n) for n in taken if n.isdecimal()) if alone else (),
            )
        )
    return tuple(result)


def _tries(
    triggers: Sequence[Trigger],
    runs: Iterable[str],
    work: Mapping[tuple[int | None, str | None, str | None], Work],
) -> dict[int, int]:
    """In how many runs batches were begun, those of one run left out.

    Progress tells only of batches that end; the jobs of the event log of others, too.
    """
    of = set(runs)
    found: dict[int, set[str]] = defaultdict(set)
    for trigger in triggers:
        if trigger.batch is not None and trigger.rows:
            found[trigger.batch].add(trigger.run_id)
    for _, run, batch in work:
        if run in of and run is not None and batch is not None and batch.isdecimal():
            found[int(batch)].add(run)
    return {batch: len(names) for batch, names in sorted(found.items()) if len(names) > 1}


def _real_time(
    singles: Mapping[str, list[Row]], settings: Mapping[str, str], told: Told
) -> tuple[bool | None, str | None]:
    """Whether queries run in real-time mode, which progress does not tell, and who says so."""
    if told.real_time is not None:
        return told.real_time, "option"
    templates = {row.get("template") or "" for row in singles[Event.SPARK_INCIDENT]}
    if any(template.startswith("real-time-mode") for template in templates):
        return True, "log"
    for option, value in settings.items():
        if option.lower().endswith("realtimemode.enabled"):
            return value.strip().lower() == "true", "configuration"
    return None, None


def _trigger(row: Row, run: str, stage: StageLoad | None, work: Work | None) -> Trigger:
    fields = row.get("fields") or {}

    def number(name: str) -> float | None:
        value = fields.get(name)
        return None if value is None else float(value)

    def whole(name: str) -> int | None:
        value = fields.get(name)
        return None if value is None else int(value)

    return Trigger(
        batch=row.get("checkpoint"),
        run_id=run,
        time_us=row.get("time_us") or 0,
        duration_ms=row.get("duration_ms"),
        rows=whole("rows"),
        durations=_ANY.decode(fields.get("durations") or "{}"),
        sources=tuple(_ANY.decode(fields.get("sources") or "[]")),
        input_per_s=number("input_per_s"),
        processed_per_s=number("processed_per_s"),
        watermark_us=whole("watermark_us"),
        max_event_us=whole("max_event_us"),
        state=tuple(_ANY.decode(fields.get("state") or "[]")),
        sink=fields.get("sink"),
        stage=stage,
        work=work,
        ref=_ref(row),
    )


def observed_trigger_ms(triggers: Sequence[Trigger]) -> int | None:
    """The trigger interval that the starts of triggers show; None where they show none.

    A processing-time trigger starts at multiples of its interval, and at once after an overrun (Spark
    2.2 and later): triggers that waited for their start lie on one grid.
    """
    waited = [
        b.time_us // 1000
        for a, b in pairwise(triggers)
        if a.run_id == b.run_id
        and a.duration_ms is not None
        and b.time_us // 1000 - a.time_us // 1000 > a.duration_ms + 50
    ]
    if len(waited) < 3:
        return None
    gaps = sorted(b - a for a, b in pairwise(waited) if b - a > 90)
    if not gaps:
        return None
    rounded = [round(gap / 100) * 100 for gap in gaps]
    usual = round(median(rounded) / 100) * 100
    guesses = {usual, rounded[0], reduce(gcd, rounded), *(usual // n for n in (2, 3, 4, 5))}
    for guess in sorted(guesses, reverse=True):
        if guess < 100:
            continue
        # Started within a tenth behind a multiple of the interval.
        on_grid = sum(time % guess <= max(50, guess * 0.1) for time in waited)
        if on_grid >= 0.8 * len(waited):
            return guess
    return None
