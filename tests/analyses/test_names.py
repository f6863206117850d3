"""A redacted report contains no task names, but keeps all of flowdiag's own words."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.names import BEGINS, ENDS, Name, with_names
from flowdiag.analyses.rate.facts import RateFacts
from flowdiag.analyses.report.pseudonyms import pseudonymize

from . import rate_workbench as w

NAMES = st.text("abc -(", min_size=1, max_size=12)


@given(NAMES, NAMES)
def test_a_name_equals_its_text_and_is_marked_in_sentences(one: str, other: str) -> None:
    name = Name(one)
    assert name == one and hash(name) == hash(one) and len(name) == len(one)
    marked = f"{BEGINS}{one}{ENDS}"
    assert f"{name} waits" == f"{name} waits" == name + " waits" == f"{marked} waits"
    assert "waits for " + name == f"waits for {marked}"
    assert fmt.listed([name, Name(other)]) == f"{marked}, {BEGINS}{other}{ENDS}"


def test_only_marked_names_are_replaced_in_our_own_words() -> None:
    name = Name("aggregate")
    redacted = pseudonymize(
        {
            "subject": {"task": "aggregate"},
            "title": f"{fmt.subtask_of(name, 2, 6)} holds up what others aggregate",
            "actions": [{"text": "Spread its key: salt it, or aggregate in two steps"}],
            "evidence": [{"excerpt": "Deploying aggregate (3/6)"}],
        }
    )
    assert redacted == {
        "subject": {"task": "task-1"},
        "title": "task-1 (3/6) holds up what others aggregate",
        "actions": [{"text": "Spread its key: salt it, or aggregate in two steps"}],
        "evidence": [{"excerpt": "Deploying task-1 (3/6)"}],
    }


def test_a_cut_name_has_the_same_pseudonym() -> None:
    name = Name("Source: a -> Map -> Filter -> Sink: b")
    redacted = pseudonymize(
        {"task": str(name), "title": f"{fmt.shorten(name, 12)} and {fmt.abbreviate(name, 20)} wait"}
    )
    assert redacted["title"] == "task-1 and task-1 wait"


def test_marked_facts_equal_the_original_facts() -> None:
    app = w.application([w.batch(n) for n in range(3)], queries=(w.query([w.trigger(0, 5)]),))
    facts = RateFacts(applications=(app,))
    named = with_names(facts)
    assert named == facts
    assert isinstance(named.applications[0].name, Name)
    assert isinstance(named.applications[0].queries[0].name, Name)
    assert not isinstance(named.applications[0].version, Name)
