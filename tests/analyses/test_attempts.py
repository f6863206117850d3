"""Attempts of one Spark application on YARN, which repeat the failure of the first attempt."""

from __future__ import annotations

from flowdiag.analyses.model.keys import JobKey
from flowdiag.analyses.rate.attempts import last_attempt, with_repeated_failures
from flowdiag.analyses.rate.facts import ApplicationFacts, Record
from flowdiag.parsers.rows import Event

ID = "application_1700000000000_0007"


def attempt(name: str, *causes: str) -> ApplicationFacts:
    records = (Record(kind=Event.FAILURE, template=None, time_us=1, cause=each) for each in causes)
    return ApplicationFacts(
        key=JobKey("", name),
        application=name,
        name="orders",
        version="3.5.7",
        interval_ms=None,
        interval_from=None,
        settings={},
        settings_known=False,
        batches=(),
        failures=tuple(records),
    )


def test_the_last_attempt_has_the_failures_that_it_repeats() -> None:
    other = attempt("application_1700000000000_0008", "a.E: disk")
    first, last = attempt(ID, "a.E: once", "a.E: disk"), attempt(f"{ID}/2", "a.E: disk")
    found = with_repeated_failures((first, last, other))
    causes = [[record.cause for record in app.failures] for app in found]
    assert causes == [["a.E: once"], ["a.E: disk", "a.E: disk"], ["a.E: disk"]]


def test_a_file_next_to_all_attempts_belongs_to_the_last_one() -> None:
    assert last_attempt([f"{ID}/10", f"{ID}/2", ID]) == f"{ID}/10"
    assert last_attempt([ID, "application_1700000000000_0008"]) is None
    assert last_attempt([]) is None
