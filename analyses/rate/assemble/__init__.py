"""Turns collected rows into the facts of `flowdiag rate`.

Start with `assemble`. It may import `flowdiag.analyses.rate.facts`, but no assessment and no rule.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from flowdiag.analyses.model.keys import JobKey
from flowdiag.analyses.rate.assemble.batches import (
    batch_rows,
    batches_of,
    interval_of,
    outputs_of,
)
from flowdiag.analyses.rate.assemble.late import (
    ended_overload,
    last_late_us,
    late_triggers,
    without_inconclusive_late_triggers,
)
from flowdiag.analyses.rate.assemble.queries import queries_of
from flowdiag.analyses.rate.assemble.rows import (
    JSON,
    Row,
    Unit,
    event_of,
    field_of,
    open_task_of,
    records_of,
    stage_of,
    thread_of,
)
from flowdiag.analyses.rate.assemble.sums import (
    blocks_of,
    cached_of,
    executors_of,
    memory_of,
    operations_of,
    partitions_of,
)
from flowdiag.analyses.rate.attempts import with_repeated_failures
from flowdiag.analyses.rate.facts import (
    ApplicationFacts,
    Batch,
    OpenTask,
    RateFacts,
    StageLoad,
    Work,
)
from flowdiag.analyses.rate.measure import UNKNOWN
from flowdiag.parsers.lines.failure_lines import KNOWN_RECORD
from flowdiag.parsers.rows import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class UserSettings:
    """Facts that only the user can provide.

    Args:
        trigger_interval_ms: trigger interval of the queries.
        real_time: whether queries run in real-time mode; None if unknown.
        configuration: options of the application, which override those in the input.
    """

    trigger_interval_ms: int | None = None
    real_time: bool | None = None
    configuration: Mapping[str, str] = field(default_factory=dict)


def assemble(
    rows: Iterable[tuple[str, str]],
    damaged: Iterable[str] = (),
    *,
    user: UserSettings | None = None,
    spans_us: Mapping[str, tuple[int, int]] = MappingProxyType({}),
) -> RateFacts:
    """Return the facts that the rows of `measure.facts_frame` contain.

    Args:
        rows: pairs of kind and row as JSON.
        damaged: keys of applications with a truncated input.
        user: settings from the user.
        spans_us: first and last time of the inputs, by application.
    """
    user = user or UserSettings()
    by_app: dict[str, dict[str, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for what, text in rows:
        row = JSON.decode(text)
        by_app[row.get("app", "")][what].append(row)
    cut = set(damaged)
    applications = (
        _application(key, kinds, key in cut, user, *spans_us.get(key, (None, None)))
        for key, kinds in sorted(by_app.items())
    )
    return RateFacts(applications=with_repeated_failures(tuple(applications)))


def _stages_by_trigger(
    rows: Iterable[Row], version: str
) -> dict[tuple[str, str | None], StageLoad]:
    """Return the worst stage of each trigger. Tasks of Spark 3 and later count the records that they write."""
    return {
        (row["run_id"], row.get("batch_id")): stage_of(
            row["worst"], row.get("largest"), row.get("written") if version >= "3" else None
        )
        for row in rows
        if row.get("run_id")
    }


def _application(
    key: str,
    kinds: Mapping[str, list[Row]],
    damaged: bool,
    user: UserSettings,
    first_us: int | None,
    end_us: int | None,
) -> ApplicationFacts:
    singles: dict[str, list[Row]] = defaultdict(list)
    order = sorted(
        kinds.get("single", ()), key=lambda r: (r.get("time_us") or 0, r["source"], r["offset"])
    )
    for row in order:
        is_repeated = row.get("template") == KNOWN_RECORD
        singles[Event.SPARK_INCIDENT if is_repeated else row["event"]].append(row)
    stages = kinds.get("stage", ())
    about = singles[Event.SPARK_APPLICATION]
    version = _first_text(
        field_of(row, "version") for row in (*about, *singles[Event.SPARK_LOG_STARTED])
    )
    by_batch = {
        row["batch"]: stage_of(row["worst"], row.get("largest"))
        for row in stages
        if row.get("batch") is not None
    }
    by_trigger = _stages_by_trigger(stages, version or "")
    work = {
        (row.get("batch"), row.get("run_id"), row.get("batch_id")): _work_of(row)
        for row in kinds.get("work", ())
    }
    settings = _settings(singles[Event.SPARK_SETTINGS], user)
    raw = batch_rows(kinds.get("batch", ()), singles[Event.SPARK_PID])
    interval, interval_from = interval_of(about, raw)
    tasks = _open_tasks(kinds.get("task", ()))
    batches = batches_of(raw, by_batch, work, tasks, singles, interval)
    last_us = _last_us(order, batches, end_us)
    incidents = without_inconclusive_late_triggers(singles[Event.SPARK_INCIDENT], first_us, last_us)
    real_time = _real_time(singles, settings, user)
    return ApplicationFacts(
        key=JobKey("", key),
        application=None if key.startswith(UNKNOWN) or not key else key,
        name=_first_text(row.get("job_name") for row in about) or settings.get("spark.app.name"),
        version=version,
        interval_ms=interval,
        interval_from=interval_from,
        settings=settings,
        settings_known=bool(singles[Event.SPARK_SETTINGS] or user.configuration),
        batches=batches,
        outputs=outputs_of(kinds.get("output", ())),
        executors=executors_of(singles[Event.SPARK_EXECUTOR], kinds.get("executor", ())),
        operations=operations_of(kinds.get("operation", ())),
        blocks=blocks_of(kinds.get("blocks", ())),
        partitions=partitions_of(kinds.get("range", ())),
        memory=memory_of(kinds.get("memory", ())),
        cached=cached_of(kinds.get("cached", ())),
        queries=queries_of(
            singles,
            by_trigger,
            work,
            tasks,
            user.trigger_interval_ms,
            real_time,
            last_us,
            late=late_triggers(incidents),
            ended=ended_overload(singles[Event.SPARK_INCIDENT], first_us, last_us),
        ),
        receivers=records_of(singles[Event.SPARK_RECEIVER]),
        limits=records_of(singles[Event.SPARK_RATE_LIMIT]),
        traces=records_of(singles[Event.SPARK_PID]),
        lost=records_of(singles[Event.SPARK_DROPPED]),
        incidents=records_of(incidents),
        failures=records_of(singles[Event.FAILURE]),
        threads=tuple(map(thread_of, singles[Event.THREAD])),
        started_us=min(_times_of(about, "started"), default=None),
        ended_us=max(_times_of(about, "ended"), default=None),
        last_us=last_us,
        late_count=len(late_triggers(singles[Event.SPARK_INCIDENT])),
        late_us=last_late_us(singles[Event.SPARK_INCIDENT]),
        origins=_origins(raw, about),
        damaged=damaged,
    )


def _work_of(row: Row) -> Work:
    return Work(
        jobs=row["jobs"],
        busy_ms=row.get("busy"),
        start_ms=row.get("start"),
        failed=row.get("failed") or 0,
        cause=row.get("cause"),
    )


def _open_tasks(rows: Iterable[Row]) -> dict[Unit, tuple[OpenTask, ...]]:
    """Return the tasks that have not ended, by batch or trigger."""
    tasks: dict[Unit, list[OpenTask]] = defaultdict(list)
    for row in rows:
        unit = (row.get("batch"), row.get("run_id"), row.get("batch_id"))
        tasks[unit].append(open_task_of(row))
    return {
        unit: tuple(sorted(some, key=lambda task: (task.since_us or 0, task.index)))
        for unit, some in tasks.items()
    }


def _last_us(rows: Iterable[Row], batches: Iterable[Batch], end_us: int | None) -> int | None:
    """Return the time of the last record or the end of the last batch."""
    times = [row["time_us"] for row in rows if row.get("time_us")]
    times += [batch.end_ms * 1000 for batch in batches if batch.end_ms is not None]
    times += [] if end_us is None else [end_us]
    return max(times, default=None)


def _settings(rows: Iterable[Row], user: UserSettings) -> dict[str, str]:
    settings: dict[str, str] = {}
    for row in rows:
        settings |= row.get("fields") or {}
    return settings | dict(user.configuration)


def _first_text(texts: Iterable[str | None]) -> str | None:
    return next((text for text in texts if text), None)


def _times_of(about: Iterable[Row], what: str) -> list[int]:
    return [row["time_us"] for row in about if event_of(row) == what and row.get("time_us")]


def _origins(batches: Iterable[Row], about: Iterable[Row]) -> frozenset[str]:
    """Return which kinds of input contain the application's batches."""
    batches = list(batches)
    origins = {origin for row in batches for origin in row.get("origins") or ()}
    origins |= {field_of(row, "origin") for row in about} - {""}
    if any(row.get("jobs") for row in batches):
        origins.add("event-log")
    return frozenset(origins)


def _real_time(
    singles: Mapping[str, list[Row]], settings: Mapping[str, str], user: UserSettings
) -> tuple[bool | None, str | None]:
    """Return whether queries run in real-time mode, and which input shows it, because progress reports do not."""
    if user.real_time is not None:
        return user.real_time, "option"
    templates = {row.get("template") or "" for row in singles[Event.SPARK_INCIDENT]}
    if any(template.startswith("real-time-mode") for template in templates):
        return True, "log"
    for option, value in settings.items():
        if option.lower().endswith("realtimemode.enabled"):
            return value.strip().lower() == "true", "configuration"
    return None, None
