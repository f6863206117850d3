"""Compares reports by fingerprint: a problem keeps its fingerprint from one report to the next.

If the rule of a missing finding is no longer assessed, the finding is reported as not assessed instead of gone.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal

import msgspec

from flowdiag.analyses.contract.encoding import escape_invisible
from flowdiag.analyses.contract.redact import visible_json
from flowdiag.analyses.contract.report import Finding, Note, Report, Subject
from flowdiag.analyses.model import finding as f
from flowdiag.analyses.report.scope import reason_not_assessed


class Kind(StrEnum):
    """How a finding changed."""

    NEW = "new"
    GONE = "gone"
    WORSE = "worse"
    BETTER = "better"
    NOT_ASSESSED = "not-assessed"  # it existed, but its rule is no longer assessed


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """A finding's severity and state at one time."""

    severity: f.Severity
    state: f.State

    @property
    def weight(self) -> tuple[bool, int]:
        """The sort order: ongoing is worse than recovered, then the severity decides."""
        return self.state is f.State.ONGOING, self.severity.weight


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One changed finding. `before` is null for a new finding, and `after` for one that is gone."""

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

    `report` and `verdict` are null if no server responded, and `errors` contains the reasons. Problems with single inputs
    are in the report. `verdict_before` is the last known verdict of an earlier round.
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


def encode_round(this: Round) -> str:
    """Encode a round as one line of JSON with a line feed."""
    try:
        document = msgspec.json.encode(this)
    except UnicodeEncodeError:  # a lone surrogate in a name from a log
        document = msgspec.json.encode(escape_invisible(msgspec.to_builtins(this)))
    return visible_json(document.decode()) + "\n"


def changes(before: Report | None, after: Report) -> list[Change]:
    """Return the new, gone, worse and better findings, worst first.

    Args:
        before: the report of the previous round. If None, everything is new.
        after: the report of this round.
    """
    known, found = _by_fingerprint(before), _by_fingerprint(after)
    changed = []
    for fingerprint in dict.fromkeys([*found, *known]):
        was, now = known.get(fingerprint), found.get(fingerprint)
        kind = _kind(was, now, after)
        finding = now or was
        if kind is None or finding is None:
            continue
        changed.append(
            Change(
                change=kind,
                fingerprint=fingerprint,
                code=finding.code,
                name=finding.name,
                title=finding.title,
                subject=finding.subject,
                before=_standing_of(was),
                after=_standing_of(now),
            )
        )
    order = list(Kind)
    return sorted(changed, key=lambda each: (order.index(each.change), _change_rank(each)))


def _kind(was: Finding | None, now: Finding | None, after: Report) -> Kind | None:
    if was is None:
        return Kind.NEW
    if now is None:
        unseen = reason_not_assessed(after, was.code, was.subject.job_name, was.severity)
        return Kind.GONE if unseen is None else Kind.NOT_ASSESSED
    before, after_weight = _weight(was), _weight(now)
    if before == after_weight:
        return None
    return Kind.WORSE if after_weight > before else Kind.BETTER


def _by_fingerprint(report: Report | None) -> dict[str, Finding]:
    """Index findings by fingerprint. If two share one (subtasks of the same task), keep the worse."""
    found: dict[str, Finding] = {}
    for finding in report.findings if report is not None else ():
        known = found.get(finding.fingerprint)
        if known is None or _weight(finding) > _weight(known):
            found[finding.fingerprint] = finding
    return found


def _standing_of(finding: Finding | None) -> Standing | None:
    if finding is None:
        return None
    return Standing(severity=finding.severity, state=finding.state)


def _weight(finding: Finding) -> tuple[bool, int]:
    return Standing(severity=finding.severity, state=finding.state).weight


def _change_rank(change: Change) -> tuple[bool, int]:
    standing = change.after or change.before
    lasts, weight = standing.weight if standing is not None else (False, 0)
    return not lasts, -weight
