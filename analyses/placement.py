"""Whether late subtasks gather on one TaskManager more than their placement explains.

One observation is one distinct subtask. Within each vertex the late subtasks are thought to be
drawn at random from all subtasks of that vertex, so that a TaskManager with many subtasks is
expected to have many late ones, and a vertex that is late as a whole (downstream of the culprit)
says nothing about any TaskManager. The number of late subtasks on a TaskManager is then a sum of
independent hypergeometric variables, one per vertex, whose upper tail is computed exactly.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from flowdiag.analyses.facts import Attempt, JobFacts

MIN_LATE: Final = 5
"""Below five distinct late subtasks no p is given: it could not be small."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One TaskManager's part in the lateness.

    `expected`, `ratio` (late / expected) and `p_value` (one-sided, corrected for the number of
    TaskManagers) are None where the placement of the other subtasks is not known.
    """

    taskmanager: str
    host: str | None
    subtasks: int
    late: int
    expected: float | None = None
    ratio: float | None = None
    p_value: float | None = None


def shares(job: JobFacts) -> tuple[Share, ...]:
    """The TaskManagers of a job, the most conspicuous first.

    A subtask stands where its late attempt ran, else where its last attempt ran. TaskManagers that
    only a host names (logs before 1.8) are called by it.
    """
    late = {_subtask(item.attempt): item.attempt for item in job.late}
    placed: dict[tuple[str, int], Attempt] = {}
    for attempt in sorted(job.attempts, key=_age):
        placed[_subtask(attempt)] = attempt
    placed.update(late)
    placed = {
        subtask: attempt
        for subtask, attempt in placed.items()
        if subtask[1] >= 0 and _label(attempt) is not None
    }
    hosts = {_label(attempt): attempt.host for attempt in placed.values() if attempt.host}
    vertices: defaultdict[str, Counter[str]] = defaultdict(Counter)
    late_of: Counter[str] = Counter()
    late_on: Counter[str] = Counter()
    for subtask, attempt in placed.items():
        label = _label(attempt) or ""
        vertices[subtask[0]][label] += 1
        if subtask in late:
            late_of[subtask[0]] += 1
            late_on[label] += 1
    complete = all(_complete(task, placed) for task in late_of)
    rows = []
    labels = sorted({label for counts in vertices.values() for label in counts})
    for label in labels:
        subtasks = sum(counts[label] for counts in vertices.values())
        expected = ratio = p_value = None
        if complete and late_of:
            draws = [
                (vertices[task].total(), number, vertices[task][label])
                for task, number in sorted(late_of.items())
            ]
            expected = sum(number * here / total for total, number, here in draws)
            ratio = late_on[label] / expected if expected else None
            if late_of.total() >= MIN_LATE:
                p_value = min(1.0, upper_tail(draws, late_on[label]) * len(labels))
        rows.append(
            Share(
                taskmanager=label,
                host=hosts.get(label),
                subtasks=subtasks,
                late=late_on[label],
                expected=None if expected is None else round(expected, 3),
                ratio=None if ratio is None else round(ratio, 3),
                p_value=None if p_value is None else float(f"{p_value:.3g}"),
            )
        )
    return tuple(sorted(rows, key=lambda row: (-row.late, -(row.ratio or 0), row.taskmanager)))


def upper_tail(draws: Iterable[tuple[int, int, int]], observed: int) -> float:
    """Probability of at least `observed` late subtasks on one TaskManager.

    Args:
        draws: per vertex (subtasks, late subtasks, subtasks on this TaskManager).
        observed: late subtasks on this TaskManager.

    >>> upper_tail([(4, 1, 1)], 1)
    0.25
    """
    distribution = [1.0]
    for total, late, here in draws:
        ways = math.comb(total, late)
        single = [
            math.comb(here, k) * math.comb(total - here, late - k) / ways
            for k in range(min(here, late) + 1)
        ]
        distribution = _convolve(distribution, single)
    return min(1.0, math.fsum(distribution[observed:]))


def _convolve(a: Sequence[float], b: Sequence[float]) -> list[float]:
    out = [0.0] * (len(a) + len(b) - 1)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            out[i + j] += x * y
    return out


def _complete(task: str, placed: Mapping[tuple[str, int], Attempt]) -> bool:
    """Whether every subtask of a task is placed: else the seen ones are just the late ones."""
    seen = [attempt for (name, _), attempt in placed.items() if name == task]
    parallelism = max((attempt.parallelism or 0 for attempt in seen), default=0)
    return 0 < parallelism <= len(seen)


def _subtask(attempt: Attempt) -> tuple[str, int]:
    index = attempt.subtask_index
    return (attempt.task or attempt.vertex_id or "", -1 if index is None else index)


def _label(attempt: Attempt) -> str | None:
    return attempt.taskmanager or attempt.host


def _age(attempt: Attempt) -> tuple[int, int, str]:
    return (attempt.deployed_us or 0, attempt.attempt or 0, attempt.attempt_id)
