"""Progress reports with damaged lines: everything else in them is read."""

from __future__ import annotations

import json
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from flowdiag.parsers.spark.reports import printed_reports

REPORT: Final[dict[str, Any]] = {
    "id": "2a5f2f0e-7d1b-4c4e-9c83-60a1f3f7c8d1",
    "runId": "8f1d8a0b-52a7-4a1e-b1a7-5c6f52d1c0aa",
    "name": "orders",
    "timestamp": "2026-03-02T10:15:30.000Z",
    "batchId": 12,
    "numInputRows": 4000,
    "inputRowsPerSecond": 400.0,
    "durationMs": {"addBatch": 48000, "triggerExecution": 50000},
    "sources": [{"description": "KafkaV2[Subscribe[orders]]", "numInputRows": 4000}],
}
LINES: Final = json.dumps(REPORT, indent=2).split("\n")
# Without the braces, and the four fields without which no report is recognized.
FIELDS: Final = [number for number in range(5, len(LINES)) if '": ' in LINES[number]]


def damage(number: int, character: str) -> str:
    """Return the report without the last such character of a line."""
    before, _, after = LINES[number].rpartition(character)
    return "\n".join([*LINES[:number], before + after, *LINES[number + 1 :]])


@given(st.sampled_from([n for n in FIELDS if not LINES[n].endswith(("{", "["))]))
def test_a_missing_quote_costs_one_line(number: int) -> None:
    text = "some text above\n" + damage(number, '"')
    ((offset, row, damaged),) = printed_reports(text.encode())
    assert offset == len("some text above\n")
    assert damaged == [number + 2]
    assert row["checkpoint"] == (None if '"batchId"' in LINES[number] else 12)


def test_an_undamaged_report_is_read_whole() -> None:
    ((_, row, damaged),) = printed_reports("\n".join(LINES).encode())
    assert (row["checkpoint"], damaged) == (12, [])


def test_a_report_with_many_damaged_lines_is_not_read() -> None:
    text = "\n".join(line.replace('":', ":") if n > 4 else line for n, line in enumerate(LINES))
    assert list(printed_reports(text.encode())) == []
