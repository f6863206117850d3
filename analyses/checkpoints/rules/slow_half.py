"""The slow half of the checkpoint.

What it reports
---------------
Where the time goes in checkpoints that expire or are slow: waiting for the barrier (start delay and alignment),
the synchronous part, or the asynchronous part. The finding shows the share of each, and the subtask that took
longest. If the inputs do not contain the durations, the rule names the file or setting that would provide them.

Why it matters
--------------
The two halves have opposite remedies. Faster storage does not help against back pressure and skew.
Unaligned checkpoints do not help against slow storage.

How it decides
--------------
The rule uses per-subtask details (REST, archive, DEBUG dump, DEBUG lines of TaskManagers) of the failed and slow
checkpoints. In each checkpoint it takes the subtask that acknowledged last, and the synchronous and asynchronous
durations that this subtask measured. The rest of the end-to-end duration is the wait for the barrier. The rule
ignores the start delay that Flink reports, because Flink calculates it from the clocks of two hosts. The longest
part must take at least `share` of the time.

Without durations the pattern of missing acknowledgements decides. If all downstream subtasks are missing, the
barrier is stuck. If subtasks are missing in only one place, the snapshot is slow. Otherwise the rule looks for the
warning "Time from receiving all checkpoint barriers/RPC to executing it exceeded threshold" (1.12+). This warning
shows that the barriers had arrived but the task was busy.

What to do
----------
- Barriers: remove the back pressure (CP201), or enable unaligned checkpoints or buffer debloating.
- Synchronous part: check what runs in the task's thread during a snapshot.
- Asynchronous part: check the storage, the network and the state size.

False alarms
------------
None known. The rule only explains findings of CP101 and CP104.
"""

from typing import Final

from flowdiag.analyses.checkpoints import halves
from flowdiag.analyses.checkpoints.culprit import names_culprit
from flowdiag.analyses.checkpoints.rules.slow_checkpoint import slow_finding
from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.tasks.topology import topology_of


class Limits(h.Limits):
    share: float = h.limit(
        halves.MOST, "share", "minimum share of the longest part, so that fixing it is worthwhile"
    )


def judge(job: h.Job, limits: Limits) -> h.Results:
    """Yield one finding, or the reason why there is none, per job with failed or slow checkpoints."""
    series = [e for e in h.episodes(job) if e.count(h.Status.EXPIRED)]
    expired = [c for e in series for c in e.checkpoints if c.status is h.Status.EXPIRED]
    delayed, slow = expired, None if expired else slow_finding(job)
    if slow is not None:
        delayed = halves.slowest_checkpoints(job)
    if not delayed:
        return
    fields = _measured_fields(job, delayed, limits) or _inferred_fields(job, delayed)
    if fields is None:
        reason, remedy = h.text("CP203.no-durations"), h.text("CP203.get-durations")
        yield h.Inconclusive(reason=reason, remedy=remedy, job=job.key)
        return
    records = (*fields.get("evidence", ()), *h.end_records(delayed))
    fields["evidence"] = tuple(dict.fromkeys(records))
    fields["rank"] = h.Rank.SYMPTOM
    fields["actions"] = _actions(job, fields["option"])
    if slow is None:
        fields.update({"first_us": delayed[0].triggered_us, "last_us": delayed[-1].ended_us})
        yield h.episode_finding(job, series, len(delayed), fatal=False, **fields)
    else:
        fields["severity"] = slow.severity
        ongoing = slow.state is h.State.ONGOING
        yield h.checkpoint_finding(job, delayed, among=job.concluded, ongoing=ongoing, **fields)


def _measured_fields(
    job: h.Job, delayed: list[h.Checkpoint], limits: Limits
) -> h.FindingFields | None:
    """Return the fields of a finding from the durations that subtasks measured."""
    times = halves.times_by_half(job, delayed)
    if times is None or times.share(times.longest) < limits.share:
        return None
    half, worst = times.longest, times.worst
    parts = [
        f"{h.fmt.duration(spent)} in the {name} part"
        for name, spent in (("synchronous", worst.sync_ms), ("asynchronous", worst.async_ms))
        if spent is not None
    ]
    size = topology_of(job).parallelism.get(worst.task or "")
    over = f"the last subtask of {h.fmt.plural(times.checkpoints, 'checkpoint')}"
    return {
        "title": f"{h.fmt.percent(times.share(half))} of the checkpoint time is spent {halves.HALVES[half]}",
        "explain": f"Longest in {h.fmt.subtask_of(worst.task, worst.subtask_index, size)}: "
        f"{h.fmt.duration(worst.end_to_end_ms)} from trigger to acknowledgement, of which "
        f"{h.fmt.listed(parts, ' and ')}.",
        "option": half,
        "measurements": tuple(
            h.measurement(f"share-of-{name}", round(times.share(name), 3), "share", over=over)
            for name in times.sums
        ),
        "evidence": h.cite([(worst.cited, None)]),
    }


def _inferred_fields(job: h.Job, delayed: list[h.Checkpoint]) -> h.FindingFields | None:
    """Return the fields of a finding, inferred from missing acknowledgements or from warnings of busy tasks."""
    half = halves.half_by_shape(job) if delayed[0].status is h.Status.EXPIRED else None
    if half is not None:
        return {
            "title": f"The checkpoint time is spent {halves.HALVES[half]}, judging by the missing acknowledgements",
            "explain": h.text("CP203.by-shape"),
            "option": half,
            "measurements": (),
        }
    warnings = halves.delayed_barriers(job, delayed)
    if not warnings:
        return None
    longest = h.fmt.duration(max(i.duration_ms or 0 for i in warnings))
    return {
        "title": f"Tasks began a checkpoint up to {longest} after its barriers arrived",
        "explain": h.text("CP203.busy-thread"),
        "option": "barrier",
        "measurements": (),
        "evidence": h.records_of(warnings),
    }


def _actions(job: h.Job, half: str | None) -> tuple[h.Action, ...]:
    # Without a culprit, only the remedies of the slow part make sense.
    return (
        h.shared_remedies(job, "named-culprit")
        if names_culprit(job)
        else halves.remedies_for_half(job, half)
    )


RULE: Final = h.Rule("CP203", judge, Limits, needs="ended-checkpoints")
