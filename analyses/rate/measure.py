"""What Spark's logs say about batches, triggers and tasks, measured with Spark itself.

`survey` (a module of its own) brings the few records that tell applications and clocks apart, `own`
judges them in Python, `facts_frame` merges everything else under those owners. A batch is the same in whichever source
it is told of: (application, batch time); so is a trigger: (run, batch, start). Rows come back as JSON
text, one column for any shape, so that one query of one plan brings all of them.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from flowdiag.analyses.engine.frames import kept
from flowdiag.parsers.rows import Event
from flowdiag.parsers.spark.rest import application_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from flowdiag.parsers.sources.discover import Source

QUARTER_MS: Final = 15 * 60 * 1000
END: Final = 2**62
UNKNOWN: Final = "?"  # begins the key of an application whose id nothing tells

# Records that are handed on as they are.
SINGLE: Final = (
    Event.SPARK_APPLICATION,
    Event.SPARK_SETTINGS,
    Event.SPARK_LOG_STARTED,
    Event.SPARK_RECEIVER,
    Event.SPARK_EXECUTOR,
    Event.SPARK_QUERY,
    Event.SPARK_PROGRESS,
    Event.SPARK_PID,
    Event.SPARK_RATE_LIMIT,
    Event.SPARK_DROPPED,
    Event.SPARK_INCIDENT,
)


def _in(*events: Event) -> str:
    return "(" + ", ".join(f"'{event.value}'" for event in events) + ")"


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A part of a source, and the application it belongs to.

    Args:
        low, high: first offset, and the first behind.
        application: its key: the id, or a made-up one that begins with `?`.
        shift_ms: what is subtracted from its printed clock.
        shift_from: how that is known: `batch-times`, `--tz`, `assumed`, None where nothing is printed.
    """

    source: int
    low: int
    high: int
    application: str
    shift_ms: int = 0
    shift_from: str | None = None
    first_us: int | None = None  # instants of its records
    last_us: int | None = None


def own(
    rows: Iterable[Mapping[str, Any]], sources: Sequence[Source], tz: str | None = None
) -> tuple[Owner, ...]:
    """Decide which application each part of each source belongs to, and what its clock lacks.

    An id that the source prints counts most, then one in its name or folder; what has neither belongs to
    the application with which it shares batch times or runs, nearest folder first, or to the only one.

    Args:
        rows: what `survey` collected, as dictionaries.
        sources: for their names and groups.
        tz: name of a zone that overrides the inferred one.
    """
    rows = list(rows)
    streams = {row["source"]: row for row in rows if row["what"] == "stream"}
    marks: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        if row["what"] == "rare" and row["event"] != Event.SPLIT:
            marks[row["source"]].append(row)
    parts = {source: _parts(sorted(marks[source], key=lambda r: r["offset"])) for source in streams}
    told: dict[int, str] = {}
    for source, row in streams.items():
        ids = [name for _, name in parts[source] if name] or list(row["applications"] or ())
        hint = application_in(sources[source].name)
        if ids or hint:
            told[source] = ids[0] if ids else str(hint)
    settled = dict(told)
    for source in streams:
        if source not in settled:
            settled[source] = _kin(source, streams, told, sources) or ""
    _join_strangers(settled, streams, sources)
    owners = []
    for source, row in streams.items():
        shift, shift_from = _shift(row, tz)
        cuts = parts[source] or [(0, None)]
        for number, (low, name) in enumerate(cuts):
            high = cuts[number + 1][0] if number + 1 < len(cuts) else END
            owners.append(
                Owner(
                    source=source,
                    low=0 if number == 0 else low,
                    high=high,
                    application=name or settled[source],
                    shift_ms=shift,
                    shift_from=shift_from,
                    first_us=_instant(row["first_us"], shift, row["printed"]),
                    last_us=_instant(row["last_us"], shift, row["printed"]),
                )
            )
    return tuple(owners)


def _instant(time_us: int | None, shift_ms: int, printed: bool) -> int | None:
    if time_us is None:
        return None
    return time_us - shift_ms * 1000 if printed else time_us


