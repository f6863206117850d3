"""The section about findings: each with its measurements, votes, evidence and remedies, collapsed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from flowdiag.analyses.contract.report import Finding
from flowdiag.analyses.model import fmt
from flowdiag.cli.render.html.charts import flame
from flowdiag.cli.render.html.context import Context, Section, anchor_of
from flowdiag.cli.render.html.figures import table
from flowdiag.cli.text import words
from flowdiag.cli.text.grid import Column

_IN_FULL: Final = 80
_JOB: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class _FindingView:
    """The variables of a finding in the template; evidence is a place, a time and an excerpt."""

    finding: Finding
    anchor: str
    job: str
    facts: list[str]
    measured: list[str]
    flame: str
    actions: list[tuple[str, list[str]]]
    evidence: list[tuple[str, str, str]]
    more: int


def section(context: Context) -> Section | None:
    """Return the findings, or None for a report without findings."""
    findings = context.report.findings
    if not findings:
        return None
    rest: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings[_IN_FULL:]:
        rest.setdefault((finding.severity, finding.code), []).append(finding)
    groups = list(rest.values())
    return Section(
        title="Findings",
        count=str(len(findings)),
        shown={
            "findings": [_view(n, each, context) for n, each in enumerate(findings[:_IN_FULL])],
            "rest": table(_RULE_COLUMNS, groups, len(groups)) if groups else None,
            "hidden": len(findings[_IN_FULL:]),
            "left_out": words.hidden_findings(context.report),
            "how_flame": flame.HOW,
        },
    )


def _view(number: int, finding: Finding, context: Context) -> _FindingView:
    job = words.job_name(finding.subject) if context.has_several_jobs else ""
    return _FindingView(
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
        flame=flame.flame_graph(finding.stacks),
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


# The columns of the remaining findings, a row for each rule.
_RULE_COLUMNS: Final = (
    Column("severity", lambda some: some[0].severity, "left"),
    Column("rule", lambda some: f"{some[0].code} {some[0].name}", "left"),
    Column("findings", lambda some: str(len(some))),
    Column("the first", lambda some: words.compact(some[0].title), "left"),
)
