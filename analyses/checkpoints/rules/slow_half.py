"""The slow half of the checkpoint.

What it reports
---------------
For checkpoints that expire or are slow, where the time goes: waiting for the barrier (start delay and
alignment), the synchronous part, or the asynchronous part. It shows the share of each, and the subtask in
which it was longest. If the inputs do not show it, the rule names the file or setting that would.

Why it matters
--------------
The two halves have opposite remedies. Faster storage does not help against back pressure and skew.
Unaligned checkpoints do not help against slow storage.

How it decides
--------------
From per-subtask details (REST, archive, DEBUG dump, DEBUG lines of TaskManagers) of the failed and slow
checkpoints. For the subtask that acknowledged last: the synchronous and asynchronous durations that it
measured itself. The rest of its end-to-end duration is the wait for the barrier. The start delay that Flink
reports is not used, because it compares the clocks of two hosts. A half must take `share` of the time.

Without durations the shape of the missing acknowledgements decides. If everything downstream is missing,
the barrier is stuck. If only one place is missing, the snapshot is slow. Last comes the warning "Time from
receiving all checkpoint barriers/RPC to executing it exceeded threshold" (1.12+): the barriers had
arrived, but the task was busy.

What to do
----------
Barriers: remove the back pressure (CP201), enable unaligned checkpoints or buffer debloating. Synchronous
part: check what runs in the task's thread during a snapshot. Asynchronous part: check storage, network and
state size.

False alarms
------------
None of its own: it only explains findings of CP101 and CP104.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final, NamedTuple

from flowdiag.analyses.checkpoints.culprit import answers, names_culprit
from flowdiag.analyses.checkpoints.rules.slow_checkpoint import slow_finding
from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.topology import topology_of

_NAMES: Final = {
    "barrier": "waiting for barriers",
    "sync": "the synchronous part",
    "async": "the asynchronous part",
}


class SlowHalf(h.Limits):
    """Thresholds of CP203."""

    share: float = h.limit(0.5, "share", "fix the half that takes most of the time")


class Half(NamedTuple):
    """The slow half, and the evidence."""

    half: str
    title: str
    explain: str
    measurements: tuple[h.Measurement, ...] = ()
    evidence: tuple[h.Evidence, ...] = ()


def judge(job: h.Job, limits: SlowHalf) -> h.Iterator[h.Finding | h.Inconclusive]:
    """One finding, or one reason without a finding, per job with failed or slow checkpoints."""
    series = [e for e in h.episodes(job) if e.count(h.Status.EXPIRED)]
    expired = [c for e in series for c in e.checkpoints if c.status is h.Status.EXPIRED]
    sick = expired or _slowest(job)
    if not sick:
        return
    found = (
        _by_durations(job, sick, limits)
        or (_by_shape(job) if expired else None)
        or _by_warnings(job, sick)
    )
    if found is None:
        yield h.Inconclusive(
            reason="no input shows how long barriers, synchronous and asynchronous parts took",
            remedy="save /jobs/:id/checkpoints/details/:checkpoint/subtasks/:vertex, or log "
            "org.apache.flink.streaming.runtime.tasks at DEBUG"
            " (from 1.18 also org.apache.flink.runtime.checkpoint.CheckpointStatsTracker)",
            job=job.key,
        )
        return
    fields: h.FindingFields = {
        "title": found.title,
        "explain": found.explain,
        "rank": h.Rank.SYMPTOM,
        "option": found.half,
        "measurements": found.measurements,
        "evidence": tuple(dict.fromkeys((*found.evidence, *h.end_records(sick)))),
        "actions": _actions(job, found.half),
    }
    if expired:
        fields.update({"first_us": sick[0].triggered_us, "last_us": sick[-1].ended_us})
        yield h.episode_finding(job, series, len(sick), fatal=False, **fields)
    else:
        slow = slow_finding(job)
        if slow is not None:
            fields["severity"] = slow.severity
        ongoing = slow is None or slow.state is h.State.ONGOING
        yield h.checkpoint_finding(job, sick, among=job.concluded, ongoing=ongoing, **fields)


def _slowest(job: h.Job) -> list[h.Checkpoint]:
    """Return the ten slowest checkpoints, in order, if CP104 reports slow ones."""
    if slow_finding(job) is None:
        return []
    settled = [c for stretch in h.steady_checkpoints(job, h.WARM_UP) for c in stretch]
    slowest = sorted(settled, key=lambda c: -(c.duration_ms or 0))[:10]
    return sorted(slowest, key=lambda c: (c.triggered_us or 0, c.run, c.id))


def _last_rows(job: h.Job, sick: list[h.Checkpoint]) -> list[h.SubtaskCheckpoint]:
    """Return the row of the last subtask of each checkpoint with durations."""
    wanted = {c.id for c in sick}
    rows: defaultdict[int, list[h.SubtaskCheckpoint]] = defaultdict(list)
    for row in job.subtask_checkpoints:
        if row.checkpoint in wanted and row.sync_ms is not None and row.end_to_end_ms is not None:
            rows[row.checkpoint].append(row)
    return [
        max(members, key=lambda row: (row.end_to_end_ms or 0, row.subtask_index))
        for members in rows.values()
    ]


def _by_durations(job: h.Job, sick: list[h.Checkpoint], limits: SlowHalf) -> Half | None:
    """Return the half by the durations that subtasks measured themselves."""
    known = _last_rows(job, sick)
    # In a failed checkpoint only subtasks that acknowledged have durations: the last one counts if
    # it was late itself.
    expired = {c.id: c.duration_ms or 0 for c in reversed(sick) if c.status is h.Status.EXPIRED}
    rows = [row for row in known if (row.end_to_end_ms or 0) >= expired.get(row.checkpoint, 0)]
    sums = {
        "barrier": float(sum(max(0, _ms(row.end_to_end_ms) - _own_ms(row)) for row in rows)),
        "sync": float(sum(_ms(row.sync_ms) for row in rows)),
        "async": float(sum(_ms(row.async_ms) for row in rows)),
    }
    total = max(1.0, sum(sums.values()))
    half = max(sorted(sums), key=lambda name: sums[name])
    if not any(sums.values()) or sums[half] / total < limits.share:
        return None
    worst = max(rows, key=lambda row: row.end_to_end_ms or 0)
    size = topology_of(job).parallelism.get(worst.task or "")
    return Half(
        half,
        f"{h.fmt.percent(sums[half] / total)} of the checkpoint time goes into {_NAMES[half]}",
        f"Longest in {h.fmt.subtask_of(worst.task, worst.subtask_index, size)}: "
        f"{h.fmt.duration(worst.end_to_end_ms)} from trigger to acknowledgement{_parts(worst)}.",
        tuple(
            h.measurement(
                f"share-of-{name}",
                round(spent / total, 3),
                "share",
                over=f"the last subtask of {h.fmt.plural(len(known), 'checkpoint')}",
            )
            for name, spent in sums.items()
        ),
        h.cite([(worst.cited, None)]),
    )


def _parts(row: h.SubtaskCheckpoint) -> str:
    """Return the measured times of the snapshot as a clause."""
    parts = [
        f"{h.fmt.duration(spent)} in the {name} part"
        for name, spent in (("synchronous", row.sync_ms), ("asynchronous", row.async_ms))
        if spent is not None
    ]
    return f", of which {h.fmt.listed(parts, ' and ')}" if parts else ""


def _ms(value: int | None) -> int:
    return value or 0


def _own_ms(row: h.SubtaskCheckpoint) -> int:
    return _ms(row.sync_ms) + _ms(row.async_ms)


def _by_shape(job: h.Job) -> Half | None:
    """Return the half by the shape of missing acknowledgements."""
    last = answers(job)[-10:]
    found = [answer.conviction for answer in last if answer.conviction is not None]
    known = [c.half for c in found if c.half in _NAMES and c.confidence is not h.Confidence.LOW]
    if not known:
        return None
    return Half(
        known[-1],
        f"The checkpoint time goes into {_NAMES[known[-1]]}, by the shape of the acknowledgements",
        "The input contains no durations. The missing acknowledgements show the half: "
        "a stuck barrier is missing everywhere downstream, a slow snapshot in one place only.",
    )


def _by_warnings(job: h.Job, sick: list[h.Checkpoint]) -> Half | None:
    """Return the half by tasks that began a checkpoint half a minute after all its barriers (1.12+)."""
    numbers = {c.id for c in sick}
    low = min((c.triggered_us for c in sick if c.triggered_us is not None), default=None)
    warned = [
        i
        for i in h.incidents(job, "barrier-delayed")
        if i.checkpoint in numbers
        or (i.checkpoint is None and low is not None and (i.time_us or 0) >= low)
    ]
    if not warned:
        return None
    longest = max(i.duration_ms or 0 for i in warned)
    return Half(
        "barrier",
        f"Tasks began a checkpoint up to {h.fmt.duration(longest)} after its barriers arrived",
        "Their thread was busy with other work: records, timers, or a blocking call. The default log "
        "does not name the task.",
        evidence=h.records_of(warned),
    )


# The cause without a culprit, and its remedy that names no subtask.
_ADVICE: Final = {
    "sync": ("slow-sync-snapshot", "thread"),
    "async": ("slow-async-snapshot", "storage"),
}


def _actions(job: h.Job, half: str) -> tuple[h.Action, ...]:
    if names_culprit(job):
        return (h.Action(text="Fix the culprit: CP201 names it, with the remedies for its cause"),)
    if half == "barrier":
        back = h.Action(
            text="Find the task where the barriers wait: flowdiag queues shows where back pressure begins",
            command="queues",
            verify="start delay and alignment decrease",
        )
        return (back, *h.shared_remedies(job, "overtake-if-it-works"))
    cause, name = _ADVICE["sync" if half == "sync" else "async"]
    return (
        *h.remedies(cause, job, name),
        *(h.shared_remedies(job, "incremental") if half != "sync" else ()),
    )


RULE: Final = h.Rule("CP203", judge, SlowHalf)