def _parts(marks: Sequence[Mapping[str, Any]]) -> list[tuple[int, str | None]]:
    """Where applications begin in a source: (offset, id). A log's first line precedes its id."""
    parts: list[tuple[int, str | None]] = []
    opened: int | None = None
    for mark in marks:
        if mark["event"] == Event.SPARK_LOG_STARTED:
            opened = mark["offset"]
            continue
        name = mark["application"]
        if name and (not parts or parts[-1][1] != name):
            parts.append((opened if opened is not None else mark["offset"], name))
        opened = None
    return parts


def _kin(
    source: int,
    streams: Mapping[int, Mapping[str, Any]],
    told: Mapping[int, str],
    sources: Sequence[Source],
) -> str | None:
    """The application that a source without an id belongs to, or None."""
    mine = streams[source]
    candidates: dict[str, tuple[int, int]] = {}
    for other, name in told.items():
        shared = _shared(mine, streams[other])
        near = _nearness(sources[source].name, sources[other].name)
        if shared:
            candidates[name] = max(candidates.get(name, (0, -1)), (near, shared))
    if candidates:
        return max(sorted(candidates), key=lambda name: candidates[name])
    names = sorted(set(told.values()))
    nothing_to_compare = not mine["batches"] and not mine["runs"]
    if len(names) == 1 and (nothing_to_compare or not _comparable(mine, told, streams)):
        return names[0]
    if nothing_to_compare and names:
        near_to = {name: -1 for name in names}
        for other, name in told.items():
            near = _nearness(sources[source].name, sources[other].name)
            near_to[name] = max(near_to[name], near)
        best = max(near_to.values())
        nearest = [name for name in names if near_to[name] == best]
        return nearest[0] if len(nearest) == 1 else None
    return None


def _comparable(
    mine: Mapping[str, Any], told: Mapping[int, str], streams: Mapping[int, Mapping[str, Any]]
) -> bool:
    """Whether any other source has batch times or runs, so that sharing none means something."""
    key = "batches" if mine["batches"] else "runs"
    return any(streams[other][key] for other in told)


def _shared(one: Mapping[str, Any], other: Mapping[str, Any]) -> int:
    batches = len(set(one["batches"] or ()) & set(other["batches"] or ()))
    if not batches and one["batches"] and other["batches"]:
        # One may begin later: its first batch times lie on the grid and within the span of the other.
        first, last = other["first_us"] // 1000, other["last_us"] // 1000
        batches = sum(first <= time <= last for time in one["batches"]) // 2
    return batches + len(set(one["runs"] or ()) & set(other["runs"] or ()))


def _nearness(one: str, other: str) -> int:
    """How many folders two names share."""
    try:
        return len(os.path.commonpath([os.path.dirname(one), os.path.dirname(other)]))
    except ValueError:
        return 0


def _join_strangers(
    settled: dict[int, str], streams: Mapping[int, Mapping[str, Any]], sources: Sequence[Source]
) -> None:
    """Give sources of unknown applications made-up keys, the same where they share batches or runs."""
    strangers = [source for source in sorted(settled) if not settled[source]]
    for source in strangers:
        for other in strangers:
            if other < source and settled[other] and _shared(streams[source], streams[other]):
                settled[source] = settled[other]
                break
        else:
            known = [settled[other] for other in strangers if settled[other]]
            alone = not streams[source]["batches"] and not streams[source]["runs"]
            settled[source] = known[0] if alone and known else UNKNOWN + sources[source].group


def _shift(row: Mapping[str, Any], tz: str | None) -> tuple[int, str | None]:
    """What a source's printed clock is ahead of UTC."""
    if not row["printed"]:
        return 0, None
    if tz is not None:
        from datetime import UTC, datetime, timedelta
        from zoneinfo import ZoneInfo

        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=row["first_us"])
        offset = moment.replace(tzinfo=ZoneInfo(tz)).utcoffset()
        return (0 if offset is None else int(offset.total_seconds() * 1000)), "--tz"
    if row["shift_ms"] is None:
        return 0, "assumed"
    # What is logged about a batch is logged after its time: the smallest difference is the zone, and
    # some seconds; two-digit clocks cut a second off.
    return (row["shift_ms"] + 1000) // QUARTER_MS * QUARTER_MS, "batch-times"


