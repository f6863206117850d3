"""The queries in SQL files: all names exist, and all placeholders are filled."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flowdiag.analyses.engine import sql, views
from flowdiag.analyses.engine.sql import Queries, union_all
from flowdiag.analyses.flink import lifecycle, settled
from flowdiag.analyses.flink.clocks import apply, survey
from flowdiag.analyses.flink.clocks.settle import Clock, Segment, Writer
from flowdiag.analyses.memory import measure as memory
from flowdiag.analyses.queues import measure as queues
from flowdiag.analyses.rate import measure as rate
from flowdiag.analyses.rate import survey as rate_survey
from flowdiag.analyses.startup import measure as startup
from flowdiag.parsers.rows import Event

ROOT = Path(sql.__file__).parents[1]
FILES = sorted(ROOT.rglob("sql/*.sql"))
COMPARED = re.compile(r"\bevent\s*(?:=|<>|(?:NOT\s+)?IN)\s*(\([^)]*\)|'[^']*')")


class Spark:
    """Records every query, and returns an empty frame."""

    def __init__(self) -> None:
        self.queries: list[tuple[str, set[str]]] = []

    def sql(self, text: str, args: object = None, **frames: object) -> Frame:
        self.queries.append((text, set(frames)))
        return Frame(self)

    def createDataFrame(self, table: object) -> Frame:
        return Frame(self)


class Frame:
    """A data frame without Spark."""

    columns = ("event", "time_us")

    def __init__(self, spark: Spark) -> None:
        self.sparkSession: Any = spark


def resolve(frame: Any, *, tz: str | None, **options: bool) -> None:
    writer = Writer(
        stream=survey.Stream(0, None),
        role="unknown",
        cluster="",
        version=None,
        wording=None,
        taskmanager=None,
        host=None,
        job_ids=(),
        lacks_job=options["lacks_job"],
        clock=Clock(segments=(Segment(0, 0, 0),), known_from="assumed"),
        events=1,
        logged=True,
        dated=True,
    )
    found = survey.Survey(rows=(), has_headers=options["headers"], has_times=options["times"])
    apply.resolve(frame, [writer], frame.sparkSession, found, tz, few=options["few"])


QUERIES: dict[str, Callable[[Any], object]] = {
    "once": lifecycle.once,
    "facts": lambda frame: union_all(lifecycle.facts(frame)),
    "loads": lambda frame: lifecycle.loads(frame, [(1, 2)]).frame(),
    "garbage": lambda frame: lifecycle.garbage(frame, [(1, 2)], 60_000_000).frame(),
    "rare": settled._rare_rows,
    "resolve": lambda frame: resolve(
        frame, tz=None, lacks_job=False, headers=False, times=False, few=False
    ),
    "resolve in a zone": lambda frame: resolve(
        frame, tz="Asia/Shanghai", lacks_job=True, headers=True, times=True, few=True
    ),
    "queues": lambda frame: queues.queue_frame(frame, frame, 1_000_000),
    "startup": lambda frame: union_all(startup.queries(frame, frame, frame)),
    "memory": lambda frame: union_all(memory.queries(frame)),
    "rate": rate.facts_frame,
    "rate of batches": lambda frame: rate.facts_frame(frame, {Event.SPARK_BATCH.value}),
    "owned": lambda frame: rate.with_owner_columns(frame, []),
    "survey": rate_survey.survey,
    "events": lambda frame: views.event_table(frame, [], "flink"),
    "metrics": lambda frame: views.metric_table(frame, []),
}


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Spark:
    for module in (lifecycle, queues, startup, memory, rate):
        if hasattr(module, "cached_frame"):
            monkeypatch.setattr(module, "cached_frame", lambda frame: frame)
    for module in (settled, rate_survey):
        monkeypatch.setattr(module, "rows_of", lambda frame: [])
    return Spark()


@pytest.mark.parametrize("what", QUERIES)
def test_every_name_in_braces_is_filled(what: str, spark: Spark) -> None:
    QUERIES[what](Frame(spark))
    assert spark.queries
    for text, frames in spark.queries:
        assert set(re.findall(r"\{(\w*)\}", text)) == frames, text
        assert text.count("{") == len(re.findall(r"\{\w+\}", text))


def test_every_query_file_is_used(spark: Spark) -> None:
    for ask in QUERIES.values():
        ask(Frame(spark))
    rooms = [
        module.SQL
        for module in (lifecycle, apply, queues, startup, memory, rate, rate_survey, views)
    ]
    used = {(queries.package, name) for queries in rooms for name in queries._texts}
    there = {
        (".".join(("flowdiag", "analyses", *file.relative_to(ROOT).parts[:-2])), file.stem)
        for file in FILES
    }
    assert used == there


@pytest.mark.parametrize(
    "queries",
    [
        lifecycle.SQL,
        apply.SQL,
        queues.SQL,
        startup.SQL,
        memory.SQL,
        rate.SQL,
        rate_survey.SQL,
        views.SQL,
    ],
)
def test_fixed_parameters_are_used(queries: Queries) -> None:
    folder = ROOT.joinpath(*queries.package.split(".")[2:], "sql")
    used = {
        name for file in folder.glob("*.sql") for name in re.findall(r"\{(\w+)\}", file.read_text())
    }
    assert set(queries.fixed) <= used


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parts[-3]}/{file.stem}")
def test_a_query_file_describes_its_row_and_names_known_events(file: Path) -> None:
    text = file.read_text()
    head = text[: len(text) - len(sql._HEAD.sub("", text))]
    assert head.startswith("-- One row "), "a comment on top says what a row is"
    body = text[len(head) :]
    named = {name for found in COMPARED.findall(body) for name in re.findall(r"'(\w+)'", found)}
    assert named <= {event.value for event in Event}


def test_a_comparison_with_an_event_name_is_detected() -> None:
    found = COMPARED.findall("event = 'a' OR event NOT IN ('b', 'c') AND e.event <> 'd'")
    assert found == ["'a'", "('b', 'c')", "'d'"]
