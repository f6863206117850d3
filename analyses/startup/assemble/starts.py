"""Builds the starts of a job: when each began, which failure preceded it, and where it ended."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any, Final

from flowdiag.analyses.flink.failures.crises import RANKS, kind_of
from flowdiag.analyses.flink.failures.silences import logged_until
from flowdiag.analyses.flink.job import ClusterFacts, Incident, JobFacts, Status
from flowdiag.analyses.model.keys import Ref
from flowdiag.analyses.startup.assemble.rescales import Runs, count_slots, rescale_times
from flowdiag.analyses.startup.assemble.steps import RawStart, steps_of
from flowdiag.analyses.startup.assemble.timeline import Row, Timeline, ref_of
from flowdiag.analyses.startup.facts import (
    Initialization,
    JobStarts,
    Restore,
    Slots,
    Start,
    Step,
    TaskTimes,
    Worker,
)
from flowdiag.parsers.json_values import as_amount
from flowdiag.parsers.rows import Event

# Records of the same restart are at most this far apart.
_SAME_RESTART_US: Final = 1_500_000

# A failure this long before a restart may have caused it; a heartbeat timeout takes up to 50 s.
_TRIGGER_US: Final = 60_000_000

_TOGETHER_US: Final = 3_000_000

_NEVER: Final = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedInput:
    """Input that the starts of all jobs share, prepared once.

    `strays` contains failures that no record assigns to a job.
    """

    common: ClusterFacts
    alone: bool
    marks: Sequence[Row]
    marks_of: Mapping[str | None, list[Row]]
    strays: Timeline
    restores: Timeline
    requested: Timeline


def incident_timeline(incidents: Iterable[Incident]) -> Timeline:
    """Return the timeline of the incidents that have a time."""
    dated = sorted((i for i in incidents if i.time_us), key=lambda i: i.time_us or 0)
    return Timeline(dated, [i.time_us or 0 for i in dated])


def requests_timeline(workers: Sequence[Worker]) -> Timeline:
    """Return requested workers by request time, each with its index."""
    requested = sorted(
        (
            (w.requested_us, place, w)
            for place, w in enumerate(workers)
            if w.requested_us is not None
        ),
        key=itemgetter(0),
    )
    return Timeline([(place, w) for _, place, w in requested], [us for us, _, _ in requested])


def by_job_id(marks: Iterable[Row]) -> Mapping[str | None, list[Row]]:
    """Group records by the job they name."""
    found: defaultdict[str | None, list[Row]] = defaultdict(list)
    for row in marks:
        found[row["job_id"]].append(row)
    return found


def starts_of(job: JobFacts, times: Mapping[str, Row], shared: SharedInput) -> JobStarts:
    """Return a job with its starts. `times` is keyed by attempt ID."""
    mine = shared.marks_of.get(job.key.job_id, [])
    if shared.alone:
        mine = [row for row in shared.marks if row["job_id"] == job.key.job_id or not row["job_id"]]
    tasks = sorted(_tasks(job, times), key=lambda task: (task.begins_us or 0, task.attempt_id))
    starts = tuple(_starts(job, shared, mine, tasks))
    ended = next((r for r in reversed(mine) if r["event"] == Event.JOB_FINISHED), None)
    runs = Runs(job, mine, tasks)
    return JobStarts(
        job=job,
        starts=starts,
        scheduler=_strategy(mine, "scheduling-started"),
        restart_strategy=_strategy(mine, "restart-strategy", "restart-strategy-legacy"),
        failover_strategy=_strategy(mine, "failover-strategy"),
        adaptive=any(row["template"] == "adaptive-transition" for row in mine),
        cancelled=any(i.kind == "cancelled" for i in job.incidents),
        ended=ended["to_state"] if ended is not None else None,
        ended_us=ended["time_us"] if ended is not None else None,
        ended_cause=ended["cause"] if ended is not None else None,
        ended_ref=ref_of(ended) if ended is not None else None,
        rescales=runs.rescales(),
        usage=runs.usage(),
    )


def _strategy(marks: Iterable[Row], *templates: str) -> str | None:
    return next(
        ((row["fields"] or {}).get("strategy") for row in marks if row["template"] in templates),
        None,
    )


def _tasks(job: JobFacts, times: Mapping[str, Row]) -> Iterator[TaskTimes]:
    for attempt in job.attempts:
        row = times.get(attempt.attempt_id)
        if row is None:
            continue
        yield TaskTimes(
            attempt_id=attempt.attempt_id,
            task=attempt.task,
            subtask_index=attempt.subtask_index,
            parallelism=attempt.parallelism,
            attempt=attempt.attempt,
            taskmanager=attempt.taskmanager,
            host=attempt.host,
            scheduled_us=row["scheduled_us"],
            deploying_us=row["deploying_us"],
            initializing_us=row["initializing_us"],
            running_us=row["running_us"],
            ended_us=row["ended_us"],
            end_state=row["end_state"],
            own_ended_us=row["own_ended_us"],
            ref=ref_of(row),
        )


def _starts(
    job: JobFacts, shared: SharedInput, marks: Sequence[Row], tasks: Sequence[TaskTimes]
) -> Iterator[Start]:
    submitted = _submitted_us(marks)
    first = _earliest_time(submitted, tasks[0].begins_us if tasks else None)
    if first is None:
        return
    restarts = _restarts(job)
    later = _later_starts(first, restarts, tasks, shared)
    rescaled = rescale_times(job, first)
    bounds = [first, *sorted({*later, *rescaled})]
    by_start, lines = _by_start(bounds, tasks), _timelines(job, shared, marks)
    # After a rescale, the graph shows the number of tasks in only one run.
    total, most = 0 if rescaled else _parallelism(job), 0
    kind = "cold" if submitted is not None or not restarts else "restart"
    for number, (begin, end) in enumerate(zip(bounds, [*bounds[1:], None], strict=True)):
        members = by_start[number]
        most = len(members) if rescaled else max(most, len(members))
        expected = _expected_tasks(later.get(begin), total or most or None)
        kind = "rescale" if begin in rescaled else kind
        yield _start(job, lines, members, number, begin, end, expected, kind=kind)
        kind = "restart"


def _later_starts(
    first: int, restarts: Sequence[Incident], tasks: Iterable[TaskTimes], shared: SharedInput
) -> dict[int, Incident | None]:
    """Return the starts after the first one by time, each with the record of its restart if there is one."""
    if not restarts and not shared.common.has_jobmanager_log:
        return dict.fromkeys(us for us in _first_of_attempts(tasks) if us > first)
    return {us: restart for restart in restarts if (us := restart.time_us or 0) > first}


def _first_of_attempts(tasks: Iterable[TaskTimes]) -> list[int]:
    """Return when the tasks of each attempt number began. Logs of TaskManagers show restarts only by this number."""
    found: dict[int, int] = {}
    for task in tasks:
        if task.attempt is not None and task.begins_us is not None:
            found[task.attempt] = min(found.get(task.attempt, _NEVER), task.begins_us)
    return sorted(found.values())


def _earliest_time(*moments: int | None) -> int | None:
    return min((us for us in moments if us is not None), default=None)


def _submitted_us(marks: Iterable[Row]) -> int | None:
    """Return when the job was submitted or started, according to records that name it."""
    begun = (Event.JOB_SUBMITTED, Event.JOB_STARTED)
    times_us = [r["time_us"] for r in marks if r["event"] in begun and r["job_id"]]
    return min(times_us, default=None)


def _by_start(bounds: Sequence[int], tasks: Iterable[TaskTimes]) -> list[list[TaskTimes]]:
    """Group the tasks by the start that they belong to."""
    found: list[list[TaskTimes]] = [[] for _ in bounds]
    for task in tasks:
        place = bisect_right(bounds, task.begins_us or bounds[0]) - 1
        found[max(0, place)].append(task)
    return found


def _parallelism(job: JobFacts) -> int:
    """Return the number of subtasks in the job graph, or 0 without a graph."""
    return sum(vertex.parallelism for vertex in job.graph.vertices) if job.graph else 0


def _expected_tasks(restart: Incident | None, otherwise: int | None) -> int | None:
    """Return the number of tasks in a start, from the record of its restart if that contains the number."""
    count = (restart.text.get("tasks") if restart else None) or ""
    return int(count) if count.isdecimal() else otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class _Timelines:
    """The input for the starts of one job."""

    marks: Timeline
    incidents: Timeline
    triggers: Timeline
    shared: SharedInput
    checkpoints: Sequence[int]


def _timelines(job: JobFacts, shared: SharedInput, marks: Sequence[Row]) -> _Timelines:
    return _Timelines(
        marks=Timeline(marks, [row["time_us"] for row in marks]),
        incidents=incident_timeline(job.incidents),
        triggers=incident_timeline(i for i in job.incidents if kind_of(i) is not None),
        shared=shared,
        checkpoints=sorted(
            c.ended_us
            for c in job.checkpoints
            if c.status is Status.COMPLETED and c.ended_us is not None
        ),
    )


def _restarts(job: JobFacts) -> list[Incident]:
    """Return the restarts of a job without repetitions, preferring records with the number of tasks."""
    found: list[Incident] = []
    for incident in sorted(
        (i for i in job.incidents if i.kind in ("restart", "job-restarting") and i.time_us),
        key=lambda i: i.time_us or 0,
    ):
        if found and (incident.time_us or 0) - (found[-1].time_us or 0) <= _SAME_RESTART_US:
            if "tasks" in incident.text and "tasks" not in found[-1].text:
                found[-1] = incident
            continue
        found.append(incident)
    return found


def _start(
    job: JobFacts,
    lines: _Timelines,
    tasks: Sequence[TaskTimes],
    number: int,
    begin: int,
    end: int | None,
    expected: int | None,
    *,
    kind: str,
) -> Start:
    until = end or _NEVER
    within = lines.marks.within(begin, until)
    incidents = lines.incidents.within(begin, until + 1)
    failed = _first_failure(tasks, incidents, begin)
    running = _all_running_us(tasks, expected, failed)
    complete = running is not None
    horizon = end or failed or job.last_us or begin
    # Canceled tasks cut short the restores of the previous start.
    ready = min((t.deploying_us for t in tasks if t.deploying_us is not None), default=_NEVER)
    restores = tuple(_restores_in(lines.shared.restores.within(ready, until), complete=complete))
    begun = RawStart(
        job=job,
        marks=within,
        tasks=tasks,
        restores=restores,
        started_us=begin,
        horizon_us=logged_until(lines.shared.common, None, begin, horizon),
        logged_until=partial(_logged_until, lines.shared.common, horizon),
        cold=kind == "cold",
        complete=complete,
    )
    steps = tuple(steps_of(begun, lines.shared.requested, lines.checkpoints))
    trigger, cause, ref = _trigger(lines, begin) if kind == "restart" else (None, None, None)
    return Start(
        job=job.key,
        number=number,
        kind=kind,
        started_us=begin,
        ended_us=end,
        trigger=trigger,
        cause=cause,
        trigger_ref=ref,
        steps=steps,
        running_us=running,
        held=None if complete else _blocking_step(steps, tasks),
        tasks=tuple(tasks),
        expected=expected,
        slots=_slots(within),
        restored=bool(restores)
        or any(i.kind == "restored" and (i.time_us or 0) < until for i in incidents),
        failed_us=failed,
        restores=restores,
        initialization=next(
            (_initialization(row) for row in within if row["template"] == "initialization-span"),
            None,
        ),
    )


def _initialization(row: Row) -> Initialization:
    fields = row["fields"] or {}
    download, rebuild, whole, gate, mailbox, size = (
        as_amount(fields.get(name))
        for name in (
            "download_ms",
            "restore_ms",
            "initialize_ms",
            "gate_ms",
            "mailbox_ms",
            "largest_bytes",
        )
    )
    return Initialization(
        download_ms=download,
        rebuild_ms=rebuild,
        initialize_ms=whole,
        gate_ms=gate,
        mailbox_ms=mailbox,
        bytes=size,
        ref=ref_of(row),
    )


def _all_running_us(
    tasks: Sequence[TaskTimes], expected: int | None, failed: int | None
) -> int | None:
    """Return when the last task reached RUNNING, or None if a task did not reach it or failed before then."""
    running = [task.running_us for task in tasks if task.running_us is not None]
    if not tasks or len(running) < max(len(tasks), expected or 0):
        return None
    last = max(running)
    return None if failed is not None and last > failed else last


def _logged_until(common: ClusterFacts, horizon: int, task: TaskTimes, since_us: int) -> int:
    return logged_until(common, task.taskmanager, since_us, horizon)


def _first_failure(
    tasks: Sequence[TaskTimes], incidents: Iterable[Incident], begin: int
) -> int | None:
    """Return when the first task of a start failed or, if no task did, the job itself.

    A failure of the job before the first task began belongs to the start before.
    """
    times = [t.ended_us for t in tasks if t.end_state == "FAILED" and t.ended_us is not None]
    if not times:
        ready = min((t.begins_us for t in tasks if t.begins_us is not None), default=begin)
        times = [
            i.time_us
            for i in incidents
            if i.kind in ("job-failing", "job-failure") and i.time_us and ready < i.time_us
        ]
    return min(times, default=None)


def _restores_in(rows: Iterable[Row], *, complete: bool) -> Iterator[Restore]:
    """Yield the state that each TaskManager read in one start, with downloads as separate entries."""
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        place = (row["source"], row["owner"], row["writer_taskmanager"], row["writer_host"])
        groups[(*place, row["download"])].append(row)
    for (_, _, taskmanager, host, download), members in groups.items():
        begun = [row for row in members if not row["done"]]
        done = [row for row in members if row["done"]]
        if not begun:
            continue
        handles = sum(row["n"] for row in begun)
        yield Restore(
            taskmanager=taskmanager,
            host=host,
            started_us=min(row["first_us"] for row in begun),
            finished_us=max(row["last_us"] for row in done)
            if done and (complete or sum(row["n"] for row in done) >= handles)
            else None,
            handles=handles,
            download=download,
            ref=ref_of(begun[0]),
        )


def _trigger(lines: _Timelines, moment: int) -> tuple[str | None, str | None, Ref | None]:
    """Return the failure that most likely caused a restart, among the failures close to it."""
    span = moment - _TRIGGER_US, moment + _SAME_RESTART_US + 1
    near = [
        (incident, kind)
        for incident in sorted(
            (*lines.triggers.within(*span), *lines.shared.strays.within(*span)),
            key=lambda incident: incident.time_us or 0,
        )
        if (kind := kind_of(incident)) is not None
    ]
    if not near:
        return None, None, None
    last = max(incident.time_us or 0 for incident, _ in near)
    together = [pair for pair in near if last - (pair[0].time_us or 0) <= _TOGETHER_US]
    incident, kind = min(
        together,
        key=lambda pair: (
            RANKS.index(pair[1]) if pair[1] in RANKS else len(RANKS),
            pair[0].cause is None,
            pair[0].time_us or 0,
        ),
    )
    return kind, incident.cause, incident.ref


def _blocking_step(steps: Sequence[Step], tasks: Sequence[TaskTimes]) -> str:
    """Return the step in which a start got stuck."""
    for step in steps:
        if step.ended_us is None and step.started_us is not None:
            return step.name
    return "initialization" if any(t.initializing_us for t in tasks) else "deployment"


def _slots(marks: Sequence[Row]) -> Slots | None:
    """Return the required slots, and the acquired slots if a message shows them. A restart may reuse slots."""
    required = acquired = 0
    shown = False
    ref = None
    allocated: set[str] = set()
    pool_requests: set[str] = set()
    taskmanagers: set[str] = set()
    for row in marks:
        fields = row["fields"] or {}
        if row["template"] == "slots-required":
            slots = count_slots(fields.get("requirements", ""))
            if slots > required:
                required, ref = slots, ref_of(row)
        elif row["template"] == "slot-requested-by-pool":
            pool_requests.add(fields.get("slot_request_id", ""))
            ref = ref or ref_of(row)
        elif row["template"] == "resources-not-acquired":
            acquired, shown = count_slots(fields.get("acquired", "")), True
        elif row["template"] == "slot-allocation":
            allocated.add(fields.get("slot", ""))
            if row["taskmanager"]:
                taskmanagers.add(row["taskmanager"])
    required = required or len(pool_requests)
    if not required:
        return None
    enough = len(allocated) >= required
    return Slots(
        required=required,
        acquired=max(acquired, len(allocated) if not shown else 0) if shown or enough else None,
        taskmanagers=len(taskmanagers),
        ref=ref,
    )
