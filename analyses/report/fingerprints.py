"""Creates fingerprints, which identify a finding within a report and the same problem in another report."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from flowdiag.analyses.model.finding import Finding, RuleOutcome
from flowdiag.analyses.model.keys import JobKey

# Fields that distinguish findings of a rule about the same task and survive a redeployment.
_APART: Final = (
    "subtask_index",
    "operator",
    "query",
    "stream_id",
    "receiver",
    "output_operation",
    "partition",
)


def fingerprint(
    code: str, job_name: str | None, task: str | None, option: str | None, *apart: str
) -> str:
    """Return an identifier that stays the same if the problem returns after a redeployment.

    Args:
        code: the rule's code.
        job_name, task, option: the subject of the finding.
        apart: values that distinguish it from other findings about the same subject in the report.

    >>> fingerprint("CP101", "orders", None, None) == fingerprint("CP101", "orders", None, None)
    True
    """
    parts = (code, job_name or "", task or "", option or "", *apart)
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:16]


def fingerprints(
    pairs: Sequence[tuple[RuleOutcome, Finding]], names: Mapping[JobKey, str | None]
) -> list[str]:
    """Return a unique fingerprint for each finding of a report.

    Among findings of one rule about the same job, task and option, the first has the same fingerprint as if it were
    alone. The order is by subtask and similar fields, then by time. These fields distinguish the others. Findings that
    differ only in IDs of jobs, attempts and hosts are numbered, because a redeployment changes these IDs.

    Args:
        pairs: findings with their outcomes, in report order.
        names: the names of the jobs.
    """
    alike: defaultdict[tuple[str, str | None, str | None, str | None], list[int]] = defaultdict(
        list
    )
    for number, (outcome, finding) in enumerate(pairs):
        name = (names.get(finding.job) if finding.job else None) or finding.subject.job_name
        alike[outcome.code, name, finding.subject.task, finding.option].append(number)
    found = [""] * len(pairs)
    for about, numbers in alike.items():
        ranked = sorted(numbers, key=lambda n: (_sort_key(pairs[n][1]), n))
        counted: defaultdict[tuple[str, ...], int] = defaultdict(int)
        for place, number in enumerate(ranked):
            apart = _distinguishing_fields(pairs[number][1])
            counted[apart] += 1
            more = (*apart, str(counted[apart])) if place else ()
            found[number] = fingerprint(*about, *more)
    return found


def _distinguishing_fields(finding: Finding) -> tuple[str, ...]:
    values = [(name, getattr(finding.subject, name)) for name in _APART]
    return tuple("" if value is None else f"{name}={value}" for name, value in values)


def _sort_key(finding: Finding) -> tuple[int, tuple[str, ...], int]:
    index = finding.subject.subtask_index
    since = finding.first_us
    return (
        -1 if index is None else index,
        _distinguishing_fields(finding)[1:],
        -1 if since is None else since,
    )
