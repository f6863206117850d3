"""Senders wait with full output buffers while the receivers' inputs are empty.

What it reports
---------------
A task that waits although its receivers have free input buffers and spare time.

Why it matters
--------------
Neither the sender nor the receivers are slow, so a higher parallelism or cheaper processing changes nothing.

How it decides
--------------
The rule follows the Flink project's table for locating back pressure. It requires Flink 1.9 or later, because the pool
usage metrics of these versions only count buffers in use. A sender must wait, with at least `output-usage` of its
output buffers in use. All receivers must use less than `input-usage` of their exclusive and floating buffers, be busy
for less than `busy` of the time, and have remote channels. The rule evaluates only periods with back pressure, with at
least `samples` samples. It reports nothing if a slow task or a late barrier explains why tasks wait.

What to do
----------
Check the network between these TaskManagers: bandwidth, retransmissions, throttled links, TLS. Also check the size
of the records, because each large record fills at least one buffer.

False alarms
------------
A receiver with few channels may get its data in bursts. The confidence is therefore at most medium.
"""

from flowdiag.analyses.flink.tasks.pressure import BUSY, FULL, PRESSED
from flowdiag.analyses.queues import helpers as h
from flowdiag.analyses.queues.detect.pools import full_senders, is_free, pool_usage


class Limits(h.Limits):
    output_usage: float = h.limit(
        FULL, "share", "minimum share of output buffers in use; half of them is normal"
    )
    input_usage: float = h.limit(
        0.3, "share", "maximum share of the receiver's input buffers in use; half of them is normal"
    )
    busy: float = h.limit(
        BUSY, "share", "maximum busy time of the receiver; a busier receiver may itself be slow"
    )
    samples: float = h.limit(5, "samples", "minimum number of samples; fewer may be misleading")


def judge(job: h.JobQueues, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield one finding per job and edge."""
    windows = h.pressed_windows(job)
    if not windows or not h.has_task_order(job) or (job.version or (9, 0)) < (1, 9):
        return
    if h.serious_spells(job) or h.awaits_barrier(job, windows):
        return  # a slow task or a late barrier explains why tasks upstream wait
    free = {"empty": limits.input_usage, "busy": limits.busy, "samples": limits.samples}
    grouped = h.by_task(h.loads_in(job, windows))
    for receiver in job.topology.tasks:
        receivers = grouped.get(receiver, [])
        if len(receivers) < max(1, job.topology.parallelism[receiver]):
            continue
        if not all(is_free(job, load, windows, **free) for load in receivers):
            continue
        fullest = max(pool_usage(job, load, windows, "in_pool")[0] for load in receivers)
        for sender in job.topology.upstream[receiver]:
            senders = full_senders(job, grouped.get(sender, ()), windows, limits.output_usage)
            if senders and len(job.topology.direct_successors(sender)) == 1:
                yield _finding(job, senders, receivers, windows, fullest)


def _finding(
    job: h.JobQueues,
    senders: list[h.Load],
    receivers: list[h.Load],
    windows: list[int],
    fullest: float,
) -> h.Finding:
    sender = senders[0].key.task
    places = {load.taskmanager for load in senders}
    alone = next(iter(places)) if len(places) == 1 and len(senders) > 1 else None
    most = max(min(load.back_pressured or 0.0, 1.0) for load in senders)
    waits, receives = h.fmt.shorten(sender), h.fmt.shorten(receivers[0].key.task)
    wait = h.fmt.plural(len(senders), f"subtask of {waits} waits", f"subtasks of {waits} wait")
    signals = {
        "outputs-full": f"{wait} up to {h.fmt.percent(most)} of the time",
        "inputs-empty": f"all {len(receivers)} subtasks of {receives} have free buffers",
        "one-taskmanager": f"all waiting subtasks are on {alone}" if alone else None,
    }
    votes = h.votes_for(signals, RULE.signals)
    ongoing = windows[-1] == job.windows[-1]
    shown = h.place_of(job, alone) if alone else waits
    return (h.taskmanager_finding if alone else h.task_finding)(
        job,
        alone or sender,
        severity=h.Severity.WARNING if ongoing else h.Severity.INFO,
        state=h.State.ONGOING if ongoing else h.State.RECOVERED,
        title=f"{waits} waits although {receives} has free buffers and is not busy",
        why=f"{shown}: {'; '.join(vote.text for vote in votes)}",
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
                over=f"fullest subtask of {receives}",
            ),
        ),
        evidence=h.cite(
            [*((load.wait, None) for load in senders), *((load.work, None) for load in receivers)]
        ),
        ranked=True,
        actions=h.remedies("slow-network", job.job),
        votes=votes,
    )


RULE = h.Rule("BP201", judge, Limits, causes=("slow-network",), needs="task-metrics")