def owned(events: DataFrame, owners: Sequence[Owner]) -> DataFrame:
    """EVENTS with the application as `app` and the instant as `time_us`."""
    spark = events.sparkSession
    frame = spark.createDataFrame(
        pa.table(
            {
                "source": pa.array((o.source for o in owners), pa.int32()),
                "low": pa.array((o.low for o in owners), pa.int64()),
                "high": pa.array((o.high for o in owners), pa.int64()),
                "app": pa.array((o.application for o in owners), pa.string()),
                "shift_ms": pa.array((o.shift_ms for o in owners), pa.int64()),
            }
        )
    )
    return spark.sql(
        """
        SELECT /*+ BROADCAST(o) */ e.* EXCEPT (application),
          coalesce(e.application, o.app) AS app,
          coalesce(e.utc_us, e.local_us - o.shift_ms * 1000) AS time_us
        FROM {events} AS e JOIN {owners} AS o
          ON e.source = o.source AND e.offset >= o.low AND e.offset < o.high
        WHERE e.event <> 'split'
        """,
        events=events,
        owners=frame,
    )


# The kinds of events that parts of the facts are made of; where there are none, Spark is not asked.
_SAID_BY: Final[Mapping[str, AbstractSet[str]]] = {
    "batch": {Event.SPARK_BATCH, Event.SPARK_JOB},
    "output": {Event.SPARK_OUTPUT},
    "operation": {Event.SPARK_OUTPUT},
    "work": {Event.SPARK_JOB},
    "blocks": {Event.SPARK_BLOCK},
    "range": {Event.SPARK_RANGE},
    "memory": {Event.SPARK_BLOCK},
    "stage": {Event.SPARK_TASKS},
    "executor": {Event.SPARK_TASKS},
}


