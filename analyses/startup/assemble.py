"""From measured rows to the starts of each job and the steps of each start; no Spark here."""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

from flowdiag.analyses.flink.crises import RANKS, kind_of
from flowdiag.analyses.flink.job import ClusterFacts, Incident, JobFacts, Status
from flowdiag.analyses.keys import JobKey, Ref
from flowdiag.analyses.startup.facts import (
    Collecting,
    JobStarts,
    Restore,
    Slots,
    Spread,
    Start,
    StartupFacts,
    Step,
    TaskTimes,
    Trouble,
    Worker,
)
from flowdiag.parsers.rows import Event

Row = Mapping[str, Any]

# Records of one restart lie this near to each other.
_SAME_RESTART_US: Final = 1_500_000
# A failure this long before a restart may have caused it; a heartbeat takes up to 50 s to be missed.
_TRIGGER_US: Final = 60_000_000
_TOGETHER_US: Final = 3_000_000
_REQUIRED: Final = re.compile(r"numberOfRequiredSlots=([0-9]{1,9})")
_NEVER: Final = 1 << 62


def assemble_startup(rows: Sequence[Row], common: ClusterFacts) -> StartupFacts:
    """Facts from rows.

    Args:
        rows: of `startup_measure.facts_frame`.
        common: what `assemble` made of the same rows.
    """
    marks = sorted(
        (row for row in rows if row["what"] == "milestone"),
        key=lambda row: (row["time_us"], row["source"], row["offset"]),
    )
    times = {row["attempt_id"]: row for row in rows if row["what"] == "times"}
    restores = sorted(
        (row for row in rows if row["what"] == "restore"), key=lambda row: int(row["first_us"])
    )
    workers = _workers(marks)
    shared = _Shared(
        alone=len(common.jobs) == 1,
        marks=marks,
        marks_of=_by_job_id(marks),
        strays=_of_incidents(i for i in common.incidents if kind_of(i) is not None),
        restores=_Timeline(restores, [row["first_us"] for row in restores]),
        asked=_asked(workers),
    )
    jobs = tuple(_job(job, times, shared) for job in common.jobs)
    requests = _requests(marks)
    last = max(
        [row["time_us"] for row in marks]
        + [process.last_us for process in common.processes if process.last_us is not None],
        default=None,
    )
    first_request = requests[0]["time_us"] if requests else None
    return StartupFacts(
        common=common,
        jobs=jobs,
        workers=workers,
        cluster_steps=(
            *_operator_step(rows),
            *_cluster_steps(marks),
            *_registration(workers),
        ),
        wanted_workers=_pending(requests, workers) if requests else None,
        first_request_us=first_request,
        last_request_ref=_ref(requests[-1]) if requests else None,
        last_us=last,
        mode=_mode(marks),
        troubles=tuple(
            sorted(_troubles(rows), key=lambda t: (t.first_us or 0, t.ref or Ref(0, 0)))
        ),
        accepted_us=_accepted(marks),
        collecting=tuple(_collecting(rows)),
    )


def _accepted(marks: Iterable[Row]) -> dict[int, int]:
    """When each client's log says that a job was taken."""
    found: dict[int, int] = {}
    for row in marks:
        if row["role"] not in ("jobmanager", "taskmanager") and (
            row["template"] in ("client-job-accepted", "client-job-submitted")
        ):
            found.setdefault(row["source"], row["time_us"])
    return found


def _troubles(rows: Iterable[Row]) -> Iterator[Trouble]:
    for row in rows:
        if row["what"] != "trouble":
            continue
        yield Trouble(
            kind=row["template"],
            count=row["n"],
            first_us=row["first_us"],
            last_us=row["last_us"],
            role=row["role"],
            job_id=row["job_id"],
            taskmanager=row["writer_taskmanager"],
            host=row["writer_host"],
            peer=row["peer"] or None,
            cause=row["cause"],
            size=row["bytes"],
            values=dict(row["fields"] or {}),
            resource=_resource(row["thread"]) if row["template"].startswith("operator-") else None,
            times=tuple(row["times"] or ()),
            source=row["source"],
            ref=_ref(row),
        )


