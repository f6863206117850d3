"""Output buffers are full and the inputs behind them empty.

What it reports
---------------
A task that waits although those who read from it have empty inputs and time.

Why it matters
--------------
Neither task is slow: more subtasks or cheaper records change nothing.

How it decides
--------------
Flink's own table for localising back pressure (1.9 and later, whose pools count what is really used):
any sender that waits with output buffers `full`, all receivers with less than `empty` of exclusive and
floating buffers in use, none of them `busy`, and remote channels between. Over all windows in which the
sender waits, `samples` at least.

What to do
----------
Look at the network between these TaskManagers: bandwidth, retransmissions, a throttled link, TLS; and at
the size of records, since large ones fill a buffer each.

False alarms
------------
A receiver with few channels may be fed in bursts; hence the confidence is medium at most.
"""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.flink.pressure import BUSY, FULL, PRESSED
from flowdiag.analyses.queues import helpers as h

_SIGNALS: Final = (
    h.Signal("outputs-full", 1, "a sender waits, and its output buffers are in use"),
    h.Signal("inputs-empty", 1, "all receivers have free buffers, and time"),
    h.Signal("one-taskmanager", 1, "all the senders that wait are on one TaskManager"),
)


class Bottleneck(h.Limits):
    """What BP201 compares with."""

    full: float = h.limit(FULL, "share", "of the output buffers; half full is their usual state")
    empty: float = h.limit(0.3, "share", "of the input buffers; half full is their usual state")
    busy: float = h.limit(BUSY, "share", "of the time; a receiver that works so much may be slow")
    samples: float = h.limit(5, "samples", "single ones are racy")


def judge(job: h.JobQueues, limits: Bottleneck) -> h.Iterator[h.Finding]:
    """One finding per job and edge."""
    windows = h.pressed_windows(job)
    if not windows or not h.linked(job) or (job.version or (9, 0)) < (1, 9):
        return
    if h.serious(job) or h.awaits_barrier(job, windows):
        return  # a slow task, or a barrier that does not come, explains what waits before it
    grouped = h.by_task(h.loads_in(job, windows))
    for name in job.topology.tasks:
        receivers = grouped.get(name, [])
        if len(receivers) < max(1, job.topology.parallelism[name]):
            continue
        if not all(_free(job, load, windows, limits) for load in receivers):
            continue
        for before in job.topology.upstream[name]:
            senders = [
                load
                for load in grouped.get(before, [])
                if load.waits
                and load.wait_measured
                and _usage(job, load, windows, "out_pool")[0] >= limits.full
            ]
            if senders and len(job.topology.next_to(before)) == 1:
                yield _finding(job, before, name, senders, receivers, windows)


def _usage(job: h.JobQueues, load: h.Load, windows: list[int], name: str) -> tuple[float, int]:
    gauge = h.joined(s.gauges.get(name) for s in h.samples_in(job, windows).get(load.key, ()))
    return (gauge.mean, gauge.n) if gauge is not None else (-1.0, 0)


def _free(job: h.JobQueues, load: h.Load, windows: list[int], limits: Bottleneck) -> bool:
    """Whether a receiver has buffers and time, and reads from remote producers at all."""
    capacity = job.capacity.get(load.key)
    if capacity is None or not capacity.remote or load.waits:
        return False
    if not load.measured or load.busy is None or load.busy >= limits.busy:
        return False
    usage, samples = _usage(job, load, windows, "in_pool")
    return samples >= limits.samples and 0 <= usage < limits.empty


def _finding(
    job: h.JobQueues,
    before: str,
    name: str,
    senders: list[h.Load],
    receivers: list[h.Load],
    windows: list[int],
) -> h.Finding:
    places = {load.taskmanager for load in senders}
    alone = next(iter(places)) if len(places) == 1 and len(senders) > 1 else None
    most = max(min(load.pressed or 0.0, 1.0) for load in senders)
    fullest = max(_usage(job, load, windows, "in_pool")[0] for load in receivers)
    waits, takes = h.fmt.shorten(before), h.fmt.shorten(name)
    subtasks = h.fmt.plural(len(senders), "subtask")
    votes = h.votes_for(
        {
            "outputs-full": f"{subtasks} of {waits} wait up to {h.fmt.percent(most)}",
            "inputs-empty": f"all {len(receivers)} subtasks of {takes} have free buffers",
            "one-taskmanager": f"those that wait are all on {alone}" if alone else None,
        },
        _SIGNALS,
    )
    ongoing = windows[-1] == job.windows[-1]
    of_place = h.taskmanager_finding if alone else h.task_finding
    return of_place(
        job,
        alone or before,
        severity=h.Severity.WARNING if ongoing else h.Severity.INFO,
        state=h.State.ONGOING if ongoing else h.State.RECOVERED,
        title=f"{waits} waits although {takes} has free buffers and time",
        why=f"{h.place_of(job, alone) if alone else waits}: "
        + "; ".join(vote.text for vote in votes),
        cause="slow-network",
        confidence=h.weigh(votes),
        rank=h.Rank.MECHANISM,
        count=len(windows),
        measurements=(
            h.measurement("back-pressured", round(most, 4), "share", PRESSED),
            h.measurement(
                "input-buffers-in-use",
                round(fullest, 4),
                "share",
                over=f"fullest subtask of {takes}",
            ),
        ),
        evidence=h.cite(
            (told, None)
            for told in (*(load.wait for load in senders), *(load.work for load in receivers))
        ),
        ranked=True,
        actions=h.remedies("slow-network", job.job),
        votes=votes,
    )


RULE: Final = h.Rule(
    "BP201",
    judge,
    Bottleneck,
    signals=_SIGNALS,
    causes=("slow-network",),
)
