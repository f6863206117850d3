"""Joins the measurements of two recordings into one job, one after the other."""

from __future__ import annotations

from dataclasses import replace

from flowdiag.analyses.flink.job import ClusterFacts, Graph, JobFacts

SECOND_US = 1_000_000


def windowed(job: JobFacts) -> JobFacts:
    """Set the time range of metrics without one to the time in which checkpoints failed."""
    failed = [c for c in job.checkpoints if c.status.unsuccessful]
    first = min((c.triggered_us for c in failed if c.triggered_us), default=job.first_us)
    last = max((c.ended_us for c in failed if c.ended_us), default=job.last_us)
    loads = [
        replace(load, first_us=first, last_us=last)
        if load.first_us is None and load.samples > 1
        else load
        for load in job.loads
    ]
    # Totals count since the start: two joined jobs have no totals.
    return replace(job, loads=tuple(load for load in loads if load.first_us is not None))


def later(job: JobFacts, shift_us: int, ids: int) -> JobFacts:
    """Shift a job in time, and number its checkpoints from the last ID of another job."""

    def moved(us: int | None) -> int | None:
        return None if us is None else us + shift_us

    return replace(
        job,
        checkpoints=tuple(
            replace(
                c, id=c.id + ids, triggered_us=moved(c.triggered_us), ended_us=moved(c.ended_us)
            )
            for c in job.checkpoints
        ),
        late=tuple(
            replace(item, checkpoint=item.checkpoint + ids, received_us=moved(item.received_us))
            for item in job.late
        ),
        declines=tuple(
            replace(item, checkpoint=item.checkpoint + ids, time_us=moved(item.time_us))
            for item in job.declines
        ),
        attempts=tuple(
            replace(a, deployed_us=moved(a.deployed_us), ended_us=moved(a.ended_us))
            for a in job.attempts
        ),
        subtask_checkpoints=tuple(
            replace(row, checkpoint=row.checkpoint + ids) for row in job.subtask_checkpoints
        ),
        loads=tuple(
            replace(load, first_us=moved(load.first_us), last_us=moved(load.last_us))
            for load in job.loads
        ),
        garbage=tuple(
            replace(item, first_us=item.first_us + shift_us, last_us=item.last_us + shift_us)
            for item in job.garbage
        ),
        incidents=tuple(
            replace(
                i,
                time_us=moved(i.time_us),
                checkpoint=None if i.checkpoint is None else i.checkpoint + ids,
            )
            for i in job.incidents
        ),
        first_us=moved(job.first_us),
        last_us=moved(job.last_us),
    )


_OVER = frozenset({"cancelled", "finished", "coordinator-stopped", "job-failure"})


def one_after_the_other(first: JobFacts, second: JobFacts, *, healed: bool) -> ClusterFacts:
    """Join two jobs of the same graph into one, as if the second continued the first.

    Args:
        first, second: jobs of the same Flink version.
        healed: whether to keep the completed checkpoints at the start of the second job, so that the
            job recovers between the two faults. Otherwise, checkpoints fail throughout.
    """
    first, second = windowed(first), windowed(second)
    # The joined job continues: the end of the first is no cancellation or shutdown.
    before = [i for i in first.incidents if i.kind not in _OVER]
    kept = [c for c in first.checkpoints if c.status.value not in ("aborted", "in_flight")]
    begun = list(second.checkpoints)
    if not healed:
        first_failure = next(n for n, c in enumerate(begun) if c.status.unsuccessful)
        begun = begun[first_failure:]
    ended = max(c.ended_us or 0 for c in kept)
    shift = ended + SECOND_US - (begun[0].triggered_us or 0)
    ids = max(c.id for c in kept) + 1 - begun[0].id
    run = max(c.run for c in kept)
    more = later(replace(second, checkpoints=tuple(begun)), shift, ids)
    # It was restarted in between, and every subtask may run elsewhere since.
    placed = [
        replace(a, deployed_us=max(a.deployed_us or 0, ended + SECOND_US // 2))
        for a in more.attempts
    ]
    return ClusterFacts(
        jobs=(
            replace(
                first,
                checkpoints=(*kept, *(replace(c, run=run) for c in more.checkpoints)),
                late=(*first.late, *(replace(item, run=run) for item in more.late)),
                declines=(*first.declines, *(replace(item, run=run) for item in more.declines)),
                attempts=(*first.attempts, *placed),
                graph=_same(first.graph, more.graph),
                subtask_checkpoints=(*first.subtask_checkpoints, *more.subtask_checkpoints),
                loads=(*first.loads, *more.loads),
                garbage=(*first.garbage, *more.garbage),
                incidents=(*before, *more.incidents),
                last_us=more.last_us,
            ),
        ),
        processes=(),
        has_jobmanager_log=True,
    )


def _same(one: Graph | None, other: Graph | None) -> Graph | None:
    assert one is not None and other is not None
    assert [(v.task, v.parallelism) for v in one.vertices] == [
        (v.task, v.parallelism) for v in other.vertices
    ]
    return one
