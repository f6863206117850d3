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
any sender with full output buffers (85 %) that waits, all receivers with less than 30 % of exclusive and
floating buffers in use, none of them busy, and remote channels between. Over all windows in which the
sender waits, five samples at least.

What to do
----------
Look at the network between these TaskManagers: bandwidth, retransmissions, a throttled link, TLS; and at
the size of records, since large ones fill a buffer each.

False alarms
------------
A receiver with few channels may be fed in bursts; hence the confidence is medium at most.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.finding import (
    Action,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    Severity,
    State,
    Vote,
    cite,
    weigh,
)
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.flink.pressure import BUSY, ENOUGH_SAMPLES, FULL, Load, by_task
from flowdiag.analyses.queues.facts import JobQueues, joined
from flowdiag.analyses.queues.judging import host_of, machine, serious, task
from flowdiag.analyses.queues.root import (
    linked,
    loads_in,
    pressed_windows,
    samples_in,
)
from flowdiag.analyses.rule import Limits, Rule, Signal, limit


class NetworkBottleneckLimits(Limits):
    """What BP201 compares with."""

    empty: float = limit(0.3, "share", "of the input buffers; half full is their usual state")


def judge(job: JobQueues, limits: NetworkBottleneckLimits) -> Iterator[Finding | Inconclusive]:
    """One finding per job and edge."""
    windows = pressed_windows(job)
    if not windows or not linked(job) or (job.version or (9, 0)) < (1, 9):
        return
    if serious(job):
        return  # a slow task explains what waits before it
    yield from _edges(job, windows, limits.empty)


def _edges(job: JobQueues, windows: list[int], empty: float) -> Iterator[Finding]:
    grouped = by_task(loads_in(job, windows))
    for name in job.topology.tasks:
        receivers = grouped.get(name, [])
        if len(receivers) < max(1, job.topology.parallelism[name]):
            continue
        if not all(_free(job, load, windows, empty) for load in receivers):
            continue
        for before in job.topology.upstream[name]:
            senders = [
                load
                for load in grouped.get(before, [])
                if load.waits and load.wait_measured and _output(job, load, windows) >= FULL
            ]
            if senders and len(job.topology.next_to(before)) == 1:
                yield _finding(job, before, name, senders, receivers, windows)


def _usage(job: JobQueues, load: Load, windows: list[int], name: str) -> tuple[float, int]:
    gauge = joined(s.gauges.get(name) for s in samples_in(job, windows).get(load.key, ()))
    return (gauge.mean, gauge.n) if gauge is not None else (-1.0, 0)


def _output(job: JobQueues, load: Load, windows: list[int]) -> float:
    return _usage(job, load, windows, "out_pool")[0]


def _free(job: JobQueues, load: Load, windows: list[int], empty: float) -> bool:
    """Whether a receiver has buffers and time, and reads from remote producers at all."""
    capacity = job.capacity.get(load.key)
    if capacity is None or not capacity.remote or load.waits:
        return False
    if not load.measured or load.busy is None or load.busy >= BUSY:
        return False
    usage, samples = _usage(job, load, windows, "in_pool")
    return samples >= ENOUGH_SAMPLES and 0 <= usage < empty


def _finding(
    job: JobQueues,
    before: str,
    name: str,
    senders: list[Load],
    receivers: list[Load],
    windows: list[int],
) -> Finding:
    places = {load.taskmanager for load in senders}
    alone = next(iter(places)) if len(places) == 1 and len(senders) > 1 else None
    most = max(min(load.pressed or 0.0, 1.0) for load in senders)
    votes = [
        Vote(
            signal="outputs-full",
            says=f"{j.count_text(len(senders), 'subtask')} of {j.shorten(before)} wait up to {100 * most:.0f} %",
            weight=1,
        ),
        Vote(
            signal="inputs-empty",
            says=f"all {len(receivers)} subtasks of {j.shorten(name)} have free buffers",
            weight=1,
        ),
    ]
    if alone is not None:
        votes.append(
            Vote(signal="one-taskmanager", says=f"those that wait are all on {alone}", weight=1)
        )
    ongoing = windows[-1] == job.windows[-1]
    return Finding(
        job=job.job.key,
        severity=Severity.WARNING if ongoing else Severity.INFO,
        state=State.ONGOING if ongoing else State.RECOVERED,
        subject=machine(job, alone) if alone else task(job, before),
        title=f"{j.shorten(before)} waits although {j.shorten(name)} has free buffers and time",
        why=f"{j.place_text(alone, host_of(job, alone)) if alone else j.shorten(before)}: "
        + "; ".join(vote.says for vote in votes),
        cause="slow-network",
        confidence=weigh(votes),
        rank=Rank.MECHANISM,
        count=len(windows),
        explain="Neither end is slow: what is between them is, or records come in bursts that a buffer "
        "does not hold.",
        measurements=(
            Measurement(name="back-pressured", value=round(most, 4), unit="share", threshold=0.5),
            Measurement(
                name="input-buffers-in-use",
                value=round(max(_usage(job, load, windows, "in_pool")[0] for load in receivers), 4),
                unit="share",
                population=f"fullest subtask of {j.shorten(name)}",
            ),
        ),
        evidence=cite((load.ref, None) for load in (*senders, *receivers)),
        ranked=True,
        actions=(
            Action(
                text="Measure the network between these TaskManagers: bandwidth, retransmissions, limits "
                "of the container or of the link"
            ),
            Action(text="Look at the size of records: one larger than a buffer fills several"),
        ),
        votes=tuple(votes),
    )


RULE: Final = Rule(
    "BP201",
    judge,
    NetworkBottleneckLimits,
    signals=(
        Signal("outputs-full", 1, "a sender waits, and its output buffers are in use"),
        Signal("inputs-empty", 1, "all receivers have free buffers, and time"),
        Signal("one-taskmanager", 1, "all the senders that wait are on one TaskManager"),
    ),
)