_RESOURCE: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}[./][a-z0-9][a-z0-9.-]{0,252}")


def _resource(thread: str | None) -> str | None:
    """`namespace/name`, as the operator's own layout prints it; other layouts have a thread there.

    >>> _resource("default.orders"), _resource("ReconcilerExecutor-flinkdeploymentcontroller-50")
    ('default/orders', None)
    """
    if thread is None or _RESOURCE.fullmatch(thread) is None:
        return None
    return thread if "/" in thread else thread.replace(".", "/", 1)


def _collecting(rows: Iterable[Row]) -> Iterator[Collecting]:
    for row in rows:
        if row["what"] == "collections":
            yield Collecting(
                taskmanager=row["taskmanager"],
                host=row["host"],
                first_us=row["first_us"],
                last_us=row["last_us"],
                gc_ms=row["n"],
                span_ms=row["bytes"],
                ref=_ref(row),
            )


def _ref(row: Row) -> Ref:
    return Ref(row["source"], row["offset"])


# --- jobs ------------------------------------------------------------------------------------------


def _job(job: JobFacts, times: Mapping[str, Row], shared: _Shared) -> JobStarts:
    mine = shared.marks_of.get(job.key.job_id, [])
    if shared.alone:
        mine = [row for row in shared.marks if row["job_id"] == job.key.job_id or not row["job_id"]]
    tasks = sorted(_tasks(job, times), key=lambda task: (task.begins_us or 0, task.attempt_id))
    starts = tuple(_starts(job, shared, mine, tasks))
    ended = next((r for r in reversed(mine) if r["event"] == Event.JOB_FINISHED), None)
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
        ended_ref=_ref(ended) if ended is not None else None,
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
            ref=_ref(row),
        )


class _Timeline:
    """Rows in order of time, of which a span is cut without looking at the rest."""

    def __init__(self, rows: Sequence[Any], times: Sequence[int]) -> None:
        self._rows, self._times = rows, times

    def within(self, low: int, high: int) -> Sequence[Any]:
        """Rows with `low` <= time < `high`."""
        return self._rows[bisect_left(self._times, low) : bisect_left(self._times, high)]


def _of_incidents(incidents: Iterable[Incident]) -> _Timeline:
    dated = sorted((i for i in incidents if i.time_us), key=lambda i: i.time_us or 0)
    return _Timeline(dated, [i.time_us or 0 for i in dated])


def _asked(workers: Sequence[Worker]) -> _Timeline:
    """Workers that were asked for, by when, each with its place among all."""
    asked = sorted(
        (
            (w.requested_us, place, w)
            for place, w in enumerate(workers)
            if w.requested_us is not None
        ),
        key=itemgetter(0),
    )
    return _Timeline([(place, w) for _, place, w in asked], [us for us, _, _ in asked])


def _by_job_id(marks: Iterable[Row]) -> Mapping[str | None, list[Row]]:
    found: defaultdict[str | None, list[Row]] = defaultdict(list)
    for row in marks:
        found[row["job_id"]].append(row)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shared:
    """What the starts of all jobs are told by, looked through once however many jobs there are.

    `strays` are failures that no record ties to a job.
    """

    alone: bool
    marks: Sequence[Row]
    marks_of: Mapping[str | None, list[Row]]
    strays: _Timeline
    restores: _Timeline
    asked: _Timeline


