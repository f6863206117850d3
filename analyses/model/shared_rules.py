"""Merges the outcomes of rules that several topics judge, with one finding for the same records."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from flowdiag.analyses.model.finding import Action, Finding, RuleOutcome


def merge_outcomes(outcomes: Iterable[RuleOutcome]) -> list[RuleOutcome]:
    """Return one outcome per rule code, in order of first appearance."""
    by_code: dict[str, RuleOutcome] = {}
    for outcome in outcomes:
        known = by_code.get(outcome.code)
        by_code[outcome.code] = outcome if known is None else _merge(known, outcome)
    return list(by_code.values())


def _merge(one: RuleOutcome, other: RuleOutcome) -> RuleOutcome:
    if _is_empty(other):
        return one
    if _is_empty(one):
        return other
    findings = list(one.findings)
    for finding in other.findings:
        place = next((i for i, found in enumerate(findings) if _is_same(found, finding)), None)
        if place is None:
            findings.append(finding)
        else:
            findings[place] = merge_findings(findings[place], finding)
    return replace(
        one,
        core=one.core or other.core,
        findings=tuple(findings),
        inconclusive=tuple(dict.fromkeys((*one.inconclusive, *other.inconclusive))),
    )


def _is_empty(outcome: RuleOutcome) -> bool:
    """Return whether a topic had nothing to judge. A rule may have findings even if some facts are missing."""
    is_assessed = outcome.not_assessed_reason is None
    return not (is_assessed or outcome.inconclusive or outcome.findings)


def _is_same(one: Finding, other: Finding) -> bool:
    """Return whether two findings of a rule are about the same job, place, cause and record."""
    places = [(f.job, f.cause, f.subject.taskmanager, f.subject.host) for f in (one, other)]
    return places[0] == places[1] and bool(
        {(item.source, item.offset) for item in one.evidence}
        & {(item.source, item.offset) for item in other.evidence}
    )


def merge_findings(one: Finding, other: Finding) -> Finding:
    """Return the first finding with the measurements, records, votes and actions of the second added.

    An action with a proposed value replaces an action without one for the same option.
    """
    names = {measurement.name for measurement in one.measurements}
    signals = {vote.signal for vote in one.votes}
    evidence = tuple(dict.fromkeys((*one.evidence, *other.evidence)))
    totals = [f.evidence_total for f in (one, other) if f.evidence_total is not None]
    better = {action.option: action for action in other.actions if action.proposed is not None}
    actions: dict[tuple[str | None, str], Action] = {}
    for action in (*one.actions, *other.actions):
        chosen = better.get(action.option, action) if action.proposed is None else action
        actions.setdefault((chosen.option, "" if chosen.option else chosen.text), chosen)
    return replace(
        one,
        measurements=(*one.measurements, *(m for m in other.measurements if m.name not in names)),
        evidence=evidence,
        evidence_total=max(len(evidence), *totals) if totals else None,
        votes=(*one.votes, *(vote for vote in other.votes if vote.signal not in signals)),
        actions=tuple(actions.values()),
    )
