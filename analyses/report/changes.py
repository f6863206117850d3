"""What changed from one report to the next, by fingerprint: the same sickness keeps it.

What a rule could not assess any more is not gone, and what it could not assess before is new only as far as
anybody knows: both are said as they are.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal

import msgspec

from flowdiag.analyses.model import finding as f
from flowdiag.analyses.report.redact import visible_json
from flowdiag.analyses.report.scope import unassessed
from flowdiag.analyses.report.wire import Finding, Note, Report, Subject, speakable


class Kind(StrEnum):
    """What became of a finding."""

    NEW = "new"
    GONE = "gone"
    WORSE = "worse"
    BETTER = "better"
    NOT_ASSESSED = "not-assessed"  # it was there, and now nobody can tell


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How bad a finding is at a time."""

    severity: f.Severity
    state: f.State

    @property
    def weight(self) -> tuple[bool, int]:
        """What lasts is worse than what is over; then the severity decides."""
        return self.state is f.State.ONGOING, self.severity.weight


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One finding that is not what it was; `before` is null where it is new, `after` where it is gone."""

    change: Kind
    fingerprint: str
    code: str
    name: str
    title: str
    subject: Subject
    before: Standing | None
    after: Standing | None


SCHEMA: Final = "flowdiag.round/1"


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """One round of `flowdiag diagnose --every`, a line of JSON.

    `report` and `verdict` are null where nothing answered; `errors` say why, and are of the round: what is
    the matter with single inputs stands in the report. `verdict_before` is that of the last round that had one.
    """

    schema: Literal["flowdiag.round/1"] = "flowdiag.round/1"
    round: int
    time: str
    verdict: f.Verdict | None
    verdict_before: f.Verdict | None
    exit_code: int
    changes: list[Change]
    errors: list[Note]
    report: Report | None


def encoded(this: Round) -> str:
    """A round as one line of JSON, with its line feed."""
    try:
        document = msgspec.json.encode(this)
    except UnicodeEncodeError:  # a lone surrogate in a name that a log gave
        document = msgspec.json.encode(speakable(msgspec.to_builtins(this)))
    return visible_json(document.decode()) + "\n"


def changes(before: Report | None, after: Report) -> list[Change]:
    """What is new, gone, worse or better, the worst first.

    Args:
        before: of the round before; None: there was none, and everything is new.
        after: of this round.
    """
    known, found = _by_fingerprint(before), _by_fingerprint(after)
    changed = []
    for fingerprint in dict.fromkeys([*found, *known]):
        was, now = known.get(fingerprint), found.get(fingerprint)
        kind = _kind(was, now, after)
        one = now or was
        if kind is None or one is None:
            continue
        changed.append(
            Change(
                change=kind,
                fingerprint=fingerprint,
                code=one.code,
                name=one.name,
                title=one.title,
                subject=one.subject,
                before=_standing(was),
                after=_standing(now),
            )
        )
    order = list(Kind)
    return sorted(changed, key=lambda each: (order.index(each.change), _gravity(each)))


def _kind(was: Finding | None, now: Finding | None, after: Report) -> Kind | None:
    if was is None:
        return Kind.NEW
    if now is None:
        unseen = unassessed(after, was.code, was.subject.job_name, was.severity)
        return Kind.GONE if unseen is None else Kind.NOT_ASSESSED
    one, other = _weight(was), _weight(now)
    if one == other:
        return None
    return Kind.WORSE if other > one else Kind.BETTER


def _by_fingerprint(report: Report | None) -> dict[str, Finding]:
    """Of several findings of one sickness (two subtasks of a task) the worst."""
    found: dict[str, Finding] = {}
    for finding in report.findings if report is not None else ():
        known = found.get(finding.fingerprint)
        if known is None or _weight(finding) > _weight(known):
            found[finding.fingerprint] = finding
    return found


def _standing(finding: Finding | None) -> Standing | None:
    if finding is None:
        return None
    return Standing(severity=finding.severity, state=finding.state)


def _weight(finding: Finding) -> tuple[bool, int]:
    return Standing(severity=finding.severity, state=finding.state).weight


def _gravity(change: Change) -> tuple[bool, int]:
    standing = change.after or change.before
    lasts, weight = standing.weight if standing is not None else (False, 0)
    return not lasts, -weight
