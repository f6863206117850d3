"""Builds the queries of Structured Streaming, and their triggers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from itertools import pairwise
from math import gcd
from statistics import median

from flowdiag.analyses.rate.assemble.rows import JSON, Row, Unit, field_of, records_of, ref_of
from flowdiag.analyses.rate.assemble.unfinished import (
    QueryRows,
    files_by_folder,
    latest_run,
    run_end_us,
    unfinished_trigger,
)
from flowdiag.analyses.rate.facts import OpenTask, Plan, QueryFacts, StageLoad, Trigger, Work
from flowdiag.parsers.rows import Event


def queries_of(
    singles: Mapping[str, Sequence[Row]],
    stages: Mapping[tuple[str, str | None], StageLoad],
    work: Mapping[Unit, Work],
    tasks: Mapping[Unit, tuple[OpenTask, ...]],
    interval_ms: int | None,
    real_time: tuple[bool | None, str | None],
    end_us: int | None,
    *,
    late: Sequence[Trigger] = (),
    ended: tuple[Trigger, ...] = (),
) -> tuple[QueryFacts, ...]:
    """Return the queries, by ID.

    Args:
        singles: single records, by kind of event.
        stages: the worst stage, by run and batch ID.
        work: the jobs of each trigger.
        tasks: the tasks of each trigger that have not ended.
        interval_ms: the trigger interval from the user.
        real_time: whether queries run in real-time mode, and which source shows it.
        end_us: the end of the input, or the stop of the application.
        late: late triggers, which only count if there are no other triggers.
        ended: late triggers of an overload that has ended, which only count if there are no other triggers.
    """
    queries: dict[str, QueryRows] = defaultdict(QueryRows)
    for row in sorted(singles[Event.SPARK_PROGRESS], key=_completeness):
        query, run = queries[field_of(row, "id")], field_of(row, "run_id")
        query.add(row, run)
        begun = (run, row.get("time_us") or 0)
        key = (run, row.get("checkpoint"), begun[1])
        is_known = key in query.triggers or (key[1] is None and begun in query.begun)
        if not is_known:  # event log, listener, log and Web UI may contain the same progress report
            query.begun.add(begun)
            number = str(row.get("checkpoint"))
            query.triggers[key] = _trigger(
                row, run, stages.get((run, number)), work.get((None, run, number))
            )
    for row in _without_repetitions(singles[Event.SPARK_QUERY]):
        query = queries[field_of(row, "id")]
        query.add(row, field_of(row, "run_id"))
        query.events.append(row)
    overload = _add_late(queries, late, ended)
    plans: dict[str, list[Row]] = defaultdict(list)
    for row in singles[Event.SPARK_PLAN]:
        plans[field_of(row, "id")].append(row)
    sources = _Sources(singles[Event.SPARK_INCIDENT], alone=len(queries) == 1)
    files = files_by_folder(singles[Event.SPARK_TRIGGER])
    for query in queries.values():
        query.add_files(files, alone=len(queries) == 1)
    result = []
    for identity, query in sorted(queries.items()):
        mine = tuple(sorted(query.triggers.values(), key=lambda t: (t.time_us, t.batch or 0)))
        interval, interval_from = sources.interval(interval_ms, mine)
        # Lines of a driver's log do not name a query, so they may refer to any query.
        mode = real_time if sources.alone or real_time[1] != "log" else (None, None)
        result.append(
            QueryFacts(
                id=identity,
                name=query.name,
                runs=tuple(query.runs),
                triggers=mine,
                events=records_of(query.events),
                trigger_interval_ms=interval,
                interval_from=interval_from,
                tries=_run_counts(mine, query.runs, work),
                real_time=mode[0],
                real_time_from=mode[1],
                file_limit=sources.file_limit,
                files_taken=sources.files_taken,
                unfinished=unfinished_trigger(query, mine, work, tasks, end_us),
                run_end_us=run_end_us(query, latest_run(query, mine), end_us),
                plan=_plan_of(plans[identity]),
                ended_overload=overload,
            )
        )
    return tuple(result)


def _completeness(row: Row) -> tuple[bool, bool]:
    """Return a sort key that puts complete reports first.

    A log contains only the beginning of a report, and the Web UI lacks the batch number.
    """
    return row.get("checkpoint") is None, row.get("template") is not None


def _without_repetitions(rows: Sequence[Row]) -> list[Row]:
    """Drop rows without a query if an exception ended a known query, because they repeat that exception."""
    failed = any(field_of(row, "id") and row.get("cause") for row in rows)
    return [row for row in rows if field_of(row, "id") or not failed]


def _plan_of(rows: Sequence[Row]) -> Plan:
    """Merge the plans of a query. `foreachBatch` has one plan per action."""

    def longest(name: str) -> int | None:
        return max((int(text) for row in rows if (text := field_of(row, name))), default=None)

    def first(name: str) -> str | None:
        return next((text for row in rows if (text := field_of(row, name))), None)

    functions = (name for row in rows for name in field_of(row, "functions").split())
    tables = (name for row in rows for name in field_of(row, "tables").splitlines())
    return Plan(
        mode=first("mode"),
        column=first("column"),
        delay_ms=longest("delay_ms"),
        window_ms=longest("window_ms"),
        functions=tuple(dict.fromkeys(functions)),
        tables=tuple(dict.fromkeys(tables)),
    )


def _add_late(
    queries: dict[str, QueryRows], late: Sequence[Trigger], ended: tuple[Trigger, ...]
) -> tuple[Trigger, ...]:
    """Add the late triggers from a log at WARN, which has no progress reports.

    Without any, return the triggers of an overload that has ended.
    """
    if len(queries) > 1 or any(query.triggers for query in queries.values()):
        return ()
    for one in late or ended:
        query = queries[next(iter(queries), "")]
        query.runs = query.runs or {"": None}
        if late:
            query.triggers[one.run_id, None, one.time_us] = one
    return () if late else ended


class _Sources:
    """Lines about sources in the driver's log.

    They name no query, so they count only if there is exactly one.
    """

    def __init__(self, incidents: Iterable[Row], *, alone: bool) -> None:
        self.alone = alone
        numbers: dict[str, list[int]] = defaultdict(list)
        of = {"falling-behind": "interval_ms", "file-limit": "files", "files-taken": "files"}
        last: dict[str, str] = {}
        for row in incidents:
            template = row.get("template") or ""
            if template in of:
                last[template] = text = field_of(row, of[template])
                if text.isdecimal():
                    numbers[template].append(int(text))
        self._intervals = numbers["falling-behind"] if alone else []
        limit = last.get("file-limit", "")
        self.file_limit = int(limit) if alone and limit.isdecimal() else None
        self.files_taken = tuple(numbers["files-taken"]) if alone else ()

    def interval(
        self, given_ms: int | None, triggers: Sequence[Trigger]
    ) -> tuple[int | None, str | None]:
        if given_ms is not None:
            return given_ms, "option" if given_ms else None
        if self._intervals:
            return self._intervals[-1], "log"
        seen = observed_trigger_ms(triggers)
        return seen, "observed" if seen else None


def _run_counts(
    triggers: Sequence[Trigger],
    runs: Iterable[str],
    work: Mapping[Unit, Work],
) -> dict[int, int]:
    """Return the number of runs that began each batch, for batches that more than one run began.

    Progress reports contain only batches that ended. The event log also has the jobs of other batches.
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
        durations=JSON.decode(fields.get("durations") or "{}"),
        sources=tuple(JSON.decode(fields.get("sources") or "[]")),
        input_per_s=number("input_per_s"),
        processed_per_s=number("processed_per_s"),
        watermark_us=whole("watermark_us"),
        max_event_us=whole("max_event_us"),
        min_event_us=whole("min_event_us"),
        written=None if (written := whole("written")) is None or written < 0 else written,
        state=tuple(JSON.decode(fields.get("state") or "[]")),
        sink=fields.get("sink"),
        stage=stage,
        work=work,
        ref=ref_of(row),
    )


