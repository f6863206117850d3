"""Merges the findings of one rule that many subjects share into one finding about all of them.

A rule judges one TaskManager or subtask at a time. With the same problem on 500 TaskManagers, it yields 500 findings,
which are too many to read. `merge_fleets` keeps the worst subject and counts the others. A subject that stands out
from the rest keeps a separate finding.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from statistics import median
from typing import Final

from flowdiag.analyses.model.finding import (
    MAX_CITED,
    Finding,
    Measurement,
    RuleOutcome,
    State,
    Subject,
)
from flowdiag.analyses.model.keys import JobKey

FLEET: Final = 6  # minimum number of findings; up to five still fit on a screen
STANDS_OUT: Final = 2.0  # minimum ratio to the median of all
_MOST_APART: Final = 3  # maximum number of subjects that stand out
_NOUNS: Final = {
    "taskmanager": "TaskManager",
    "subtask": "subtask",
    "host": "host",
    "executor": "executor",
    "receiver": "receiver",
    "partition": "partition",
    "vertex": "task",
    "process": "process",
}
"""The noun for each kind of subject. Other kinds are never merged."""

Population = Callable[[JobKey | None, str], int | None]
"""A function that returns how many subjects of a kind a job has, or None if unknown."""


def merge_fleets(
    outcomes: Iterable[RuleOutcome], population: Population
) -> tuple[RuleOutcome, ...]:
    """Merge findings with the same rule, job, cause and kind of subject, if there are at least `FLEET`."""
    return tuple(_merge_outcome(outcome, population) for outcome in outcomes)


def _merge_outcome(outcome: RuleOutcome, population: Population) -> RuleOutcome:
    if len(outcome.findings) < FLEET:
        return outcome
    groups: defaultdict[object, list[Finding]] = defaultdict(list)
    for finding in outcome.findings:
        about = finding.subject
        groups[finding.job, finding.cause, about.kind, finding.option, finding.rank].append(finding)
    merged = [
        _merge(group, population)
        if len(group) >= FLEET and group[0].subject.kind in _NOUNS
        else group
        for group in groups.values()
    ]
    return replace(outcome, findings=tuple(chain.from_iterable(merged)))


def _merge(group: Sequence[Finding], population: Population) -> list[Finding]:
    """Return the findings that stand out, then one finding about all others."""
    ranked = sorted(group, key=magnitude, reverse=True)
    apart = _outliers(ranked)
    rest = sorted(ranked[len(apart) :], key=lambda each: -each.severity.weight)
    worst = rest[0]
    counted = f"{_NOUNS[worst.subject.kind]}s"
    total = population(worst.job, worst.subject.kind)
    ongoing = any(each.state is State.ONGOING for each in rest)
    rank = "Next worst" if apart else "Worst"
    others = _share(len(rest) - 1, total and total - 1, counted, "other ", "more ")
    whole = replace(
        worst,
        title=f"{_share(len(rest), total, counted)} have the same problem. {rank}: {worst.title}",
        why=worst.why and f"{worst.why}. The same applies to {others}",
        state=State.ONGOING if ongoing else State.RECOVERED,
        first_us=min(filter(None, (each.first_us for each in rest)), default=None),
        last_us=max(filter(None, (each.last_us for each in rest)), default=None),
        count=max(each.count for each in rest),
        measurements=(*worst.measurements, *_distribution(rest, total, counted)),
        evidence=tuple(each.evidence[0] for each in rest[:MAX_CITED] if each.evidence),
        ranked=True,
        evidence_total=sum(each.evidence_count for each in rest),
        subjects=tuple(each.subject for each in rest),
    )
    return [*apart, whole]


def _share(count: int, total: int | None, counted: str, of: str = "", without: str = "") -> str:
    """Return "428 of 500 TaskManagers", or "428 TaskManagers" if the total is unknown.

    Args:
        of: word before the noun if the total is known: "of the other 499 TaskManagers".
        without: word before the noun if the total is unknown: "427 more TaskManagers".
    """
    if total:
        return f"{count} of {f'the {of}' if of else ''}{total} {counted}"
    return f"{count} {without}{counted}"


def _distribution(
    group: Sequence[Finding], total: int | None, counted: str
) -> Iterable[Measurement]:
    yield Measurement(
        name="affected",
        value=len(group),
        unit=counted.lower(),
        population=f"of {total} {counted}" if total else None,
    )
    first = group[0].measurements[0] if _measure_the_same(group) else None
    if first is not None:
        values = [each.measurements[0].value for each in group]
        middle = median(value for value in values if isinstance(value, int | float))
        yield Measurement(
            name=f"{first.name}-median",
            value=round(middle, 4),
            unit=first.unit,
            population=f"of the {len(group)} {counted}",
        )


def _measure_the_same(group: Sequence[Finding]) -> bool:
    """Return whether the first measurements of all findings have the same quantity."""
    firsts = [each.measurements[0] for each in group if each.measurements]
    return len(firsts) == len(group) and all(
        isinstance(one.value, int | float)
        and (one.name, one.unit) == (firsts[0].name, firsts[0].unit)
        for one in firsts
    )


def magnitude(finding: Finding) -> tuple[float, float]:
    """Return a sort key for the size of the problem: the first measurement, negated if it is below its threshold."""
    if not finding.measurements or not isinstance(finding.measurements[0].value, int | float):
        return 0.0, finding.count
    measured = finding.measurements[0]
    value = float(measured.value)  # type: ignore[arg-type]
    below = measured.threshold is not None and value < measured.threshold
    return -value if below else value, finding.count


def _outliers(ranked: Sequence[Finding]) -> list[Finding]:
    """Return the findings whose measurement is far above the median, unless there are many of them."""
    if not _measure_the_same(ranked):
        return []
    values = [magnitude(each)[0] for each in ranked]
    middle = median(values)
    apart = [
        each
        for each, value in zip(ranked, values, strict=True)
        if middle > 0 and value >= STANDS_OUT * middle
    ]
    return apart if len(apart) <= _MOST_APART else []


def affected_subjects(finding: Finding) -> tuple[Subject, ...]:
    """Return all subjects of a finding, worst first."""
    return finding.subjects or (finding.subject,)
