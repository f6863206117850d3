"""The adaptive scheduler repeatedly raises and lowers the parallelism of a job.

What it reports
---------------
The rule reports how often a job rescaled, between which parallelisms, and the most frequent reason: a TaskManager
that disappears and comes back, slots that appear, or changed requirements, for example by the autoscaler.

Why it matters
--------------
Each rescale stops the job and restores its state, and the job then processes some records again. Each restart
looks fine on its own.

How it decides
--------------
A rescale is a switch of the same job from CREATED to RUNNING with a different parallelism, or an entry in Flink's
rescale history. The rule reports at least `reversals` changes of direction, each at most `gap` after the previous
one. If a job grows step by step, the direction does not change. One lost and replaced TaskManager is not enough either.

False alarms
------------
A cluster on preemptible hosts rescales by design, at the cost of processing some records again.
"""

from collections import Counter
from itertools import pairwise
from typing import Final

from flowdiag.analyses.startup import autoscaling
from flowdiag.analyses.startup import helpers as h


class Limits(h.Limits):
    reversals: float = h.limit(
        3, "changes", "minimum number of direction changes; a lost TaskManager causes one or two"
    )
    gap: float = h.limit(
        900, "s", "maximum time between rescales; less frequent rescales cost little"
    )


def judge(job: h.JobStarting, limits: Limits) -> h.Iterator[h.Finding]:
    """Report the longest loop of each job."""
    loop = max(_loops(job.rescales, limits.gap), key=_reversals, default=[])
    if _reversals(loop) >= limits.reversals:
        yield _finding(job, loop, limits)


def _loops(rescales: tuple[h.Rescale, ...], gap_s: float) -> list[list[h.Rescale]]:
    """Split the rescales at gaps longer than `gap_s`."""
    found: list[list[h.Rescale]] = []
    for rescale in rescales:
        if not found or rescale.time_us - found[-1][-1].time_us > gap_s * 1_000_000:
            found.append([])
        found[-1].append(rescale)
    return found


def _reversals(loop: list[h.Rescale]) -> int:
    """Count how often the direction of rescaling changes."""
    up = [rescale.after > rescale.before for rescale in loop]
    return sum(one != other for one, other in pairwise(up))


def _frequent_taskmanager(loop: list[h.Rescale]) -> tuple[str | None, str | None, int]:
    """Return the TaskManager whose loss usually precedes a rescale, its host, and how often; 0 if there is none.

    The victims of a rolling restart differ.
    """
    lost = Counter((r.taskmanager, r.host) for r in loop if r.taskmanager or r.host)
    ((taskmanager, host), times) = lost.most_common(1)[0] if lost else ((None, None), 0)
    is_frequent = times >= 2 and times > lost.total() / 2
    return (taskmanager, host, times) if is_frequent else (None, None, 0)


def _finding(job: h.JobStarting, loop: list[h.Rescale], limits: Limits) -> h.Finding:
    taskmanager, host, times = _frequent_taskmanager(loop)
    named = times > 0
    scaled = autoscaling.events_of(job.cluster, job).get("report", [])
    widths = [loop[0].before, *(rescale.after for rescale in loop)]
    span = (loop[-1].time_us - loop[0].time_us) / 1000
    last_us = job.cluster.last_us or loop[-1].time_us
    ongoing = last_us - loop[-1].time_us <= limits.gap * 1_000_000
    place = h.fmt.place(taskmanager, host) if named else "a TaskManager"
    requested = sum(rescale.cause == "requirements" for rescale in loop)
    remedies = ["taskmanager", "cooldown", "stabilization"]
    if requested > len(loop) / 2:
        remedies = ["boundary", "cooldown"] if scaled else ["cooldown"]
    count = f"{len(loop)} rescales within {h.fmt.duration(span)}"
    repeated = f": {place} disappeared {h.fmt.plural(times, 'time')}" if named else ""
    return h.start_finding(
        job,
        ongoing=ongoing,
        severity=h.Severity.WARNING,
        subject=h.job_subject(job, "taskmanager", taskmanager=taskmanager, host=host)
        if named
        else None,
        title=f"{count}, between {min(widths)} and {max(widths)} slots" + repeated,
        why=repeated.removeprefix(": ") or count,
        cause="rescale-loop",
        rank=h.Rank.REPETITION,
        first_us=loop[0].time_us,
        last_us=loop[-1].time_us,
        count=len(loop),
        measurements=(
            h.measurement("rescales", len(loop), "rescales"),
            h.measurement("reversals", _reversals(loop), "changes", limits.reversals),
            h.measurement("requested-rescales", requested, "rescales"),
        ),
        evidence=h.cite((rescale.ref, rescale.time_us) for rescale in loop),
        ranked=True,
        actions=h.remedies("rescale-loop", job.job, *remedies, place=place),
    )


RULE: Final = h.Rule("ST401", judge, Limits, causes=("rescale-loop",), needs="rescales")