def observed_trigger_ms(triggers: Sequence[Trigger]) -> int | None:
    """Return the trigger interval that the start times of triggers show, or None.

    A processing-time trigger starts at multiples of its interval, or immediately after an overrun (from Spark 2.2 on).
    So all triggers that waited started at multiples of the interval.
    """
    waited = _waited_starts_ms(triggers)
    if len(waited) < 3:
        return None
    gaps = sorted(b - a for a, b in pairwise(waited) if b - a > 90)
    if not gaps:
        return None
    rounded = [round(gap / 100) * 100 for gap in gaps]
    typical = round(median(rounded) / 100) * 100
    guesses = {typical, rounded[0], reduce(gcd, rounded), *(typical // n for n in (2, 3, 4, 5))}
    for guess in sorted(guesses, reverse=True):
        if guess < 100:
            continue
        # Triggers that waited start at most a tenth of the interval after one of its multiples.
        on_grid = sum(time % guess <= max(50, guess * 0.1) for time in waited)
        if on_grid >= 0.8 * len(waited):
            # If all starts have the same phase in a longer period, they waited for rows that arrive with that period.
            beat = typical > guess and _spread([time % typical for time in waited], typical) < guess
            return None if beat else guess
    return None


def _waited_starts_ms(triggers: Sequence[Trigger]) -> list[int]:
    """Return the start times of the triggers that follow a pause."""
    return [
        b.time_us // 1000
        for a, b in pairwise(triggers)
        if a.run_id == b.run_id
        and a.duration_ms is not None
        and b.time_us // 1000 - a.time_us // 1000 > a.duration_ms + 50
    ]


def _spread(places: Sequence[int], around: int) -> int:
    """Return the length of the shortest arc that contains four fifths of the points on a circle with circumference `around`."""
    ordered = sorted(places)
    most = -(-4 * len(ordered) // 5)
    turned = [*ordered, *(place + around for place in ordered)]
    return min(turned[n + most - 1] - turned[n] for n in range(len(ordered)))
