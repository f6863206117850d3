"""The ratio of a subtask's data to its siblings' covers the windows in which the data was skewed."""

from __future__ import annotations

import pytest

from flowdiag.analyses.flink.tasks.placement import SubtaskKey
from flowdiag.analyses.flink.tasks.pressure import Load, Loads
from flowdiag.analyses.flink.tasks.shares import data_share


def window(*records: float) -> Loads:
    """Return the loads of a task whose subtasks received these numbers of records."""
    keys = (SubtaskKey("enrich", index) for index in range(len(records)))
    return {
        key: Load(
            key=key,
            taskmanager=None,
            busy=None,
            back_pressured=None,
            records=number,
            queue=None,
            measured=False,
            wait_measured=False,
            samples=6,
            ref=None,
        )
        for key, number in zip(keys, records, strict=True)
    }


EVEN = window(100, 100, 100)
FIRST_IS_HOT = window(900, 100, 100)
LAST_IS_HOT = window(100, 100, 500)


@pytest.mark.parametrize(
    ("windows", "index", "ratio", "during"),
    [
        ([EVEN, FIRST_IS_HOT, FIRST_IS_HOT], 0, 9.0, " while the skew lasted"),
        ([FIRST_IS_HOT, LAST_IS_HOT, EVEN], 0, 9.0, " while the skew lasted"),
        ([FIRST_IS_HOT, LAST_IS_HOT, EVEN], 2, 5.0, " while the skew lasted"),
        ([EVEN, window(150, 100, 100)], 0, 3.0, " while upstream tasks waited"),
        ([], 0, 3.0, " while upstream tasks waited"),
    ],
)
def test_a_ratio_covers_the_windows_with_skewed_data(
    windows: list[Loads], index: int, ratio: float, during: str
) -> None:
    judged = window(300, 100, 100)
    load = judged[SubtaskKey("enrich", index)]
    share = data_share(windows, load, [*judged.values()], 3, " while upstream tasks waited")
    assert (share.records, share.bytes, share.during) == (ratio, None, during)
    assert share.text == f"{ratio} times the records of its siblings{during}"
