"""Assembles the facts for rules from the small rows that Spark measured, without Spark.

`assemble` shows the order: one module per kind of fact. Some records name no job, for example the state
transitions of tasks. Their job comes from the execution graph ID (1.16+), from a message of the same
attempt, or from the stream if it has a single job. Otherwise it stays unknown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import itemgetter
from typing import Protocol, TypeVar

from flowdiag.analyses.flink.assemble.attempts import attempts_of
from flowdiag.analyses.flink.assemble.checkpoints import (
    abort_unfinished,
    checkpoints_of,
    declines_in_failures,
    declines_of,
    join_attempts,
    late_of,
)
from flowdiag.analyses.flink.assemble.graph import graphs_of
from flowdiag.analyses.flink.assemble.incidents import incidents_of
from flowdiag.analyses.flink.assemble.jobs import Jobs, processes_of
from flowdiag.analyses.flink.assemble.loads import (
    garbage_of,
    loads_of,
    stacks_by_job,
    stacks_of,
)
from flowdiag.analyses.flink.assemble.parts import parts_of
from flowdiag.analyses.flink.assemble.reported_loads import reported_loads
from flowdiag.analyses.flink.assemble.rows import Row, place
from flowdiag.analyses.flink.assemble.settings import settings_of
from flowdiag.analyses.flink.assemble.silences import silences_of
from flowdiag.analyses.flink.clocks.settle import Writer
from flowdiag.analyses.flink.job import (
    Attempt,
    Checkpoint,
    ClusterFacts,
    Decline,
    Garbage,
    Graph,
    Incident,
    JobFacts,
    LateAcknowledgement,
    Setting,
    SubtaskCheckpoint,
    SubtaskLoad,
)
from flowdiag.analyses.model.keys import JobKey
from flowdiag.analyses.stacks import Stack
from flowdiag.parsers.gc_pause import gc_disabled
from flowdiag.parsers.rows import Event


@gc_disabled()
def assemble(
    rows: Sequence[Row], load_rows: Sequence[Row], writers: Sequence[Writer]
) -> ClusterFacts:
    """Build the facts from rows.

    Args:
        rows: the rows of `lifecycle.facts`.
        load_rows: the rows of `lifecycle.loads`.
        writers: the result of `settle`.

    Returns:
        facts in a stable order: jobs by their first event, everything else by time and place.
    """
    by_what: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_what[row["what"]].append(row)
    dated = sorted(by_what["incident"], key=place)
    records = [row for row in dated if row["event"] != Event.THREAD]
    stacks = stacks_of(row for row in dated if row["event"] == Event.THREAD)
    jobs = Jobs(by_what, dated, writers)
    checkpoints = checkpoints_of(by_what["checkpoint"])
    attempts = attempts_of(by_what["attempt"], jobs)
    incidents = incidents_of(records, jobs, attempts)
    late = late_of(join_attempts(by_what, "late"), checkpoints)
    declines = declines_of(join_attempts(by_what, "decline"))
    declines += declines_in_failures(by_what["checkpoint"])
    checkpoints = abort_unfinished(checkpoints, incidents)
    graphs = graphs_of(records, attempts, jobs)
    parts = parts_of(by_what["part"], attempts, graphs, jobs)
    of_loads = [row for row in load_rows if row.get("what") != "garbage"]
    loads = loads_of(of_loads, jobs, attempts) + reported_loads(records, jobs.named)
    garbage = garbage_of((r for r in load_rows if r.get("what") == "garbage"), attempts)
    settings = settings_of(records, checkpoints, jobs)
    values_by_meaning = _Sorted(
        checkpoints=_by_job(checkpoints.values()),
        late=_by_job(late),
        declines=_by_job(declines),
        attempts=_by_job(attempts.values()),
        incidents=_by_job(incidents),
        parts=_by_job(parts),
        loads=_by_job(loads),
        garbage=_by_taskmanager(garbage),
        settings=_by_job(settings),
        stacks=stacks_by_job(stacks, jobs.keys, attempts.values(), graphs),
        order={id(setting): number for number, setting in enumerate(settings)},
    )
    found = [_job(key, jobs, values_by_meaning, graphs.get(key)) for key in jobs.keys]
    roles = {writer.role for writer in writers}
    return ClusterFacts(
        jobs=tuple(sorted(found, key=lambda job: (job.first_us or 0, job.key))),
        processes=processes_of(writers),
        stacks=tuple(values_by_meaning.stacks.get(None, ())),
        incidents=(*values_by_meaning.incidents.get(None, ()), *silences_of(writers)),
        has_jobmanager_log=bool(roles & {"jobmanager", "mixed"}),
        has_rest=any(row["rest_status"] for row in by_what["checkpoint"]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sorted:
    """Facts by job, each list in order."""

    checkpoints: Mapping[JobKey | None, list[Checkpoint]]
    late: Mapping[JobKey | None, list[LateAcknowledgement]]
    declines: Mapping[JobKey | None, list[Decline]]
    attempts: Mapping[JobKey | None, list[Attempt]]
    incidents: Mapping[JobKey | None, list[Incident]]
    parts: Mapping[JobKey | None, list[SubtaskCheckpoint]]
    loads: Mapping[JobKey | None, list[SubtaskLoad]]
    garbage: Mapping[str | None, list[tuple[int, Garbage]]]  # by TaskManager, with their positions
    settings: Mapping[JobKey | None, list[Setting]]
    stacks: Mapping[JobKey | None, list[Stack]]
    order: Mapping[int, int]  # the position of each setting, by identity

    def settings_of(self, key: JobKey) -> tuple[Setting, ...]:
        """Return the settings that apply to a job, in the order of their records."""
        found = [*self.settings.get(None, ()), *self.settings.get(key, ())]
        return tuple(sorted(found, key=lambda setting: self.order[id(setting)]))


class _OfJob(Protocol):
    @property
    def job(self) -> JobKey | None: ...


Fact = TypeVar("Fact", bound=_OfJob)


def _garbage(facts: _Sorted, key: JobKey) -> tuple[Garbage, ...]:
    """Return the garbage collections on the TaskManagers of a job."""
    if not facts.garbage:
        return ()
    ran = {attempt.taskmanager for attempt in facts.attempts.get(key, ())}
    ran |= {load.taskmanager for load in facts.loads.get(key, ())}
    found = chain.from_iterable(facts.garbage.get(taskmanager, ()) for taskmanager in ran)
    return tuple(item for _, item in sorted(found, key=itemgetter(0)))


def _by_taskmanager(garbage: Iterable[Garbage]) -> dict[str | None, list[tuple[int, Garbage]]]:
    grouped: defaultdict[str | None, list[tuple[int, Garbage]]] = defaultdict(list)
    for number, item in enumerate(garbage):
        grouped[item.taskmanager].append((number, item))
    return dict(grouped)


def _by_job(found: Iterable[Fact]) -> Mapping[JobKey | None, list[Fact]]:
    grouped: defaultdict[JobKey | None, list[Fact]] = defaultdict(list)
    for fact in found:
        grouped[fact.job].append(fact)
    return dict(grouped)


def _job(key: JobKey, jobs: Jobs, facts: _Sorted, graph: Graph | None) -> JobFacts:
    own = facts.incidents.get(key, [])
    queued = {i.checkpoint: i.duration_ms for i in own if i.kind == "request-in-queue"}
    mine = sorted(
        (
            replace(c, queue_ms=queued.get(c.id)) if c.id in queued else c
            for c in facts.checkpoints.get(key, ())
        ),
        key=lambda c: (c.run, c.id),
    )
    times = [
        time_us
        for time_us in (
            *[c.triggered_us for c in mine],
            *[c.ended_us for c in mine],
            *[i.time_us for i in own],
        )
        if time_us is not None
    ]
    return JobFacts(
        key=JobKey(jobs.clusters.get(key, key.cluster) if key.cluster else "", key.job_id),
        name=jobs.names.get(key),
        version=jobs.versions.get(key),
        checkpoints=tuple(mine),
        late=tuple(facts.late.get(key, ())),
        declines=tuple(facts.declines.get(key, ())),
        attempts=tuple(
            sorted(
                facts.attempts.get(key, ()),
                key=lambda a: (
                    a.deployed_us or 0,
                    a.task or "",
                    a.subtask_index or 0,
                    a.attempt_id,
                ),
            )
        ),
        graph=graph,
        subtask_checkpoints=tuple(facts.parts.get(key, ())),
        loads=tuple(facts.loads.get(key, ())),
        garbage=_garbage(facts, key),
        incidents=tuple(own),
        settings=facts.settings_of(key),
        stacks=tuple(facts.stacks.get(key, ())),
        first_us=min(times, default=None),
        last_us=max(times, default=None),
    )
