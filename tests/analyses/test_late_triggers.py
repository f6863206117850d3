"""Late triggers in a log at WARN, which contains no other triggers."""

from __future__ import annotations

from typing import Any

import pytest

from flowdiag.analyses.rate.assemble.late import late_triggers, without_inconclusive_late_triggers

SECOND = 1_000_000
START = 1_767_225_600 * SECOND


def late(end_s: float, spent_s: float) -> dict[str, Any]:
    """Return the line about a late trigger that ended some seconds after the log began."""
    return {
        "template": "falling-behind",
        "time_us": START + round(end_s * SECOND),
        "source": 0,
        "offset": round(end_s),
        "fields": {"interval_ms": "5000", "spent_ms": str(round(1000 * spent_s))},
    }


@pytest.mark.parametrize(
    ("rows", "first_us", "counted"),
    [
        ([late(21, 5.005)], START, 0),  # the first trigger starts workers
        ([late(900, 12)], START, 0),  # one of an hour
        ([late(0, 22)], START, 1),  # nothing but the line
        ([late(0, 22)], None, 1),
        ([late(20, 9), *(late(20 + 8 * n, 8) for n in range(1, 7))], START, 6),
        ([late(20, 15), late(22, 1.4)], START, 0),  # the second one catches up
        ([late(20, 9), late(44, 24)], START, 1),
        ([late(20, 9), late(300, 6), late(900, 6)], START, 0),  # most may be on time
    ],
)
def test_only_triggers_that_prove_an_overload_count(
    rows: list[dict[str, Any]], first_us: int | None, counted: int
) -> None:
    other = {"template": "real-time-mode", "source": 0, "offset": -1}
    again = [
        row | {"template": "known-record", "fields": {"class": "trigger-late"}} for row in rows
    ]
    kept = without_inconclusive_late_triggers([other, *rows, *again], first_us)
    assert kept[0] is other
    assert (len(late_triggers(kept)), len(kept)) == (counted, 1 + 2 * counted)


@pytest.mark.parametrize(
    ("last_s", "again_s", "counted"), [(75, None, 5), (150, None, 0), (150, 147, 0), (150, 149, 0)]
)
def test_late_triggers_do_not_count_if_later_ones_are_on_time(
    last_s: float, again_s: float | None, counted: int
) -> None:
    rows = [late(20, 9), *(late(20 + 8 * n, 8) for n in range(1, 6))]
    rows += [] if again_s is None else [late(again_s, 6)]
    kept = without_inconclusive_late_triggers(rows, START, START + round(last_s * SECOND))
    assert len(late_triggers(kept)) == counted