def _starts(
    job: JobFacts, shared: _Shared, marks: Sequence[Row], tasks: Sequence[TaskTimes]
) -> Iterator[Start]:
    restarts = _restarts(job)
    begun = [
        row["time_us"]
        for row in marks
        if row["event"] in (Event.JOB_SUBMITTED, Event.JOB_STARTED) and row["job_id"]
    ]
    first = min(
        [*begun, *(task.begins_us for task in tasks[:1] if task.begins_us is not None)],
        default=None,
    )
    if first is None:
        return
    bounds = [
        first,
        *(restart.time_us or 0 for restart in restarts if (restart.time_us or 0) > first),
    ]
    told = {restart.time_us: restart for restart in restarts}
    cold = bool(begun) or not restarts
    total = sum(v.parallelism for v in job.graph.vertices) if job.graph else None
    most = 0
    by_start: list[list[TaskTimes]] = [[] for _ in bounds]
    for task in tasks:
        by_start[_place(bounds, task.begins_us or first)].append(task)
    timelines = _Timelines(
        marks=_Timeline(marks, [row["time_us"] for row in marks]),
        incidents=_of_incidents(job.incidents),
        triggers=_of_incidents(i for i in job.incidents if kind_of(i) is not None),
        shared=shared,
        checkpoints=sorted(
            c.ended_us
            for c in job.checkpoints
            if c.status is Status.COMPLETED and c.ended_us is not None
        ),
    )
    for number, (begin, members) in enumerate(zip(bounds, by_start, strict=True)):
        end = bounds[number + 1] if number + 1 < len(bounds) else None
        most = max(most, len(members))
        restart = told.get(begin) if number else None
        count = (restart.text.get("tasks") if restart else None) or ""
        expected = int(count) if count.isdecimal() else (total or most or None)
        yield _start(job, timelines, members, number, begin, end, expected, cold=cold)


def _place(bounds: Sequence[int], moment: int) -> int:
    return max(0, bisect_right(bounds, moment) - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Timelines:
    """What the starts of one job are cut from."""

    marks: _Timeline
    incidents: _Timeline
    triggers: _Timeline
    shared: _Shared
    checkpoints: Sequence[int]


def _restarts(job: JobFacts) -> list[Incident]:
    """The restarts of a job, each once: the record with the number of tasks before the others."""
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
    cold: bool,
) -> Start:
    within = lines.marks.within(begin, end or _NEVER)
    incidents = lines.incidents.within(begin, (end or _NEVER) + 1)
    kind = "cold" if number == 0 and cold else "restart"
    running = [task.running_us for task in tasks if task.running_us is not None]
    complete = bool(tasks) and len(running) == len(tasks) and len(running) >= (expected or 0)
    failed = _first_failure(tasks, incidents, begin)
    if complete and failed is not None and max(running) > failed:
        complete = False
    horizon = end or failed or job.last_us or begin
    # Restores of the start before are cut off when its tasks are cancelled.
    ready = min((t.deploying_us for t in tasks if t.deploying_us is not None), default=_NEVER)
    restores = tuple(
        _restored(lines.shared.restores.within(ready, end or _NEVER), complete=complete)
    )
    steps = tuple(
        _steps(
            job,
            lines,
            within,
            tasks,
            restores,
            begin,
            horizon,
            kind,
            complete=complete,
            expected=expected,
        )
    )
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
        running_us=max(running) if complete else None,
        held=None if complete else _held(steps, tasks),
        tasks=tuple(tasks),
        expected=expected,
        slots=_slots(within),
        restored=bool(restores)
        or any(i.kind == "restored" and (i.time_us or 0) < (end or _NEVER) for i in incidents),
        failed_us=failed,
        restores=restores,
    )


def _first_failure(
    tasks: Sequence[TaskTimes], incidents: Iterable[Incident], begin: int
) -> int | None:
    """When the first task of a start failed, or the job; tasks of the start before may still do so."""
    times = [t.ended_us for t in tasks if t.end_state == "FAILED" and t.ended_us is not None]
    if not times:
        ready = min((t.begins_us for t in tasks if t.begins_us is not None), default=begin)
        times = [
            i.time_us
            for i in incidents
            if i.kind in ("job-failing", "job-failure") and i.time_us and ready < i.time_us
        ]
    return min(times, default=None)


def _restored(rows: Iterable[Row], *, complete: bool) -> Iterator[Restore]:
    """State that was read back in one start, by TaskManager; downloads apart."""
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
            ref=_ref(begun[0]),
        )


def _trigger(lines: _Timelines, moment: int) -> tuple[str | None, str | None, Ref | None]:
    """What a restart followed: the nearest failure before it, the likeliest cause of those together."""
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


