"""Pairs the findings of two reports by fingerprint; new or gone requires that the other side assessed them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final

from flowdiag.analyses.comparison.wire import Change, FindingChange, Seen
from flowdiag.analyses.model import finding as f
from flowdiag.analyses.report.scope import unassessed
from flowdiag.analyses.report.wire import Finding, Report, Subject

ORDER: Final = (
    Change.NEW,
    Change.WORSE,
    Change.NOT_COMPARABLE,
    Change.MOVED,
    Change.GONE,
    Change.BETTER,
    Change.UNCHANGED,
)

# Fields that identify a place within a job and survive a redeployment; the first that both have decides.
# Ids of processes come last, after the host: a redeployment assigns new ids.
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
    """Return the change of every finding of either side, the worst first.

    Args:
        before, after: of the same command.
        one_job: the only job of each side is the same, despite different names.
        muted: fingerprints in the baseline.
    """
    found = [
        _change(
            old, new, before, after, one_job=one_job, muted=latest(old, new).fingerprint in muted
        )
        for old, new in _pairs(before, after, one_job=one_job)
    ]
    return sorted(found, key=_order)


def _order(one: FindingChange) -> tuple[int, int, str, str]:
    seen = one.after or one.before
    assert seen is not None
    return (ORDER.index(one.change), -seen.severity.weight, one.code, seen.title)


def _pairs(before: Report, after: Report, *, one_job: bool) -> Iterator[Pair]:
    """Pair the findings of both sides that report the same fault, the most similar first.

    If a rule has several findings about one task, the fingerprint of the first depends on its being
    first. If the first is gone, the second is recognised by its place.
    """
    left, right = list(before.findings), list(after.findings)
    for alike in (_same_here, _same_place, _same_fingerprint, _elsewhere):
        yield from _matching(left, right, alike)
    if one_job:  # a fingerprint includes the job's name, which some inputs lack
        yield from _matching(left, right, _of_another_name)
    yield from ((one, None) for one in left)
    yield from ((None, one) for one in right)


def _matching(
    left: list[Finding], right: list[Finding], alike: Callable[[Finding, Finding], bool]
) -> Iterator[Pair]:
    """Yield the pairs that match, and remove them from both lists."""
    for one in list(left):
        other = next((each for each in right if alike(one, each)), None)
        if other is not None:
            left.remove(one)
            right.remove(other)
            yield one, other


def _same_here(one: Finding, other: Finding) -> bool:
    return _same_fingerprint(one, other) and not _moved(one.subject, other.subject)


def _same_place(one: Finding, other: Finding) -> bool:
    return _kin(one) == _kin(other) and _at_one_place(one.subject, other.subject) is True


def _same_fingerprint(one: Finding, other: Finding) -> bool:
    return one.fingerprint == other.fingerprint


def _elsewhere(one: Finding, other: Finding) -> bool:
    return _kin(one) == _kin(other) and _moved(one.subject, other.subject)


def _of_another_name(one: Finding, other: Finding) -> bool:
    return one.subject.job_name != other.subject.job_name and _kin(one)[1:] == _kin(other)[1:]


def _kin(one: Finding) -> tuple[str | None, ...]:
    subject = one.subject
    return (subject.job_name, one.code, subject.task, subject.option)


def _moved(old: Subject, new: Subject) -> bool:
    """Whether the same fault is in another place.

    >>> _moved(Subject(kind="subtask", subtask_index=0, host="a"), Subject(kind="subtask", subtask_index=0, host="b"))
    False
    >>> _moved(Subject(kind="taskmanager", taskmanager="tm-1"), Subject(kind="taskmanager", taskmanager="tm-2"))
    True
    """
    return _at_one_place(old, new) is False


def _at_one_place(old: Subject, new: Subject) -> bool | None:
    """Whether two subjects have the same place; None if unknown."""
    for name in _PLACES:
        one, other = getattr(old, name), getattr(new, name)
        if one is not None and other is not None:
            return bool(one == other)
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
    one = latest(old, new)
    moved = old is not None and new is not None and _moved(old.subject, new.subject)
    if old is None:
        change, reason = _alone(one, before, Change.NEW, one_job=one_job)
    elif new is None:
        change, reason = _alone(one, after, Change.GONE, one_job=one_job)
    else:
        change, reason = _both(old, new)
        if moved and change is Change.UNCHANGED:
            change = Change.MOVED
    return FindingChange(
        fingerprint=one.fingerprint,
        code=one.code,
        name=one.name,
        change=change,
        moved=moved,
        before=_seen(old),
        after=_seen(new),
        reason=reason,
        muted=muted,
    )


def latest(old: Finding | None, new: Finding | None) -> Finding:
    """Return the finding as it is now, or else as it was."""
    one = new or old
    assert one is not None
    return one


def _alone(
    one: Finding, other: Report, change: Change, *, one_job: bool
) -> tuple[Change, str | None]:
    """Return the change for a finding of one side, depending on what the other side assessed."""
    if any(each.fingerprint == one.fingerprint for each in other.findings):
        return change, None  # the other side has the same fault elsewhere, so it was assessed
    side = "before" if change is Change.NEW else "after"
    job = None if one_job else one.subject.job_name
    reason = unassessed(other, one.code, job, one.severity)
    return (change, None) if reason is None else (Change.NOT_COMPARABLE, f"{side}: {reason}")


def _both(old: Finding, new: Finding) -> tuple[Change, str | None]:
    if old.severity is not new.severity:
        worse = new.severity.weight > old.severity.weight
        reason = f"{new.severity}, was {old.severity}"
        return (Change.WORSE if worse else Change.BETTER), reason
    if old.state is not new.state:
        lasts = new.state is f.State.ONGOING
        return (Change.WORSE, "it is ongoing now") if lasts else (Change.BETTER, "it has recovered")
    return Change.UNCHANGED, None


def _seen(one: Finding | None) -> Seen | None:
    if one is None:
        return None
    return Seen(
        severity=one.severity,
        state=one.state,
        confidence=one.confidence,
        subject=one.subject,
        cause=one.cause,
        title=one.title,
        why=one.why,
        count=one.count,
        first_seen=one.first_seen,
        last_seen=one.last_seen,
    )


def serious(found: Iterable[FindingChange], kind: Change) -> Sequence[FindingChange]:
    """Return the changes of one kind at warning or above (on the latest side) that are not muted."""
    return [
        one
        for one in found
        if one.change is kind
        and not one.muted
        and (one.after or one.before) is not None
        and _severity(one) is not f.Severity.INFO
    ]


def _severity(one: FindingChange) -> f.Severity:
    seen = one.after or one.before
    assert seen is not None
    return seen.severity