def facts_frame(events: DataFrame, present: AbstractSet[str] | None = None) -> DataFrame:
    """Everything that `flowdiag.analyses.rate.assemble` needs: (what, row as JSON).

    `batch` per (application, batch time), `output` per failed output operation, `stage` the worst stage
    of each batch or trigger, `work` its jobs, `executor` per executor, `operation` per output operation,
    `blocks` per receiver, `memory` where they are kept, `range` per partition of a topic,
    `single` for records as they are.

    Args:
        events: what `owned` returned.
        present: kinds of events that there are, where that is known.
    """
    number = "CAST(fields['{}'] AS BIGINT)".format

    def only(event: Event) -> str:
        """A condition, which is known to hold nowhere where there are no such events."""
        return f"event = '{event}'" if present is None or event in present else "false"

    # Read by several parts of the query: computed once.
    jobs = _view(
        events,
        f"""
        SELECT app, checkpoint AS job,
          max(epoch_ms) AS batch,
          max(fields['output']) AS output,
          max(fields['run_id']) AS run_id,
          max(fields['batch_id']) AS batch_id,
          min(time_us) FILTER (WHERE fields['what'] = 'started') DIV 1000 AS start,
          max(time_us) FILTER (WHERE fields['what'] = 'ended') DIV 1000 AS end,
          max(fields['failed']) = 'true' AS failed,
          max(cause) AS cause,
          max(fields['stages']) AS stages,
          min(struct(source, offset)) AS ref
        FROM {{events}} WHERE {only(Event.SPARK_JOB)}
        GROUP BY app, checkpoint
        """,
        Event.SPARK_JOB,
        present,
    )
    tasks = _view(
        events,
        f"""
        SELECT DISTINCT app, checkpoint AS stage, attempt, host, bytes, fields['executor'] AS executor,
          {number("tasks")} AS tasks, {number("failed")} AS failed, {number("total_ms")} AS total,
          {number("longest_ms")} AS longest, {number("index")} AS task,
          {number("slowest_records")} AS slowest_records, {number("records")} AS records,
          {number("gc_ms")} AS gc, {number("spilled")} AS spilled, {number("fetch_ms")} AS fetch,
          time_us
        FROM {{events}} WHERE {only(Event.SPARK_TASKS)}
        """,
        Event.SPARK_TASKS,
        present,
    )
    views = f"""
        WITH told AS (
          SELECT app, epoch_ms, time_us, source, offset, duration_ms, cause, fields,
            fields['origin'] AS origin, fields['state'] AS state
          FROM {{events}} WHERE {only(Event.SPARK_BATCH)} AND epoch_ms IS NOT NULL
        ), batches AS (
          SELECT app, epoch_ms AS batch,
            max({number("submission")}) AS submission,
            max({number("start")}) AS start,
            max({number("end")}) AS end,
            coalesce(max(duration_ms) FILTER (WHERE origin = 'listener'),
                     max(duration_ms) FILTER (WHERE origin = 'rest'), max(duration_ms)) AS processing,
            coalesce(max({number("scheduling")}) FILTER (WHERE origin = 'listener'),
                     max({number("scheduling")})) AS scheduling,
            max({number("records")}) AS records,
            max({number("failed")}) AS failed,
            max({number("log_total")}) AS log_total,
            max(cause) AS reason,
            count_if(state = 'completed') > 0 AS completed,
            count_if(state = 'started') > 0 AS begun,
            max_by(fields['streams'], state = 'completed')
              FILTER (WHERE fields['streams'] IS NOT NULL) AS streams,
            sort_array(collect_set(origin)) AS origins,
            max({number("interval_ms")}) AS interval_ms,
            min_by(struct(source, offset),
                   struct(state <> 'completed', origin <> 'listener', source, offset)) AS ref
          FROM told GROUP BY app, epoch_ms
        ), work AS (
          SELECT app, batch, run_id, batch_id, count(*) AS jobs,
            IF(count(end) = count(*), sum(end - start), NULL) AS busy
          FROM {{jobs}} WHERE batch IS NOT NULL OR run_id IS NOT NULL
          GROUP BY app, batch, run_id, batch_id
        ), blocks AS (
          SELECT DISTINCT app, fields['stream'] AS stream, fields['block'] AS block,
            bytes, {number("time")} AS time
          FROM {{events}} WHERE {only(Event.SPARK_BLOCK)}
        ), jobs_of_batches AS (
          SELECT app, batch, min(start) AS start, IF(count(end) = count(*), max(end), NULL) AS end,
            count(*) AS jobs, count_if(failed) AS failed, max(cause) AS cause,
            count(DISTINCT output) AS outputs, min(ref) AS ref
          FROM {{jobs}} WHERE batch IS NOT NULL GROUP BY app, batch
        ), outputs AS (
          SELECT app, epoch_ms AS batch, fields['output'] AS output,
            max(fields['name']) AS name, max(duration_ms) AS duration, max(cause) AS cause,
            min_by(struct(source, offset), cause IS NULL) AS ref
          FROM {{events}} WHERE {only(Event.SPARK_OUTPUT)}
          GROUP BY app, epoch_ms, fields['output']
        ), stage_of_job AS (
          SELECT app, CAST(stage AS BIGINT) AS stage, min_by(struct(batch, run_id, batch_id), job) AS of
          FROM (SELECT *, explode(from_json(stages, 'array<bigint>')) AS stage FROM {{jobs}}
                WHERE batch IS NOT NULL OR run_id IS NOT NULL)
          GROUP BY app, stage
        ), names AS (
          SELECT app, checkpoint AS stage, max(task) AS name
          FROM {{events}} WHERE {only(Event.SPARK_STAGE)} GROUP BY app, checkpoint
        ), stage_tasks AS (
          SELECT app, stage, sum(tasks) AS tasks, sum(total) AS total, max(longest) AS longest,
            max_by(struct(task, executor, host, slowest_records), struct(longest, task)) AS slowest,
            sum(records) AS records, sum(gc) AS gc, sum(spilled) AS spilled, sum(fetch) AS fetch,
            count(DISTINCT executor) AS executors
          FROM {{tasks}} WHERE tasks > 0 GROUP BY app, stage
        ), worst AS (
          SELECT s.app, j.of.batch AS batch, j.of.run_id AS run_id, j.of.batch_id AS batch_id,
            max_by(struct(s.*, n.name), struct(s.longest, s.stage)) AS worst
          FROM stage_tasks AS s JOIN stage_of_job AS j ON s.app = j.app AND s.stage = j.stage
          LEFT JOIN names AS n ON n.app = s.app AND n.stage = s.stage
          GROUP BY ALL
        ), per_executor AS (
          SELECT r.app, r.executor, r.stage, max(r.host) AS host, sum(r.tasks) AS tasks,
            sum(r.total) AS total, max(s.tasks) AS all_tasks, max(s.total) AS all_total
          FROM {{tasks}} AS r JOIN stage_tasks AS s ON s.app = r.app AND s.stage = r.stage
          JOIN stage_of_job AS j ON j.app = s.app AND j.stage = s.stage
          WHERE r.tasks > 0 GROUP BY r.app, r.executor, r.stage
        ), loads AS (
          SELECT app, executor, max(host) AS host, sum(tasks) AS tasks, sum(total) AS total,
            count_if(all_tasks > tasks) AS stages,
            percentile(IF(all_tasks > tasks AND all_total > total,
              (total / tasks) * (all_tasks - tasks) / (all_total - total), NULL), 0.5) AS ratio
          FROM per_executor GROUP BY app, executor
        )
        """
    parts = {
        "batch": """
          to_json(struct(coalesce(b.app, j.app) AS app,
            coalesce(b.batch, j.batch) AS batch, b.submission, b.start, b.end, b.processing,
            b.scheduling, b.records, b.failed, b.log_total, b.reason, b.completed, b.begun, b.streams,
            b.origins, b.interval_ms, coalesce(b.ref, j.ref) AS ref, j.start AS job_start,
            j.end AS job_end, j.jobs, j.failed AS failed_jobs, j.cause AS job_cause)) AS row
          FROM batches AS b FULL JOIN jobs_of_batches AS j ON b.app = j.app AND b.batch = j.batch
        """,
        "output": """
          to_json(struct(*)) AS row FROM outputs WHERE cause IS NOT NULL
        """,
        "operation": """
          to_json(struct(*)) AS row FROM (
          SELECT app, output, max(name) AS name, count(duration) AS batches, sum(duration) AS total
          FROM outputs GROUP BY app, output)
        """,
        "work": """
          to_json(struct(*)) AS row FROM work
        """,
        "blocks": """
          to_json(struct(*)) AS row FROM (
          SELECT app, stream, count(*) AS blocks, sum(bytes) AS bytes, min(time) AS first,
            max(time) AS last, percentile(bytes, 0.5) AS usual, max(bytes) AS largest
          FROM blocks GROUP BY app, stream)
        """,
        "range": f"""
          to_json(struct(*)) AS row FROM (
          SELECT app, partition, count(*) AS tasks, sum(high - low) AS records, min(ref) AS ref
          FROM (SELECT app, concat(fields['topic'], '-', fields['number']) AS partition,
                  {number("low")} AS low, {number("high")} AS high, min(struct(source, offset)) AS ref
                FROM {{events}} WHERE {only(Event.SPARK_RANGE)} GROUP BY ALL)
          WHERE high >= low GROUP BY app, partition)
        """,
        "memory": f"""
          to_json(struct(*)) AS row FROM (
          SELECT app, host, max_by({number("free")}, time_us) AS free, sum(bytes) AS bytes,
            min(time_us) DIV 1000 AS first, max(time_us) DIV 1000 AS last
          FROM {{events}} WHERE {only(Event.SPARK_BLOCK)} GROUP BY app, host)
        """,
        "stage": """
          to_json(struct(app, batch, run_id, batch_id, worst)) AS row FROM worst
        """,
        "executor": """
          to_json(struct(*)) AS row FROM loads
        """,
        "single": f"""
          to_json(struct(app, event, template, time_us, source, offset,
            epoch_ms, checkpoint, duration_ms, host, job_name, cause, fields)) AS row
          FROM {{events}} WHERE event IN {_in(*SINGLE)}
        """,
    }
    asked = [
        f"SELECT '{what}' AS what, {part}"
        for what, part in parts.items()
        if present is None or what not in _SAID_BY or not present.isdisjoint(_SAID_BY[what])
    ]
    return events.sparkSession.sql(
        views + " UNION ALL ".join(asked), events=events, jobs=jobs, tasks=tasks
    )


def _view(
    events: DataFrame, query: str, kind: Event, present: AbstractSet[str] | None
) -> DataFrame:
    """What a query finds among events of a kind, kept unless there are none."""
    frame = events.sparkSession.sql(query, events=events)
    return kept(frame) if present is None or kind in present else frame