def _held(steps: Sequence[Step], tasks: Sequence[TaskTimes]) -> str:
    """The step in which a start stopped."""
    for step in steps:
        if step.ended_us is None and step.started_us is not None:
            return step.name
    return "initialisation" if any(t.initializing_us for t in tasks) else "deployment"


# --- steps -----------------------------------------------------------------------------------------


def _steps(
    job: JobFacts,
    lines: _Timelines,
    marks: Sequence[Row],
    tasks: Sequence[TaskTimes],
    restores: Sequence[Restore],
    begin: int,
    horizon: int,
    kind: str,
    *,
    complete: bool,
    expected: int | None,
) -> Iterator[Step]:
    def first(*templates: str) -> Row | None:
        return next((row for row in marks if row["template"] in templates), None)

    scheduled = [t.scheduled_us for t in tasks if t.scheduled_us is not None]
    deploying = [t.deploying_us for t in tasks if t.deploying_us is not None]
    ready = min([*scheduled, *deploying], default=None)
    if kind == "cold":
        started = first("job-starting")
        submitted = first(
            "job-received",
            "job-received-quoted",
            "job-submitting",
            "job-submitting-quoted",
            "client-job-sent",
        )
        if submitted is not None:
            yield _between("submission", submitted, started, ready, horizon)
        registered = first("jobmaster-registered")
        if started is not None and registered is not None:
            yield _between("resource-manager", started, registered, None, horizon)
    elif ready is not None:
        yield Step(name="back-off", started_us=begin, ended_us=ready)
    else:
        yield Step(name="back-off", started_us=begin, ended_us=None, held_us=horizon)
    if ready is None:
        return
    slots = _slots_step(marks, scheduled, deploying, horizon, tasks)
    yield slots
    yield from _workers_step(lines.shared.asked, begin, slots.ended_us or horizon)
    if not deploying:
        return
    reached = {
        task.attempt_id: us
        for task in tasks
        if task.deploying_us is not None
        and (us := task.initializing_us or task.running_us) is not None
    }
    yield _task_step(
        "deployment",
        [t for t in tasks if t.deploying_us is not None],
        lambda task: task.deploying_us,
        lambda task: reached.get(task.attempt_id),
        horizon,
    )
    initializing = [t for t in tasks if t.initializing_us is not None]
    if initializing:
        yield _task_step(
            "initialisation",
            initializing,
            lambda task: task.initializing_us,
            lambda task: task.running_us,
            horizon,
        )
    yield from _restore_step(restores, horizon)
    if complete:
        yield from _first_checkpoint(
            job, lines.checkpoints, max(t.running_us or 0 for t in tasks), horizon
        )


def _between(name: str, begin: Row, end: Row | None, other_end: int | None, horizon: int) -> Step:
    ended = end["time_us"] if end is not None else other_end
    return Step(
        name=name,
        started_us=begin["time_us"],
        ended_us=ended,
        held_us=None if ended is not None else horizon,
        refs=tuple(_ref(row) for row in (begin, end) if row is not None),
    )


def _slots_step(
    marks: Sequence[Row],
    scheduled: Sequence[int],
    deploying: Sequence[int],
    horizon: int,
    tasks: Sequence[TaskTimes],
) -> Step:
    """From the wish for slots to the first deployment."""
    begin = min([*scheduled, *deploying])
    end = min(deploying) if deploying else None
    came = [
        row
        for row in marks
        if row["event"] == Event.TASKMANAGER_REGISTERED
        and begin <= row["time_us"] <= (end or horizon)
    ]
    return Step(
        name="slots",
        started_us=begin,
        ended_us=end,
        held_us=None if end is not None else horizon,
        taskmanager=came[-1]["taskmanager"] if came else None,
        host=came[-1]["host"] if came else None,
        refs=tuple(t.ref for t in tasks[:1] if t.ref is not None),
    )


