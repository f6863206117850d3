"""Every finding with its numbers, votes, evidence and remedies, folded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from flowdiag.analyses.model import fmt
from flowdiag.analyses.report.wire import Finding
from flowdiag.cli.render.html.context import Context, Section, anchor_of
from flowdiag.cli.render.html.figures import Table
from flowdiag.cli.text import words

_IN_FULL: Final = 80
_JOB: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """A finding as the template shows it."""

    finding: Finding
    anchor: str
    job: str
    facts: list[str]
    measured: list[str]
    actions: list[tuple[str, list[str]]]
    evidence: list[tuple[str, str, str]]
    more: int


def section(context: Context) -> Section | None:
    """The findings; None where there is none."""
    findings = context.report.findings
    if not findings:
        return None
    rest = findings[_IN_FULL:]
    return Section(
        title="Findings",
        count=str(len(findings)),
        shown={
            "findings": [_told(n, one, context) for n, one in enumerate(findings[:_IN_FULL])],
            "rest": _rest(rest) if rest else None,
            "hidden": len(rest),
            "left_out": words.hidden_findings(context.report),
        },
    )


def _told(number: int, finding: Finding, context: Context) -> _Told:
    job = words.job_name(finding.subject) if context.several else ""
    return _Told(
        finding=finding,
        anchor=anchor_of(number),
        job=fmt.abbreviate(job, _JOB),
        facts=[
            words.subject_name(finding.subject, most=200),
            finding.state,
            f"{finding.confidence} confidence",
            words.period(finding, context.clock),
            words.mute_note(context.report, finding) or "",
        ],
        measured=[words.measurement(item) for item in finding.measurements],
        actions=[words.action_lines(action) for action in finding.actions],
        evidence=[
            (
                words.location(item, context.paths),
                "" if item.timestamp is None else context.clock.show(item.timestamp),
                item.excerpt or "",
            )
            for item in finding.evidence
        ],
        more=finding.evidence_total - len(finding.evidence),
    )


def _rest(findings: list[Finding]) -> Table:
    """Those for which there is no room, all of a rule in one row."""
    found: dict[tuple[str, str, str], list[Finding]] = {}
    for one in findings:
        found.setdefault((one.severity, one.code, one.name), []).append(one)
    rows = [
        (severity, f"{code} {name}", str(len(some)), words.compact(some[0].title))
        for (severity, code, name), some in found.items()
    ]
    return Table(heads=("severity", "rule", ">findings", "the first"), rows=rows)
