"""Selections: times and jobs in the notation of users."""

from __future__ import annotations

from datetime import timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdiag.analyses.checkpoints.topic import CHECKPOINTS
from flowdiag.analyses.diagnosis import select_facts, span_of
from flowdiag.analyses.flink.job import ClusterFacts
from flowdiag.analyses.memory.facts import MemoryFacts
from flowdiag.analyses.model.keys import Process
from flowdiag.analyses.queues.facts import QueueFacts
from flowdiag.analyses.rate.facts import RateFacts
from flowdiag.analyses.selection.options import Options
from flowdiag.analyses.selection.span import Moment, Selection, instant, parse_moment
from flowdiag.analyses.startup.facts import StartupFacts
from flowdiag.analyses.topic_names import ENGINES
from flowdiag.analyses.topics import topic
from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.notes import InputNote, Kind

from .workbench import T0, Bench

HOUR_US = 3_600_000_000
UTC_18_43 = 1_543_516_980_000_000  # 2018-11-29T18:43:00Z


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2018-11-29T18:43Z", Moment(utc_us=UTC_18_43)),
        ("2018-11-29 18:43:00,500+00:00", Moment(utc_us=UTC_18_43 + 500_000)),
        ("2018-11-30T02:43+08:00", Moment(utc_us=UTC_18_43)),
        ("2018-11-29 18:43", Moment(local_us=UTC_18_43)),
        ("2h", Moment(before_end_us=2 * HOUR_US)),
        ("-90m", Moment(before_end_us=HOUR_US * 3 // 2)),
        ("1d1h", Moment(before_end_us=25 * HOUR_US)),
        ("0.5h", Moment(before_end_us=HOUR_US // 2)),
    ],
)
def test_moments(text: str, moment: Moment) -> None:
    assert parse_moment(text) == moment


def test_wall_clock_times_use_the_zone_of_the_log() -> None:
    zone = timezone(timedelta(hours=8))
    assert instant(parse_moment("2018-11-30 02:43"), 0, zone) == UTC_18_43
    assert instant(parse_moment("1h"), UTC_18_43, zone) == UTC_18_43 - HOUR_US
    assert instant(parse_moment("2018-11-29T18:43Z"), 0, zone) == UTC_18_43


@given(st.text(max_size=20))
def test_any_text_is_a_time_or_a_clear_error(text: str) -> None:
    try:
        parse_moment(text)
    except FlowdiagError as error:
        assert error.hint


def test_jobs() -> None:
    known = [("a1b2", "orders"), ("ffff", "clicks"), (None, None)]
    for pattern, expected in [
        ("a1", ["orders"]),
        ("A1B2", ["orders"]),
        ("*c*", ["clicks"]),
        ("orders", ["orders"]),
        ("ORDERS", ["orders"]),
        ("Or*", ["orders"]),
        ("[C-D]*", ["clicks"]),
        (None, ["orders", "clicks", None]),
    ]:
        selection = Selection(job=pattern)
        assert [name for job_id, name in known if selection.selects(job_id, name)] == expected
        selection.require(known)


def test_job_names_that_differ_only_in_case_all_match() -> None:
    selection = Selection(job="orders")
    assert [name for name in ("Orders", "ORDERS", "order") if selection.selects(None, name)] == [
        "Orders",
        "ORDERS",
    ]


def test_an_unknown_job_lists_the_existing_ones() -> None:
    with pytest.raises(FlowdiagError) as error:
        Selection(job="payments").require([("a1b2", "orders"), ("ff", None)])
    assert error.value.hint == "the input contains orders (a1b2), unnamed (ff)"


def test_a_time_range_without_checkpoints_is_a_warning() -> None:
    job = Bench()
    job.completes(3)
    facts = job.facts()

    def notes(since_us: int) -> list[InputNote]:
        options = Options(selection=Selection(since=Moment(utc_us=since_us)))
        return list(
            CHECKPOINTS.notes(facts, select_facts(CHECKPOINTS, facts, (), options), options)
        )

    assert notes(T0) == []
    (note,) = notes(T0 + 24 * HOUR_US)
    assert note.kind is Kind.OUTSIDE and note.text.endswith(
        "from 2023-11-14T22:13:20.000Z to 2023-11-14T22:15:20.000Z"
    )


NO_FACTS = {
    "checkpoints": ClusterFacts(jobs=(), processes=()),
    "queues": QueueFacts(common=ClusterFacts(jobs=(), processes=()), jobs=()),
    "startup": StartupFacts(common=ClusterFacts(jobs=(), processes=()), jobs=()),
    "memory": MemoryFacts(processes=()),
    "rate": RateFacts(applications=()),
}


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize(("tz", "hours"), [(None, 8), ("UTC", 0)])
def test_a_wall_clock_is_one_instant_in_all_commands(name: str, tz: str | None, hours: int) -> None:
    """The time zone is that of `--tz`, or, without one, the zone in which the report prints its times."""
    zone_ms = 8 * 3_600_000
    processes = [
        Process(source=0, label=None, role="taskmanager", cluster="", zone_offset_ms=0),
        Process(source=1, label=None, role="jobmanager", cluster="", zone_offset_ms=zone_ms),
    ]
    options = Options(selection=Selection(since=parse_moment("2018-11-30 02:43")), tz=tz)
    span = span_of(topic(name), NO_FACTS[name], processes, options)
    assert span is not None
    assert span.low_us == UTC_18_43 + (8 - hours) * HOUR_US


@pytest.mark.parametrize("name", ENGINES)
def test_a_duration_counts_back_from_the_last_record_in_all_commands(name: str) -> None:
    written = Process(source=0, label=None, role="taskmanager", cluster="", last_us=UTC_18_43)
    options = Options(selection=Selection(since=parse_moment("1h")))
    span = span_of(topic(name), NO_FACTS[name], [written], options)
    assert span is not None and span.low_us == UTC_18_43 - HOUR_US