def _task_step(name: str, tasks: Sequence[TaskTimes], begins: Any, ends: Any, horizon: int) -> Step:
    """A step that every task takes by itself: its spread, and the task that took longest."""
    durations: list[tuple[int, TaskTimes]] = []
    waiting: list[tuple[int, TaskTimes]] = []
    for task in tasks:
        end = ends(task)
        if end is None:
            until = task.ended_us if task.ended_us is not None else horizon
            waiting.append((max(0, until - begins(task)), task))
        else:
            durations.append((max(0, end - begins(task)), task))
    slowest = max(waiting or durations, key=lambda pair: pair[0])[1]
    values = sorted(us // 1000 for us, _ in (*durations, *waiting))
    last = max((ends(task) for _, task in durations), default=None)
    return Step(
        name=name,
        started_us=min(begins(task) for task in tasks),
        ended_us=None if waiting else last,
        held_us=horizon if waiting else None,
        spread=Spread(
            count=len(values),
            p50_ms=_percentile(values, 0.5),
            p95_ms=_percentile(values, 0.95),
            max_ms=values[-1],
        ),
        task=slowest.task,
        subtask_index=slowest.subtask_index,
        taskmanager=slowest.taskmanager,
        host=slowest.host,
        refs=(slowest.ref,) if slowest.ref else (),
    )


def _workers_step(workers: _Timeline, begin: int, end: int) -> Iterator[Step]:
    """From the request for each worker to its registration, part of the wait for slots."""
    asked = [w for _, w in sorted(workers.within(begin, end + 1), key=itemgetter(0))]
    yield from _over_workers(
        "workers", [(w, w.requested_us or 0, w.registered_us or w.ended_us) for w in asked], end
    )


def _operator_step(rows: Iterable[Row]) -> Iterator[Step]:
    """From the Kubernetes Operator's deployment to the job's RUNNING, as its log tells."""
    told = sorted(
        (
            row
            for row in rows
            if row["what"] == "trouble" and row["template"] == "operator-event" and row["first_us"]
        ),
        key=lambda row: int(row["first_us"]),
    )
    begun = [row for row in told if (row["fields"] or {}).get("reason") == "SUBMIT"]
    if not begun:
        return
    begin = begun[0]
    ran = next(
        (
            row
            for row in told
            if row["first_us"] >= begin["first_us"]
            and (row["fields"] or {}).get("reason") == "JOBSTATUSCHANGED"
            and (row["fields"] or {}).get("said", "").rstrip().endswith("to RUNNING")
        ),
        None,
    )
    yield Step(
        name="operator",
        started_us=begin["first_us"],
        ended_us=ran["first_us"] if ran is not None else None,
        held_us=told[-1]["last_us"] if ran is None else None,
        refs=(_ref(begin),),
    )


def _registration(workers: Iterable[Worker]) -> Iterator[Step]:
    """From the start of each TaskManager's process to its registration, by the TaskManagers' own logs."""
    begun = [w for w in workers if w.started_us is not None and w.registered_us is not None]
    spans = [(w, w.started_us or 0, w.registered_us) for w in begun]
    yield from _over_workers("registration", [s for s in spans if (s[2] or 0) >= s[1]], None)


def _restore_step(restores: Sequence[Restore], horizon: int) -> Iterator[Step]:
    """The time in which TaskManagers read state back, part of the initialisation."""
    spans = [
        (Worker(name=r.taskmanager or "?", host=r.host, ref=r.ref), r.started_us, r.finished_us)
        for r in restores
        if not r.download
    ]
    yield from _over_workers("restore", spans, horizon)


def _over_workers(
    name: str, spans: Sequence[tuple[Worker, int, int | None]], horizon: int | None
) -> Iterator[Step]:
    """A step that every TaskManager takes by itself: its spread, and the one that took longest."""
    if not spans:
        return
    took = [
        (max(0, (end if end is not None else horizon or begin) - begin), end is None, worker)
        for worker, begin, end in spans
    ]
    waiting = any(open_ for _, open_, _ in took)
    slowest = max((t for t in took if t[1]) if waiting else took, key=lambda t: t[0])
    values = sorted(us // 1000 for us, _, _ in took)
    worker = slowest[2]
    yield Step(
        name=name,
        started_us=min(begin for _, begin, _ in spans),
        ended_us=None if waiting else max(end for _, _, end in spans if end is not None),
        held_us=horizon if waiting else None,
        spread=Spread(
            count=len(values),
            p50_ms=_percentile(values, 0.5),
            p95_ms=_percentile(values, 0.95),
            max_ms=values[-1],
        ),
        taskmanager=worker.name,
        host=worker.host,
        refs=(worker.ref,) if worker.ref else (),
    )


def _percentile(values: Sequence[int], share: float) -> int:
    """The nearest rank: a value that occurred."""
    return values[max(0, math.ceil(share * len(values)) - 1)]


def _first_checkpoint(
    job: JobFacts, completed: Sequence[int], running: int, horizon: int
) -> Iterator[Step]:
    place = bisect_left(completed, running)
    end = completed[place] if place < len(completed) else None
    if job.checkpoints and (end is None or end <= max(horizon, running)):
        yield Step(
            name="first-checkpoint",
            started_us=running,
            ended_us=end,
            held_us=None if end is not None else horizon,
        )


def _slots(marks: Sequence[Row]) -> Slots | None:
    """What was required, and what was got where a message says so; a restart may reuse its slots."""
    required = acquired = 0
    told = False
    ref = None
    allocated: set[str] = set()
    pool_requests: set[str] = set()
    taskmanagers: set[str] = set()
    for row in marks:
        fields = row["fields"] or {}
        if row["template"] == "slots-required":
            wanted = sum(int(n) for n in _REQUIRED.findall(fields.get("requirements", "")))
            if wanted > required:
                required, ref = wanted, _ref(row)
        elif row["template"] == "slot-requested-by-pool":
            pool_requests.add(fields.get("slot_request_id", ""))
            ref = ref or _ref(row)
        elif row["template"] == "resources-not-acquired":
            acquired, told = _acquired(fields.get("acquired", "")), True
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
        acquired=max(acquired, len(allocated) if not told else 0) if told or enough else None,
        taskmanagers=len(taskmanagers),
        ref=ref,
    )


def _acquired(text: str) -> int:
    return sum(int(n) for n in _REQUIRED.findall(text))


# --- the cluster -----------------------------------------------------------------------------------


def _cluster_steps(marks: Sequence[Row]) -> Iterator[Step]:
    """Client, entry point, RPC, REST, leadership: from the last start of a JobManager in the input."""
    client = [row for row in marks if (row["template"] or "").startswith("client-")]
    yield from _client_step(marks)
    begin = next((r for r in client if r["template"] == "client-application-submitted"), None)
    if begin is not None:
        end = next(
            (
                row
                for row in client
                if row["template"] in ("client-deployed", "client-kubernetes-deployed")
                and row["time_us"] >= begin["time_us"]
            ),
            None,
        )
        yield Step(
            name="cluster-allocation",
            started_us=begin["time_us"],
            ended_us=end["time_us"] if end is not None else None,
            held_us=client[-1]["time_us"] if end is None else None,
            refs=(_ref(begin),),
        )
    managers = [
        row
        for row in marks
        if row["event"] == Event.PROCESS_STARTED
        and re.search(
            r"entrypoint|jobmanager", (row["fields"] or {}).get("component", ""), re.IGNORECASE
        )
    ]
    if not managers:
        return
    entry = managers[-1]
    after = [
        row
        for row in marks
        if row["source"] == entry["source"]
        and row["owner"] == entry["owner"]
        and row["time_us"] >= entry["time_us"]
    ]
    previous = entry
    for name in ("rpc", "rest", "leadership"):
        found = [row for row in after if _marks(name, row)]
        if not found:
            continue
        # All components of the same start: those that follow within a minute of each other.
        last = found[0]
        for row in found[1:]:
            if name == "leadership" and row["time_us"] - last["time_us"] < _TRIGGER_US:
                last = row
        yield Step(
            name=name,
            started_us=previous["time_us"],
            ended_us=max(last["time_us"], previous["time_us"]),
            refs=(_ref(last),),
        )
        previous = last if last["time_us"] >= previous["time_us"] else previous


def _client_step(marks: Sequence[Row]) -> Iterator[Step]:
    """What the client does before anything reaches the cluster: main() of the job above all."""
    begin = next(
        (
            row
            for row in marks
            if row["template"] in ("client-command", "client-program-started")
            and row["role"] not in ("jobmanager", "taskmanager")
        ),
        None,
    )
    if begin is None:
        return
    sent = next(
        (
            row
            for row in marks
            if row["time_us"] >= begin["time_us"]
            and row["role"] not in ("jobmanager", "taskmanager")
            and (
                row["event"] == Event.JOB_SUBMITTED
                or row["template"]
                in ("client-job-sent", "client-job-submitted", "client-application-submitted")
            )
        ),
        None,
    )
    last = [row["time_us"] for row in marks if row["source"] == begin["source"]]
    yield Step(
        name="client",
        started_us=begin["time_us"],
        ended_us=sent["time_us"] if sent is not None else None,
        held_us=max(last) if sent is None else None,
        refs=(_ref(begin),),
    )


def _marks(step: str, row: Row) -> bool:
    """Whether a record ends this step of the entry point."""
    if step == "rpc":
        return bool(row["template"] == "actor-system")
    if step == "rest":
        return row["template"] in ("rest-endpoint", "web-frontend")
    granted = row["event"] == Event.LEADERSHIP and row["template"] != "leadership-revoked"
    return granted and not row["job_id"]


_ENDED: Final = (
    "worker-terminated",
    "worker-failed",
    "worker-killed-for-memory",
    "worker-never-registered",
    "yarn-container-failed",
    "yarn-container-ended",
)


def _workers(marks: Sequence[Row]) -> tuple[Worker, ...]:
    known: dict[str, dict[str, Any]] = defaultdict(dict)
    for row in marks:
        name = row["taskmanager"]
        if row["event"] == Event.PROCESS_STARTED:
            name = row["writer_taskmanager"]
            if name:
                known[name].setdefault("started_us", row["time_us"])
            continue
        if not name or row["event"] not in (
            Event.WORKER,
            Event.TASKMANAGER_REGISTERED,
            Event.RESOURCE_FAILURE,
            Event.TASKMANAGER_LOST,
        ):
            continue
        entry = known[name]
        if row["host"]:
            entry.setdefault("host", row["host"])
        template = row["template"] or ""
        if row["event"] == Event.TASKMANAGER_REGISTERED or template == "worker-registered":
            entry.setdefault("registered_us", row["time_us"])
            entry.setdefault("ref", _ref(row))
        elif template in ("worker-granted", "pod-creating", "yarn-taskmanager-starting"):
            entry.setdefault("requested_us", row["time_us"])
            entry.setdefault("ref", _ref(row))
        elif template in _ENDED:
            entry.setdefault("ended_us", row["time_us"])
            entry.setdefault("diagnostics", row["cause"])
            entry["ref"] = _ref(row)
    return tuple(
        Worker(name=name, **entry)
        for name, entry in sorted(known.items())
        if entry.keys() & {"registered_us", "requested_us", "ended_us", "started_us"}
    )


def _requests(marks: Sequence[Row]) -> list[Row]:
    """Requests for workers; up to 1.11 the resource manager's own wording is all there is."""
    for template in ("worker-requested", "yarn-container-requested", "pod-creating"):
        found = [row for row in marks if row["template"] == template]
        if found:
            return found
    return []


def _pending(requests: Sequence[Row], workers: Sequence[Worker]) -> int:
    begin = requests[0]["time_us"]
    settled = sum(
        1
        for worker in workers
        if (worker.registered_us or 0) >= begin or (worker.ended_us or 0) >= begin
    )
    return max(0, len(requests) - settled)


def _mode(marks: Sequence[Row]) -> str | None:
    for row in marks:
        text = (row["fields"] or {}).get("component", "").lower()
        template = row["template"] or ""
        if "yarn" in text or template.startswith(("yarn-", "client-application")):
            return "yarn"
        if "kubernetes" in text or template.startswith("pod-"):
            return "kubernetes"
        if "standalone" in text:
            return "standalone"
    return None


def job_of(key: JobKey, facts: StartupFacts) -> JobFacts | None:
    """The facts of a job by its key."""
    return next((starts.job for starts in facts.jobs if starts.job.key == key), None)
