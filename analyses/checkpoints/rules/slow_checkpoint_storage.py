"""Writing the state is slow everywhere, or on one host.

What it reports
---------------
Asynchronous parts that are slow on (nearly) all subtasks with state, at an ordinary size: the storage
is slow or throttles. Or slow on all subtasks of one host only: its disk or its network.

Why it matters
--------------
It looks like "large state", and then people change the job, not the bucket's limits.

How it decides
--------------
From per-subtask details of the last checkpoints. A checkpoint counts when the median asynchronous part
of the subtasks with state reaches `async` and holds `share` of their end-to-end time, and the median
throughput stays below `throughput`. One host: the median on it is `times` that of all others, which are
fast. At least `checkpoints` must agree.

What to do
----------
Look at the storage's own metrics: throttled requests, latency, bandwidth. Fewer, larger files
(`state.storage.fs.memory-threshold` and its successors), entropy in the path for object stores, less state.

False alarms
------------
A state that doubled is not this: see CP105. Small states over slow links are. Unaligned checkpoints are
left out: their asynchronous part also waits for the barriers of all channels.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.finding import (
    Action,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    State,
    Subject,
    Vote,
    cite,
    grade,
    weigh,
)
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.flink.episodes import concluded, episodes
from flowdiag.analyses.flink.job import JobFacts, Status, SubtaskCheckpoint
from flowdiag.analyses.flink.kit import Job
from flowdiag.analyses.flink.options import option
from flowdiag.analyses.flink.pressure import median
from flowdiag.analyses.keys import Ref
from flowdiag.analyses.rule import Limits, Rule, Signal, limit


class SlowCheckpointStorageLimits(Limits):
    """What CP306 compares with."""

    async_: float = limit(5000.0, "ms", "a healthy store takes seconds only for gigabytes")
    share: float = limit(0.5, "share", "writing, not waiting, must be what takes the time")
    throughput: float = limit(
        5_242_880.0,
        "bytes per s",
        "5 MiB/s per subtask is far below what any disk or object store gives one stream",
    )
    times: float = limit(5.0, "ratio", "hosts differ by a factor of two when all is well")
    checkpoints: float = limit(2, "checkpoints", "one slow write is an accident")


def judge(job: Job, limits: SlowCheckpointStorageLimits) -> Iterator[Finding | Inconclusive]:
    """At most one finding per job."""
    if j.unaligned(job, job.checkpoints):
        return
    found = _judge(job, limits)
    if found is not None:
        yield found


def _judge(job: JobFacts, limits: SlowCheckpointStorageLimits) -> Finding | None:
    everywhere: list[tuple[int, float, float]] = []  # checkpoint, median ms, median bytes per s
    hosts: dict[str, list[tuple[int, float]]] = defaultdict(list)
    refs: list[Ref] = []
    by_checkpoint: dict[int, list[SubtaskCheckpoint]] = defaultdict(list)
    for row in job.subtask_checkpoints:
        if row.acknowledged and row.async_ms is not None and (row.bytes or 0) > 0:
            by_checkpoint[row.checkpoint].append(row)
    seen = 0
    for number, rows in sorted(by_checkpoint.items()):
        if len(rows) < 3:
            continue
        seen += 1
        slow = [row for row in rows if (row.async_ms or 0) >= limits.async_]
        middle = median(float(row.async_ms or 0) for row in rows) or 0.0
        share = median(
            (row.async_ms or 0) / max(1, row.end_to_end_ms or row.async_ms or 1) for row in rows
        )
        rate = median((row.bytes or 0) * 1000 / max(1, row.async_ms or 1) for row in rows) or 0.0
        if (
            len(slow) * 5 >= len(rows) * 4
            and middle >= limits.async_
            and (share or 0.0) >= limits.share
            and rate <= limits.throughput
        ):
            everywhere.append((number, middle, rate))
            refs += [row.ref for row in slow if row.ref is not None]
            continue
        host = _one_host(rows, limits)
        if host is not None:
            hosts[host].append((number, middle))
            refs += [row.ref for row in slow if row.ref is not None and row.taskmanager == host]
    need = limits.checkpoints
    if len(everywhere) >= need and len(everywhere) * 2 >= seen:
        return _finding(job, None, [n for n, _, _ in everywhere], refs, everywhere[-1][1], seen)
    for host, members in hosts.items():
        if len(members) >= need and len(members) * 2 >= seen:
            return _finding(job, host, [n for n, _ in members], refs, None, seen)
    return None


def _one_host(rows: list[SubtaskCheckpoint], limits: SlowCheckpointStorageLimits) -> str | None:
    places: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if row.taskmanager is not None:
            places[row.taskmanager].append(float(row.async_ms or 0))
    if len(places) < 2:
        return None
    ranked = sorted(places, key=lambda name: -min(places[name]))
    worst = ranked[0]
    others = [value for name in ranked[1:] for value in places[name]]
    # Two subtasks at least: one alone is a slow snapshot (CP201), not a slow host.
    if len(places[worst]) < 2 or min(places[worst]) < limits.async_:
        return None
    return worst if min(places[worst]) >= limits.times * max(1.0, max(others)) else None


def _finding(
    job: JobFacts,
    manager: str | None,
    checkpoints: list[int],
    refs: list[Ref],
    middle: float | None,
    seen: int,
) -> Finding:
    series = episodes(job)
    ongoing = (
        bool(checkpoints)
        and checkpoints[-1]
        >= max((c.id for c in job.checkpoints if c.status is not Status.IN_FLIGHT), default=0) - 1
    )
    state = State.ONGOING if ongoing else State.RECOVERED
    host = next((a.host for a in job.attempts if a.taskmanager == manager and a.host), None)
    place = j.place_text(manager, host)
    vote = (
        Vote(
            signal="slow-everywhere",
            says=f"the median asynchronous part took {j.duration_text(middle)}",
            weight=3,
        )
        if manager is None
        else Vote(
            signal="slow-on-one-host",
            says=f"all subtasks on {place} write slowly, all others fast",
            weight=3,
        )
    )
    cited = cite((ref, None) for ref in refs)
    fatal = j.fatal_at_end(job, series) and any(
        c.id in checkpoints for e in series[-1:] for c in e.checkpoints
    )
    return Finding(
        job=job.key,
        severity=grade(
            state=state, share=len(checkpoints) / max(1, len(concluded(job))), fatal=fatal
        ),
        state=state,
        subject=j.job_subject(job)
        if manager is None
        else Subject(
            kind="taskmanager",
            job_id=job.key.job_id or None,
            job_name=job.name,
            taskmanager=manager,
            host=host,
        ),
        title=(
            f"Writing state is slow on all subtasks: {j.duration_text(middle)} in the median"
            if manager is None
            else f"Writing state is slow on {place} and nowhere else"
        ),
        why=vote.says if manager is None else f"{place}: {vote.says}",
        cause="slow-checkpoint-storage" if manager is None else "slow-taskmanager",
        confidence=weigh([vote]),
        rank=Rank.SHARED_MECHANISM,
        count=len(checkpoints),
        explain=(
            "Synchronous parts and barriers are fast; the time goes into writing, and little is written."
        ),
        measurements=(
            Measurement(
                name="slow-checkpoints",
                value=len(checkpoints),
                unit="checkpoints",
                population=f"{seen} with per-subtask details",
            ),
            *(
                (Measurement(name="median-asynchronous-part", value=middle, unit="ms"),)
                if middle is not None
                else ()
            ),
        ),
        evidence=cited,
        ranked=True,
        actions=(
            Action(
                text="Look at the storage's own metrics: throttled requests, latency, bandwidth"
                if manager is None
                else f"Look at the disk and the network of {place}",
                verify="asynchronous durations of a second or less per 100 MB",
            ),
            Action(
                text="Write fewer, larger files",
                option=option("inline-threshold", job.version),
                proposed="100kb",
                risk="larger checkpoint metadata",
                restart_needed=True,
            ),
        ),
        votes=(vote,),
    )


RULE: Final = Rule(
    "CP306",
    judge,
    SlowCheckpointStorageLimits,
    signals=(
        Signal("slow-everywhere", 3, "nearly all subtasks with state write slowly"),
        Signal("slow-on-one-host", 3, "all subtasks on one host write slowly, all others fast"),
    ),
)
