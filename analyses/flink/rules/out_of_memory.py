"""A process ran out of memory.

What it reports
---------------
The rule reports OutOfMemoryErrors by pool (heap, metaspace, direct, threads). It also reports containers
that the cluster killed for their memory use (OOMKilled, exit code 137, YARN's physical memory limit). The
finding shows the TaskManager, the kind of memory, and the option to change. `flowdiag memory` calculates a
value.

Why it matters
--------------
The visible symptoms are a lost TaskManager, a suspended coordinator or failed checkpoints. The reason is logged
only once, often at INFO, or only in the cluster's report on the container. Each pool has its own option. If a
container is killed because of its native memory, a larger heap only makes it fail sooner.

How it decides
--------------
The rule reads the error or the container's diagnostics, including the output of `kubectl describe` and
garbage collection logs. It takes the kind of memory from the hint that Flink appends (1.11+), or else from
the error itself. Running out of memory outranks the lost TaskManager that follows. The finding is critical
if the job failed for good or restarts without success until the end of the logs. Otherwise, the severity
depends on the age and the number of the errors.

`flowdiag memory` proposes to enlarge the pool by `heap-step`, `metaspace-step`, `direct-step` or `overhead-step`.
It calculates the values with Flink's own memory model. If at least `heap-left` of the heap remains, the process
size stays the same. Otherwise, the finding shows by how much the process grows.

What to do
----------
Enlarge the pool that ran out. A larger heap does not help the other pools. The proposed value is a first step. If
you suspect a memory leak, take a heap dump instead of adding memory.

False alarms
------------
If user code catches and logs an OutOfMemoryError, the rule reports it only if a task fails at that time.
`kubectl delete` and a lost node also leave exit code 137, so the rule checks the reason too.
"""

from functools import singledispatch
from typing import Any, Final

from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.advice.exception_texts import exception_measurements
from flowdiag.analyses.flink.advice.memory_pools import POOLS
from flowdiag.analyses.flink.advice.memory_processes import (
    TASKMANAGER,
    amounts_in,
    explanation_of,
    has_job,
    memory_actions,
    process_of_incident,
    title_of,
)
from flowdiag.analyses.flink.failures.crises import classify_incident, memory_kind


class Limits(h.Limits):
    heap_step: float = h.limit(
        0.25, "share", "proposed heap increase; measure again after the change"
    )
    metaspace_step: float = h.limit(0.5, "share", "proposed metaspace increase; the pool is small")
    direct_step: float = h.limit(
        128, "MiB", "proposed direct memory increase; the framework's default is 128 MiB"
    )
    overhead_step: float = h.limit(
        0.5, "share", "proposed overhead increase; native memory is not measured"
    )
    heap_left: float = h.limit(
        0.75, "share", "minimum share of the heap to keep, so that it does not run out next"
    )


@singledispatch
def judge(facts: Any, limits: Limits) -> h.Iterator[h.Finding]:
    """Report each TaskManager and kind of memory, based on the facts of the topic."""
    raise TypeError(f"no topic judges {type(facts).__name__}")


@judge.register
def judge_crises(facts: h.ClusterFacts, limits: Limits) -> h.Iterator[h.Finding]:
    """Report each job, TaskManager and kind of memory, based on the job's crises."""
    jobs = h.jobs_of(facts)
    for (number, place, kind), group in _by_process(jobs).items():
        job, last, pool = jobs[number], group[-1], POOLS[kind]
        root = last.root.incident
        process = process_of_incident(root)
        of_worker = process is TASKMANAGER
        where = h.fmt.place(root.taskmanager, root.host) if of_worker else process.what
        text = h.exception_text(root.cause)
        lost = root.taskmanager is not None and any(
            root.taskmanager in (f.incident.taskmanager, f.incident.text.get("lost_taskmanager"))
            for f in last.of_kind("taskmanager-lost")
        )
        votes = h.votes_for(
            {
                "memory-error": text or "killed for using too much memory",
                "taskmanager-lost-after": f"{where} was lost right afterwards" if lost else None,
            },
            RULE.signals,
        )
        yield h.crisis_finding(
            job,
            group,
            subject=h.taskmanager_subject(
                job, *((root.taskmanager, root.host) if of_worker else (None, None))
            ),
            title=(
                title_of(kind, where, of_worker=of_worker)
                + amounts_in(root.cause)
                + (h.outcome_text(last) if has_job(process) else "")
            ),
            why=f"{where}: {h.fmt.shorten(text, 120)}" if place is not None else None,
            cause="out-of-memory",
            confidence=h.weigh(votes),
            rank=h.Rank.FATAL,
            option=h.option(pool.option, job.version) if pool.option and of_worker else None,
            explain=f"{explanation_of(kind, process)} Later failures are consequences.".strip(),
            measurements=(
                h.measurement("memory-errors", len(group), "times", over=kind),
                *exception_measurements(classify_incident(root)),
            ),
            actions=memory_actions(job, root, kind),
            votes=votes,
        )


def _by_process(
    jobs: h.Sequence[h.Job],
) -> dict[tuple[int, str | None, str], list[h.Crisis]]:
    """Group the crises of all jobs by job, process and kind of memory.

    An error without a kind belongs to the kind that ran out in the same process: other threads hit the same limit.
    """
    groups: dict[tuple[int, str | None, str], list[h.Crisis]] = {}
    for number, job in enumerate(jobs):
        for crisis in job.crises:
            if crisis.kind == "out-of-memory":
                root = crisis.root.incident
                key = (number, root.taskmanager or root.host, memory_kind(root))
                groups.setdefault(key, []).append(crisis)
    for number, place, kind in [key for key in groups if key[2] == "unknown" and key[1]]:
        known = [key for key in groups if key[:2] == (number, place) and key[2] != kind]
        if known:
            groups[known[0]] = [*groups.pop((number, place, kind)), *groups[known[0]]]
    return groups


RULE: Final = h.Rule(
    "CP303",
    judge,
    Limits,
    whole=True,
    causes=("out-of-memory",),
    needs="dated-records",
    severity=h.Severity.CRITICAL,
)
