"""The code in which the threads of slow tasks spend their time."""

from __future__ import annotations

from flowdiag.analyses.flink.suspects import NOT_IN_CODE
from flowdiag.analyses.flink.tasks.pressure import overall_view
from flowdiag.analyses.flink.tasks.stacks import read_code
from flowdiag.analyses.queues import helpers as h
from flowdiag.analyses.stacks import Agreement, CodeReading

_WAITS = ("external", "pool", "async-queue")


def code_of(job: h.JobQueues, spell: h.Spell, agreement: Agreement) -> CodeReading | None:
    """Return what the threads of a culprit do, if its code may be the reason."""
    suspect = spell.culprit.suspect
    if spell.cause in NOT_IN_CODE or suspect.kind == "taskmanager":
        return None
    if h.waits_for_database(job, spell.task):
        return None
    keys = {load.key for load in spell.culprit_loads}
    if suspect.kind == "task":
        keys = {key for key in spell.loads if key.task == spell.task}
    return read_code(job.job, keys, agreement)


def severity_alone(
    job: h.JobQueues,
    task: str,
    code: CodeReading,
    *,
    dumps: float,
    agreeing: float,
    throughout: float,
    saturated: float,
) -> h.Severity | None:
    """Return the severity for a task that waits in its own code while no task waits for it, or None if it is healthy."""
    if code.cause == "deadlock":
        return h.Severity.CRITICAL
    if code.cause == "lock-contention":
        return h.Severity.WARNING if code.dumps >= dumps else None
    if code.stack.kind not in _WAITS or not all(stack.chained for stack in code.agreeing):
        return None
    busy = [
        load.busy for load in overall_view(job.job).by_task.get(task, ()) if load.busy is not None
    ]
    if any(share < saturated for share in busy):
        return None
    rarely = code.dumps < agreeing or code.count < throughout * code.seen
    return None if rarely else h.Severity.WARNING


def record_seconds(spell: h.Spell, *, records: float, measured: float) -> float | None:
    """Return the time per record of a culprit, in seconds, or None if unknown.

    Args:
        spell: the spell of back pressure.
        records, measured: minimum number of records, and of seconds.
    """
    if spell.duration_us < measured * 1e6:
        return None
    return h.median(
        load.busy * spell.duration_us / 1e6 / load.records
        for load in spell.culprit_loads
        if load.busy is not None and (load.records or 0.0) >= records
        if load.records is not None
    )
