"""The sum over the splits does not depend on the split offsets or the parsing process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise
from typing import Any

import pyarrow as pa
import pytest

from flowdiag.analyses.engine.reading import ParsedSources
from flowdiag.analyses.flink.clocks.survey import RARE, Stream, Survey, survey
from flowdiag.analyses.flink.settled import rare_of
from flowdiag.parsers.flink import marks as marks_module
from flowdiag.parsers.flink.marks import (
    DAY_US,
    Marks,
    Transition,
    decode,
    limit_transitions,
    with_marks,
)
from flowdiag.parsers.rows import EVENTS, Event

Row = dict[str, Any]
HOUR_US = 3600 * 1_000_000


def table(rows: Sequence[Row]) -> pa.Table:
    full = [{**dict.fromkeys(EVENTS.names), "source": 0, **row} for row in rows]
    for row in full:
        row["fields"] = list((row["fields"] or {}).items())
    return pa.Table.from_pylist(full, schema=EVENTS)


def found_in(events: pa.Table) -> tuple[list[Row], list[Marks]]:
    """Return the input of a survey for events that a single process parsed."""
    return rare_of(ParsedSources(table=events, rows=events.num_rows))


def cut(rows: Sequence[Row], *edges: int) -> Survey:
    """Survey the rows as executors do, with each range of rows as a split."""
    rare: list[Row] = []
    found = []
    for low, high in pairwise([0, *edges, len(rows)]):
        batches = table(rows[low:high]).to_batches()
        *events, last = with_marks(batches)
        assert [batch.num_rows for batch in events] == [batch.num_rows for batch in batches]
        (row,) = last.to_pylist()
        assert row["event"] == Event.MARKS
        found.append(decode(dict(row["fields"])["marks"]))
        rare += found_in(pa.Table.from_batches(events))[0]
    return survey(rare, found[::-1])


def same(one: Survey, other: Survey) -> bool:
    return sorted(map(str, one.rows)) == sorted(map(str, other.rows))


def library_logging(offset: int, hour: float, **more: Any) -> Row:
    return {
        "event": "known",
        "offset": offset,
        "local_us": round(hour * HOUR_US),
        "clock": "time-of-day",
        **more,
    }


# Two processes in one stream, each below its header, over two midnights, with one late metric row.
ROWS: list[Row] = [
    library_logging(0, 22.0),
    {"event": "section", "offset": 100, "process": "container_1"},
    library_logging(200, 23.5, logger="JobMaster", job_id="a" * 32),
    library_logging(300, 0.5, event="checkpoint_triggered", epoch_ms=90_000_000, checkpoint=1),
    library_logging(400, 1.0, event="process_started", fields={"version": "1.20.5"}),
    library_logging(500, 1.5, event="task_state", logger="ExecutionGraph", attempt_id="1", to_state="RUNNING"),
    {"event": "section", "offset": 600, "process": "container_2"},
    library_logging(700, 23.0, event="task_state", logger="Task", attempt_id="1", to_state="RUNNING"),
    library_logging(800, 0.2, process="labelled"),
    library_logging(900, 0.3, event="abort_notified", checkpoint=1),
    library_logging(850, 0.25, event="metric", taskmanager="tm", host="h", metric={"scope": "task"}),
]  # fmt: skip


@pytest.mark.parametrize(
    "edges", [edges for n in (1, 2) for edges in combinations(range(1, len(ROWS) - 1), n)]
)
def test_splits_add_up_to_the_same_wherever_they_are_cut(edges: tuple[int, ...]) -> None:
    assert same(cut(ROWS, *edges), survey(*found_in(table(ROWS))))


def test_owners_and_midnights_are_carried_over() -> None:
    found = survey(*found_in(table(ROWS)))
    streams = {Stream(r["source"], r["owner"]): r for r in found.rows if r["what"] == "stream"}
    assert {stream.owner for stream in streams} == {None, "container_1", "container_2", "labelled"}
    assert streams[Stream(0, None)]["last_shown_us"] == 22 * HOUR_US
    second = streams[Stream(0, "container_2")]
    assert second["shown_us"] == DAY_US + 23 * HOUR_US
    assert second["last_shown_us"] == 2 * DAY_US + round(0.3 * HOUR_US)
    assert second["scopes"] == [{"taskmanager": "tm", "host": "h"}]
    assert (second["as_taskmanager"], second["without_job"], second["oldest"]) == (1, 1, 111)
    (shift,) = (row for row in found.rows if row["what"] == "shift")
    assert (shift["owner"], shift["other_owner"]) == ("container_2", "container_1")
    assert (shift["n"], shift["difference"]) == (1, round(21.5 * HOUR_US) // 1000)
    (mark,) = (row for row in found.rows if row["what"] == "mark")
    assert (mark["zone"], mark["n"], mark["printed"]) == (-HOUR_US // 2000, 1, True)
    (started,) = (row for row in found.rows if row["what"] == "rare")
    assert started["owner"] == "container_1"
    assert (found.has_headers, found.has_times) == (True, True)


def test_unambiguous_rows_need_no_window() -> None:
    found = survey(*found_in(table([{"event": "known", "offset": 0, "local_us": 1}])))
    assert (found.has_headers, found.has_times) == (False, False)


def test_a_split_row_alone_creates_no_stream() -> None:
    found = survey(*found_in(table([{"event": "split", "offset": 0, "fields": {"bytes": "0"}}])))
    assert [(row["what"], row["event"]) for row in found.rows] == [("rare", "split")]
    assert Event.SPLIT in RARE


def test_two_logs_keep_the_same_transitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marks_module, "MOST_TRANSITIONS", 10)
    by_jobmanager, by_taskmanager = (
        [
            Transition(
                owner=None, clock=None, attempt_id=f"{number}", to_state="RUNNING",
                by_jobmanager=where, shown_us=number,
            )
            for number in order
        ]
        for where, order in ((True, range(100)), (False, range(99, -1, -1)))
    )  # fmt: skip
    kept = [
        {each.attempt_id for each in limit_transitions(each)}
        for each in (by_jobmanager, by_taskmanager)
    ]
    assert kept[0] == kept[1]
    assert len(kept[0]) == 10
    assert {each.attempt_id for each in limit_transitions(by_jobmanager[:5])} == set("01234")


@pytest.mark.parametrize("enough", [1, 5, 1000])
def test_sources_at_once_have_the_marks_that_each_has_alone(
    enough: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marks_module, "_BATCH_ROWS", enough)
    sources = [
        table([{**row, "source": number} for row in ROWS[:-number]]).to_batches(max_chunksize=3)
        for number in (1, 2, 3)
    ]
    alone = [last for batches in sources for last in list(with_marks(batches))[-1:]]
    *events, last = with_marks(batch for batches in sources for batch in batches)
    assert events == [batch for batches in sources for batch in batches]
    assert last.column("source").to_pylist() == [1, 2, 3]
    assert survey([], marks_in(last)) == survey([], (m for one in alone for m in marks_in(one)))


def marks_in(batch: pa.RecordBatch) -> Iterator[Marks]:
    for row in batch.to_pylist():
        assert row["event"] == Event.MARKS
        yield decode(dict(row["fields"])["marks"])
