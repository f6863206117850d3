"""Which half of the checkpoint is slow.

What it reports
---------------
For checkpoints that expire or are slow: where the time went, waiting for the barrier (start delay and
alignment), in the synchronous part or in the asynchronous part, with the share of each and the
subtask in which it was longest. If the inputs cannot tell, which file or setting would.

Why it matters
--------------
The two halves have opposite cures. Back pressure and skew are not helped by faster storage, slow
storage is not helped by unaligned checkpoints.

How it decides
--------------
From per-subtask details (REST, archive, DEBUG dump, DEBUG lines of TaskManagers) of the failed and
slow checkpoints: for the subtask that acknowledged last, the synchronous and asynchronous durations
that it measured itself, and the rest of its end-to-end duration, which is the wait for the barrier.
The start delay that Flink reports is not used: it is a difference of two machines' clocks. A half must
hold `share` of the time. Without durations the shape of missing acknowledgements decides: everything
downstream missing is a barrier that is stuck, nothing else missing a snapshot that is slow. Last, the
warning "Time from receiving all checkpoint barriers/RPC to executing it exceeded threshold" (1.12+):
the barriers had come, the task had no time for them.

What to do
----------
Barriers: remove the back pressure (CP201), unaligned checkpoints, buffer debloating. Synchronous part:
what runs in the task's thread at a snapshot. Asynchronous part: storage, network, state size.

False alarms
------------
None of its own: it explains what CP101 and CP104 found, and speaks only then.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final, NamedTuple

from flowdiag.analyses.checkpoints.culprit import answers, names_somebody
from flowdiag.analyses.checkpoints.rules.slow_checkpoint import slow_finding
from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.topology import topology_of

_NAMES: Final = {
    "barrier": "waiting for barriers",
    "sync": "the synchronous part",
    "async": "the asynchronous part",
}


class SlowHalf(h.Limits):
    """What CP203 compares with."""

    share: float = h.limit(0.5, "share", "a half that holds most of the time is the one to mend")


class Told(NamedTuple):
    """Which half it is, and what says so."""

    half: str
    title: str
    explain: str
    measurements: tuple[h.Measurement, ...] = ()
    evidence: tuple[h.Evidence, ...] = ()


def judge(job: h.Job, limits: SlowHalf) -> h.Iterator[h.Finding | h.Inconclusive]:
    """One finding, or one reason why not, per sick job."""
    series = [e for e in h.episodes(job) if e.count(h.Status.EXPIRED)]
    expired = [c for e in series for c in e.checkpoints if c.status is h.Status.EXPIRED]
    sick = expired or _slowest(job)
    if not sick:
        return
    told = (
        _by_durations(job, sick, limits)
        or (_by_shape(job) if expired else None)
        or _by_warnings(job, sick)
    )
    if told is None:
        yield h.Inconclusive(
            reason="no input says how long barriers, synchronous and asynchronous parts took",
            remedy="save /jobs/:id/checkpoints/details/:checkpoint/subtasks/:vertex, or log "
            "org.apache.flink.streaming.runtime.tasks at DEBUG"
            " (from 1.18 also org.apache.flink.runtime.checkpoint.CheckpointStatsTracker)",
            job=job.key,
        )
        return
    fields: h.FindingFields = {
        "title": told.title,
        "explain": told.explain,
        "rank": h.Rank.SYMPTOM,
        "option": told.half,
        "measurements": told.measurements,
        "evidence": tuple(dict.fromkeys((*told.evidence, *h.end_records(sick)))),
        "actions": _actions(job, told.half),
    }
    if expired:
        fields.update({"first_us": sick[0].triggered_us, "last_us": sick[-1].ended_us})
        yield h.episode_finding(job, series, len(sick), fatal=False, **fields)
    else:
        found = slow_finding(job)
        if found is not None:
            fields["severity"] = found.severity
        ongoing = found is None or found.state is h.State.ONGOING
        yield h.checkpoint_finding(job, sick, among=job.concluded, ongoing=ongoing, **fields)


def _slowest(job: h.Job) -> list[h.Checkpoint]:
    """The ten slowest of a job that CP104 finds slow, in order."""
    if slow_finding(job) is None:
        return []
    usual = [c for stretch in h.steady_checkpoints(job, h.WARM_UP) for c in stretch]
    slowest = sorted(usual, key=lambda c: -(c.duration_ms or 0))[:10]
    return sorted(slowest, key=lambda c: (c.triggered_us or 0, c.run, c.id))


def _last_rows(job: h.Job, sick: list[h.Checkpoint]) -> list[h.SubtaskCheckpoint]:
    """The subtask that acknowledged last, of each of the checkpoints that tells durations."""
    wanted = {c.id for c in sick}
    rows: defaultdict[int, list[h.SubtaskCheckpoint]] = defaultdict(list)
    for row in job.subtask_checkpoints:
        if row.checkpoint in wanted and row.sync_ms is not None and row.end_to_end_ms is not None:
            rows[row.checkpoint].append(row)
    return [
        max(members, key=lambda row: (row.end_to_end_ms or 0, row.subtask_index))
        for members in rows.values()
    ]


def _by_durations(job: h.Job, sick: list[h.Checkpoint], limits: SlowHalf) -> Told | None:
    """By what the subtasks measured themselves."""
    known = _last_rows(job, sick)
    # Of a failed checkpoint only those that acknowledged have durations: the last of them counts
    # if it was late itself.
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
    return Told(
        half,
        f"{h.fmt.percent(sums[half] / total)} of the checkpoints' time goes into {_NAMES[half]}",
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
    """How much of it went into the snapshot, as far as that was measured."""
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


def _by_shape(job: h.Job) -> Told | None:
    """By who acknowledged and who did not."""
    last = answers(job)[-10:]
    found = [answer.conviction for answer in last if answer.conviction is not None]
    known = [c.half for c in found if c.half in _NAMES and c.confidence is not h.Confidence.LOW]
    if not known:
        return None
    return Told(
        known[-1],
        f"The checkpoints' time goes into {_NAMES[known[-1]]}, by the shape of their acknowledgements",
        "No durations were found; which subtasks acknowledged and which did not says it: "
        "a stuck barrier is missing everywhere downstream, a slow snapshot in one place only.",
    )


def _by_warnings(job: h.Job, sick: list[h.Checkpoint]) -> Told | None:
    """By tasks that began a checkpoint half a minute after they had all its barriers (1.12+)."""
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
    return Told(
        "barrier",
        f"Tasks began a checkpoint up to {h.fmt.duration(longest)} after its barriers came",
        "Their thread was busy with something else all that time: records, timers, or a call that "
        "blocks. The default log does not name the task.",
        evidence=h.records_of(warned),
    )


# What the cause would be, were anybody convicted; its first remedy names nobody.
_ADVICE: Final = {
    "sync": ("slow-sync-snapshot", "thread"),
    "async": ("slow-async-snapshot", "storage"),
}


def _actions(job: h.Job, half: str) -> tuple[h.Action, ...]:
    if names_somebody(job):
        return (h.Action(text="Cure the culprit: CP201 names it, and what to do about its cause"),)
    if half == "barrier":
        back = h.Action(
            text="Find out where the barriers wait: flowdiag queues shows where back pressure begins",
            command="queues",
            verify="start delay and alignment fall",
        )
        return (back, *h.shared_remedies(job, "overtake-if-it-works"))
    cause, name = _ADVICE["sync" if half == "sync" else "async"]
    return (
        *h.remedies(cause, job, name),
        *(h.shared_remedies(job, "incremental") if half != "sync" else ()),
    )


RULE: Final = h.Rule("CP203", judge, SlowHalf)
