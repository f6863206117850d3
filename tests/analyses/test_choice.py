"""Ignored rules have no findings, are listed, and never make a report healthy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdiag.analyses.contract.report import Report
from flowdiag.analyses.diagnosis import InspectedInputs, report_on
from flowdiag.analyses.model.rule import Rule
from flowdiag.analyses.rate.facts import RateFacts
from flowdiag.analyses.rate.model import Job, Settings
from flowdiag.analyses.rate.topic import RATE
from flowdiag.analyses.selection.choice import Choice, choose_rules, matches_rule
from flowdiag.analyses.selection.options import Options
from flowdiag.analyses.topic import Measured
from flowdiag.analyses.topics import all_rules
from flowdiag.parsers.discover import discover
from flowdiag.parsers.errors import FlowdiagError

from . import rate_workbench as w

RULES = all_rules()
CODES = [rule.code for rule in RULES]
RT101 = next(rule for rule in RULES if rule.code == "RT101")


def rule(code: str) -> Rule:
    return next(rule for rule in RULES if rule.code == code)


@pytest.mark.parametrize(
    ("select", "ignore", "why"),
    [
        ([], [], None),
        (["RT101"], [], None),
        (["rt1"], [], None),
        (["falling-behind"], [], None),
        (["Falling-Behind"], [], None),
        (["CP"], [], "--select CP"),
        (["CP", "BP101"], [], "--select CP,BP101"),
        ([], ["RT"], "--ignore RT"),
        ([], ["RT1"], "--ignore RT1"),
        ([], ["falling-behind"], "--ignore falling-behind"),
        ([], ["CP"], None),
        # The longest prefix decides, in any order; on a tie, --ignore wins.
        (["RT1"], ["RT"], None),
        (["RT"], ["RT1"], "--ignore RT1"),
        (["RT101"], ["RT", "RT1"], None),
        (["falling-behind"], ["RT101"], "--ignore RT101"),
        (["RT"], ["RT"], "--ignore RT"),
    ],
)
def test_which_rules_are_selected(select: list[str], ignore: list[str], why: str | None) -> None:
    assert choose_rules(select, ignore, RULES).ignored(RT101) == why


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("RT999", "did you mean RT"),
        ("checkpoint-expird", "did you mean CP101 (checkpoint-expired)?"),
        ("falling", "did you mean RT101"),
        ("CX", "codes start with BP, CP"),
        ("wholly different words", "codes start with"),
        ("RT1011", "did you mean RT101 (falling-behind)?"),
        ("*", "codes start with"),
    ],
)
def test_words_that_match_no_rule_are_rejected(word: str, hint: str) -> None:
    for select, ignore in (([word], []), (["CP"], ["RT", word])):
        with pytest.raises(FlowdiagError, match="there is no rule") as error:
            choose_rules(select, ignore, RULES)
        assert error.value.hint is not None and error.value.hint.startswith(hint)


@given(st.sampled_from(CODES), st.integers(1, 5))
def test_every_code_prefix_matches(code: str, length: int) -> None:
    assert matches_rule(code[:length], rule(code)) and matches_rule(
        code[:length].lower(), rule(code)
    )


JOB = Job(fixed_ms=60, per_record_ms=5)
SICK = w.simulated(
    Job(fixed_ms=1200, per_record_ms=5),
    Settings(interval_ms=1000, back_pressure=False),
    [5 * (n % 9) for n in range(60)],
)
WELL = w.simulated(
    JOB, Settings(interval_ms=1000, back_pressure=False), [100 + n % 20 for n in range(40)]
)
SOURCES = discover([__file__]).sources  # findings cite it; none of its lines is read
LOOKED = InspectedInputs(sources=SOURCES, to_scan=SOURCES, side_inputs={}, notes=())


def report(app: object, choice: Choice) -> Report:
    measured = Measured(facts={"rate": RateFacts(applications=(app,))})  # type: ignore[arg-type]
    return report_on((RATE,), LOOKED, measured, Options(choice=choice))


def statuses(found: Report) -> dict[str, str]:
    return {rule.code: rule.status for rule in found.rules}


def test_an_ignored_rule_has_no_findings_and_is_listed() -> None:
    whole = report(SICK, Choice())
    other = next(f.code for f in whole.findings if f.code != "RT101")
    found = report(SICK, Choice(ignore=(other,)))
    assert [f.code for f in found.findings] == [f.code for f in whole.findings if f.code != other]
    (ignored,) = [rule for rule in found.rules if rule.code == other]
    assert (ignored.status, ignored.reason) == ("ignored", f"--ignore {other}")
    # Everything else is unchanged: the verdict, and the statuses of the other rules.
    assert found.summary.verdict == whole.summary.verdict
    assert {**statuses(whole), other: "ignored"} == statuses(found)


@pytest.mark.parametrize("app", [SICK, WELL])
@pytest.mark.parametrize(
    "choice",
    [
        Choice(ignore=("RT",)),
        Choice(select=("CP",)),
        Choice(ignore=("RT1", "RT2", "RT3", "RT4")),
    ],
)
def test_without_any_rule_nothing_is_healthy(app: object, choice: Choice) -> None:
    found = report(app, choice)
    assert found.findings == [] and set(statuses(found).values()) == {"ignored"}
    assert found.summary.verdict == "inconclusive"
    assert found.summary.reason == "all rules are ignored"
    assert [app.verdict for app in found.data.applications or ()] == ["inconclusive"]
    assert found.summary.culprits == [] and found.summary.suggestions == []


def test_ignoring_a_finding_does_not_make_a_job_healthy() -> None:
    """No set of ignored rules that removes all findings makes the job healthy."""
    spoke = dict.fromkeys(finding.code for finding in report(SICK, Choice()).findings)
    found = report(SICK, Choice(ignore=tuple(spoke)))
    assert found.findings == []
    assert found.summary.verdict == "inconclusive"
    assert found.summary.reason is not None and "is ignored" in found.summary.reason
    for code in spoke:
        alone = report(
            SICK, Choice(select=tuple(c for c in CODES if c not in spoke), ignore=(code,))
        )
        assert alone.summary.verdict == "inconclusive"


def test_an_ignored_core_rule_makes_the_verdict_inconclusive() -> None:
    found = report(WELL, Choice(ignore=("RT101",)))
    assert found.summary.verdict == "inconclusive"
    assert found.summary.reason == "RT101 falling-behind is ignored (--ignore RT101)"


def test_a_healthy_job_stays_healthy_if_ignored_rules_are_clear() -> None:
    whole = report(WELL, Choice())
    assert whole.summary.verdict == "healthy"
    quiet = [rule.code for rule in RATE.rules if not rule.core]
    found = report(WELL, Choice(ignore=tuple(quiet)))
    assert found.summary.verdict == "healthy"
    assert [code for code, status in statuses(found).items() if status != "ignored"] == [
        rule.code for rule in RATE.rules if rule.core
    ]


def test_missing_input_is_the_first_reason() -> None:
    found = report_on(
        (RATE,),
        LOOKED,
        Measured(facts={"rate": RateFacts(applications=())}),
        Options(choice=Choice(ignore=("RT",))),
    )
    assert not found.summary.assessed and found.summary.verdict == "inconclusive"
    assert found.summary.reason is not None and found.summary.reason.startswith("no input contains")
