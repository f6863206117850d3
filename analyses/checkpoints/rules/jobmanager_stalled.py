"""The JobManager paused.

What it reports
---------------
Pauses of the JobManager: the heartbeats of most TaskManagers timed out together although the TaskManagers were
healthy, or a checkpoint expired long after its timeout.

Why it matters
--------------
A JobManager may pause because of garbage collection, a full disk, slow high-availability storage or a frozen
virtual machine. The log then shows many lost TaskManagers and expired checkpoints, although the hosts that the log
names are healthy.

How it decides
--------------
Any of these is enough:

- The heartbeats of at least `taskmanagers` TaskManagers, and of at least `share` of all TaskManagers, time out
  within `window`. A TaskManager that registers again under the same ID was never lost, which raises the
  confidence.
- A checkpoint expires too late, by at least `overdue` and at least `overdue-share` of the timeout. The timer runs
  in the JobManager, so no other process can delay it.
- No checkpoint is in progress for at least `caught-up-gap` intervals. Then at least `caught-up` of the missed
  checkpoints are triggered within a single interval. The timer triggers at a fixed rate, so it catches up after a
  pause.

A gap of `gap` intervals between checkpoints, without a restart and without a checkpoint in progress, is an
additional hint. A gap alone proves nothing, because sources that read a backlog may turn checkpoints off.

What to do
----------
Check the JobManager's garbage collection log, memory and host, and the latency of the high-availability and
checkpoint storage.

False alarms
------------
A network partition between the JobManager and its TaskManagers looks the same in the JobManager's log. The
TaskManagers' logs distinguish the two.
"""

from typing import Final

from flowdiag.analyses.checkpoints import stalls
from flowdiag.analyses.flink import helpers as h


class Limits(h.Limits):
    taskmanagers: float = h.limit(
        3, "taskmanagers", "minimum number of TaskManagers that time out; two may fail by chance"
    )
    share: float = h.limit(
        0.6, "share", "minimum share of TaskManagers that time out; a stall affects most of them"
    )
    window: float = h.limit(
        10_000.0, "ms", "maximum time between the timeouts; each heartbeat interval has one check"
    )
    overdue: float = h.limit(
        10_000.0, "ms", "minimum delay of an expiry; healthy timers are at most seconds late"
    )
    overdue_share: float = h.limit(
        0.25, "share", "minimum delay as a share of the timeout; seconds mean little if it is long"
    )
    caught_up: float = h.limit(
        0.5, "share", "minimum share of the missed triggers that follow in a burst after the gap"
    )
    caught_up_gap: float = h.limit(
        3.0, "intervals", "minimum gap before a burst, in intervals; a pause causes up to two"
    )
    gap: float = h.limit(
        10.0, "intervals", "minimum gap without a burst, in intervals; pauses cause two or three"
    )


def judge(job: h.Job, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield at most one finding per job."""
    found = stalls.Stalls(
        lapses=stalls.lapse_groups(
            job,
            taskmanagers=limits.taskmanagers,
            share=limits.share,
            together_ms=limits.window,
        ),
        overdue=stalls.overdue_expiries(job, overdue_ms=limits.overdue, share=limits.overdue_share),
        bursts=stalls.catch_up_bursts(job, intervals=limits.caught_up_gap, share=limits.caught_up),
        gaps=stalls.unexplained_gaps(job, intervals=limits.gap),
    )
    if not found.count:
        return
    votes = h.votes_for(stalls.signal_texts(job, found, limits.window), RULE.signals)
    times = [time_us for _, time_us in found.records if time_us is not None]
    recovered = job.completed_after(max(times, default=0))
    state = h.State.RECOVERED if recovered else h.State.ONGOING
    explain = "The checkpoint timers run in the JobManager, so only the JobManager can delay them."
    if found.lapses:
        explain = (
            "If most heartbeats time out in the same round, either the JobManager paused, "
            "or the network to it failed."
        )
    over = f"{stalls.count_taskmanagers(job)} TaskManagers"
    most = max(map(len, found.lapses), default=0)
    numbers = (
        ("heartbeats-together", most, "taskmanagers", limits.taskmanagers, over),
        ("unexplained-gaps", len(found.gaps), "gaps"),
    )
    yield h.job_finding(
        job,
        subject=h.Subject(kind="process", job_id=job.key.job_id or None, job_name=job.name),
        state=state,
        severity=h.grade(state=state, share=found.count / max(1, len(job.checkpoints))),
        title=f"The JobManager paused: {votes[0].text}",
        why=f"the JobManager: {votes[0].text}",
        cause="jobmanager-stalled",
        confidence=h.weigh(votes),
        rank=h.Rank.STALL,
        first_us=min(times, default=None),
        last_us=max(times, default=None),
        count=found.count,
        explain=explain,
        measurements=tuple(h.measurement(*row) for row in numbers),
        evidence=h.cite([*found.records, *found.gap_triggers]),
        ranked=True,
        actions=h.remedies("jobmanager-stalled", job),
        votes=votes,
    )


RULE: Final = h.Rule("CP305", judge, Limits, causes=("jobmanager-stalled",), needs="dated-records")
