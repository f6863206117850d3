"""Many threads of a TaskManager have similar names, or their number grows.

What it reports
---------------
Threads whose names differ only in numbers, such as `pool-812-thread-1`, in the thread dumps of a TaskManager.

Why it matters
--------------
If code creates a thread pool or a client per record or per restart and never closes it, the threads remain. Each
thread uses memory. In the end, the process reaches its thread limit (`unable to create native thread`).

How it decides
--------------
Threads whose names differ only in numbers form a group. Flink's own threads are left out. The rule reports the largest
group if it has at least `group-size` threads. A group of at least `growing-group` threads counts as well if it grew by
at least `growth` from the first dump to the last one.

False alarms
------------
A thread pool may be that large on purpose.
"""

from flowdiag.analyses.queues import helpers as h
from flowdiag.analyses.stacks import Stack, evidence_of


class Limits(h.Limits):
    group_size: float = h.limit(
        500, "threads", "minimum number of threads in a group; most threads of such a group wait"
    )
    growing_group: float = h.limit(
        100, "threads", "minimum number of threads in a growing group; pools are smaller"
    )
    growth: float = h.limit(
        20, "threads", "minimum growth between two dumps; pools fill more slowly"
    )


def judge(job: h.JobQueues, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield one finding per TaskManager with a large or growing group of threads."""
    for name, stacks in _by_taskmanager(job).items():
        first, last = stacks[0], stacks[-1]
        grown = last.crowd - first.crowd if first.crowd_name == last.crowd_name else 0
        if last.crowd < limits.group_size and (
            last.crowd < limits.growing_group or grown < limits.growth
        ):
            continue
        place = h.place_of(job, name)
        more = f", {grown} more than in the first dump" if grown > 0 else ""
        yield h.taskmanager_finding(
            job,
            name,
            severity=h.Severity.WARNING,
            title=f"{place} has {last.crowd} threads named {last.crowd_name}{more}",
            why=f"{place} has {last.crowd} threads named {last.crowd_name}{more}",
            cause="thread-leak",
            rank=h.Rank.ROOT_CAUSE,
            first_us=first.time_us,
            last_us=last.time_us,
            measurements=(
                h.measurement("similar-threads", last.crowd, "threads", limits.group_size),
                h.measurement("threads", last.threads, "threads", over="in the last dump"),
            ),
            evidence=h.cite((evidence_of(each), None) for each in (first, last) if each.ref),
            actions=h.remedies("thread-leak", job.job),
        )


def _by_taskmanager(job: h.JobQueues) -> dict[str, list[Stack]]:
    """Return, by TaskManager and in time order, one thread for each dump that shows a group of threads."""
    found: dict[str, dict[str, Stack]] = {}
    for stack in job.job.stacks:
        if stack.taskmanager is not None and stack.crowd:
            found.setdefault(stack.taskmanager, {}).setdefault(stack.dump, stack)
    return {
        name: sorted(dumps.values(), key=lambda each: each.time_us or 0)
        for name, dumps in found.items()
    }


RULE = h.Rule("BP108", judge, Limits, causes=("thread-leak",), needs="stacks")
