"""Pairs the findings of two reports. A finding is only new or gone if the other side assessed it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final

from flowdiag.analyses.comparison.wire import Change, FindingChange, Seen
from flowdiag.analyses.contract.report import Finding, Report, Subject
from flowdiag.analyses.model import finding as f
from flowdiag.analyses.report.scope import reason_not_assessed

ORDER: Final = (
    Change.NEW,
    Change.WORSE,
    Change.NOT_COMPARABLE,
    Change.MOVED,
    Change.GONE,
    Change.BETTER,
    Change.UNCHANGED,
)

# Fields that identify a place within a job and survive a redeployment. The first field that both subjects
# have decides. # Process IDs come last, after the host, because a redeployment assigns new ones.
_PLACES: Final = (
    "subtask_index",
    "partition",
    "stream_id",
    "output_operation",
    "query",
    "host",
    "taskmanager",
    "executor",
)

Pair = tuple[Finding | None, Finding | None]


def changes(
    before: Report, after: Report, *, one_job: bool, muted: Collection[str] = ()
) -> list[FindingChange]:
    """Return the change of every finding of either side, worst first.

    Args:
        before, after: reports of the same command.
        one_job: whether the only job of each side is the same despite different names.
        muted: fingerprints in the baseline.
    """
    found = [
        _change(
            old,
            new,
            before,
            after,
            one_job=one_job,
            muted=latest_finding(old, new).fingerprint in muted,
        )
        for old, new in _pairs(before, after, one_job=one_job)
    ]
    return sorted(found, key=_order)


def _order(change: FindingChange) -> tuple[int, int, str, str]:
    seen = change.after or change.before
    assert seen is not None
    return (ORDER.index(change.change), -seen.severity.weight, change.code, seen.title)


def _pairs(before: Report, after: Report, *, one_job: bool) -> Iterator[Pair]:
    """Pair the findings of both sides that report the same fault, most similar first.

    If a rule has several findings about one task, the fingerprint of a finding depends on whether it is the first. If
    the first is gone, the function recognizes the second by its place.
    """
    left, right = list(before.findings), list(after.findings)
    for alike in (_is_same_in_place, _same_place, _same_fingerprint, _is_related_elsewhere):
        yield from _matching_pairs(left, right, alike)
    if one_job:  # a fingerprint includes the job's name, which some inputs do not contain
        yield from _matching_pairs(left, right, _has_another_job_name)
    yield from ((finding, None) for finding in left)
    yield from ((None, finding) for finding in right)


def _matching_pairs(
    left: list[Finding], right: list[Finding], alike: Callable[[Finding, Finding], bool]
) -> Iterator[Pair]:
    """Yield the pairs that match, and remove them from both lists."""
    for finding in list(left):
        other = next((each for each in right if alike(finding, each)), None)
        if other is not None:
            left.remove(finding)
            right.remove(other)
            yield finding, other


def _is_same_in_place(finding: Finding, other: Finding) -> bool:
    return _same_fingerprint(finding, other) and not _has_moved(finding.subject, other.subject)


def _same_place(finding: Finding, other: Finding) -> bool:
    return (
        _are_related(finding) == _are_related(other)
        and _have_same_place(finding.subject, other.subject) is True
    )


def _same_fingerprint(finding: Finding, other: Finding) -> bool:
    return finding.fingerprint == other.fingerprint


def _is_related_elsewhere(finding: Finding, other: Finding) -> bool:
    return _are_related(finding) == _are_related(other) and _has_moved(
        finding.subject, other.subject
    )


def _has_another_job_name(finding: Finding, other: Finding) -> bool:
    return (
        finding.subject.job_name != other.subject.job_name
        and _are_related(finding)[1:] == _are_related(other)[1:]
    )


def _are_related(finding: Finding) -> tuple[str | None, ...]:
    subject = finding.subject
    return (subject.job_name, finding.code, subject.task, subject.option)


def _has_moved(old: Subject, new: Subject) -> bool:
    """Return whether the same fault is now in a different place.

    >>> _has_moved(Subject(kind="subtask", subtask_index=0, host="a"), Subject(kind="subtask", subtask_index=0, host="b"))
    False
    >>> _has_moved(Subject(kind="taskmanager", taskmanager="tm-1"), Subject(kind="taskmanager", taskmanager="tm-2"))
    True
    """
    return _have_same_place(old, new) is False


def _have_same_place(old: Subject, new: Subject) -> bool | None:
    """Return whether two subjects have the same place, or None if unknown."""
    for name in _PLACES:
        before, after = getattr(old, name), getattr(new, name)
        if before is not None and after is not None:
            return bool(before == after)
    return None


def _change(
    old: Finding | None,
    new: Finding | None,
    before: Report,
    after: Report,
    *,
    one_job: bool,
    muted: bool,
) -> FindingChange:
    finding = latest_finding(old, new)
    moved = old is not None and new is not None and _has_moved(old.subject, new.subject)
    if old is None:
        change, reason = _one_sided_change(finding, before, Change.NEW, one_job=one_job)
    elif new is None:
        change, reason = _one_sided_change(finding, after, Change.GONE, one_job=one_job)
    else:
        change, reason = _two_sided_change(old, new)
        if moved and change is Change.UNCHANGED:
            change = Change.MOVED
    return FindingChange(
        fingerprint=finding.fingerprint,
        code=finding.code,
        name=finding.name,
        change=change,
        moved=moved,
        before=_finding_on_side(old),
        after=_finding_on_side(new),
        reason=reason,
        muted=muted,
    )


def latest_finding(old: Finding | None, new: Finding | None) -> Finding:
    """Return the finding of the second report or, if it is gone, the finding of the first."""
    finding = new or old
    assert finding is not None
    return finding


def _one_sided_change(
    finding: Finding, other: Report, change: Change, *, one_job: bool
) -> tuple[Change, str | None]:
    """Return the change of a finding that only one report has, given whether the other assessed it, and a reason."""
    if any(each.fingerprint == finding.fingerprint for each in other.findings):
        return change, None  # the other side has the same fault elsewhere, so it was assessed
    side = "before" if change is Change.NEW else "after"
    job = None if one_job else finding.subject.job_name
    reason = reason_not_assessed(other, finding.code, job, finding.severity)
    return (change, None) if reason is None else (Change.NOT_COMPARABLE, f"{side}: {reason}")


def _two_sided_change(old: Finding, new: Finding) -> tuple[Change, str | None]:
    if old.severity is not new.severity:
        worse = new.severity.weight > old.severity.weight
        reason = f"{new.severity}, was {old.severity}"
        return (Change.WORSE if worse else Change.BETTER), reason
    if old.state is not new.state:
        lasts = new.state is f.State.ONGOING
        return (Change.WORSE, "it is ongoing now") if lasts else (Change.BETTER, "it has recovered")
    return Change.UNCHANGED, None


def _finding_on_side(finding: Finding | None) -> Seen | None:
    if finding is None:
        return None
    return Seen(
        severity=finding.severity,
        state=finding.state,
        confidence=finding.confidence,
        subject=finding.subject,
        cause=finding.cause,
        title=finding.title,
        why=finding.why,
        count=finding.count,
        first_seen=finding.first_seen,
        last_seen=finding.last_seen,
    )


def serious_changes(found: Iterable[FindingChange], kind: Change) -> Sequence[FindingChange]:
    """Return the changes of one kind whose latest severity is a warning or worse, and that are not muted."""
    return [
        change
        for change in found
        if change.change is kind
        and not change.muted
        and (change.after or change.before) is not None
        and _severity(change) is not f.Severity.INFO
    ]


def _severity(change: FindingChange) -> f.Severity:
    seen = change.after or change.before
    assert seen is not None
    return seen.severity
