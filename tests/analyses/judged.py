"""Helpers that run rules on facts as the main flow does, without a report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from flowdiag.analyses.flink.helpers import jobs_of
from flowdiag.analyses.flink.job import ClusterFacts
from flowdiag.analyses.model.finding import Finding, Inconclusive, RuleOutcome
from flowdiag.analyses.model.rule import Rule, apply
from flowdiag.analyses.queues.facts import QueueFacts
from flowdiag.analyses.rate.assessment import Assessment
from flowdiag.analyses.report.advice import action_of
from flowdiag.analyses.startup.facts import JobStarting, StartupFacts
from tests.proposals import wrong_with

from .. import wording


def cases_of(facts: Any) -> Sequence[Any]:
    """Return the subjects that each rule judges."""
    if isinstance(facts, ClusterFacts):
        return jobs_of(facts)
    if isinstance(facts, QueueFacts):
        return facts.jobs
    if isinstance(facts, StartupFacts):
        return [JobStarting.of(job, facts) for job in facts.jobs]
    return facts.applications if isinstance(facts, Assessment) else ()


def outcomes_of(rules: Iterable[Rule], facts: Any) -> tuple[RuleOutcome, ...]:
    """Return the outcomes of rules with their default limits."""
    return checked(apply(rules, facts, cases_of(facts)))


def results_of(rule: Rule, facts: Any) -> list[Finding | Inconclusive]:
    """Return the results of one rule for each subject, with its default limits."""
    cases = (facts,) if rule.whole else cases_of(facts)
    items = [item for case in cases for item in rule.judge(case, rule.limits())]
    for item in items:
        _check(rule.code, item)
    return items


def checked(outcomes: tuple[RuleOutcome, ...]) -> tuple[RuleOutcome, ...]:
    """Check the wording and the proposed values of outcomes, and return the outcomes."""
    for outcome in outcomes:
        for finding in outcome.findings:
            _check(outcome.code, finding)
        for reason in outcome.inconclusive:
            _check(outcome.code, reason)
    return outcomes


def _check(code: str, item: Finding | Inconclusive) -> None:
    wording.check_results(code, [item])
    if isinstance(item, Finding):
        assert not [*wrong_with(code, item.cause, map(action_of, item.actions))]
