"""Records and busy times of subtasks from REST responses and archives."""

from __future__ import annotations

from typing import Any

import pytest

from flowdiag.analyses.flink.assemble.reported_loads import reported_loads
from flowdiag.analyses.flink.tasks.pressure import read_loads, records_ratio
from flowdiag.analyses.flink.tasks.topology import Topology
from flowdiag.analyses.model.keys import JobKey

from .workbench import Bench

JOB = JobKey("", "a" * 32)


def row(
    index: int, records: str, fields: dict[str, str] | None = None, *, attempt: int = 0
) -> dict[str, Any]:
    return {
        "event": "placed",
        "task": "enrich",
        "subtask_index": index,
        "attempt": attempt,
        "taskmanager": "tm-1",
        "host": "worker-1",
        "duration_ms": 100_000,
        "source": 3,
        "offset": index,
        "fields": {"read-records": records, "read-records-complete": "true", **(fields or {})},
    }


def test_totals_become_shares() -> None:
    (load,) = reported_loads(
        [
            row(
                0,
                "5248",
                {
                    "ms_RUNNING": "50000",
                    "accumulated-busy-time": "45000.0",
                    "accumulated-backpressured-time": "0",
                },
            )
        ],
        lambda _: JOB,
    )
    assert (load.records_in, load.busy, load.back_pressured, load.idle) == (5248, 900, 0, None)
    assert (load.job, load.taskmanager, load.samples) == (JOB, "tm-1", 0)


@pytest.mark.parametrize("records", ["NaN", "-1", "many", ""])
def test_placeholders_are_ignored(records: str) -> None:
    (load,) = reported_loads([row(0, records)], lambda _: JOB)
    assert load.records_in is None


def test_incomplete_totals_and_older_attempts_do_not_count() -> None:
    rows = [
        row(0, "10", attempt=1),
        row(0, "99", attempt=0),
        row(1, "5", {"read-records-complete": "false"}),
        {**row(2, "7"), "event": "task_state"},
    ]
    found = reported_loads(rows, lambda _: None)
    assert [(load.subtask_index, load.records_in) for load in found] == [(0, 10)]


def test_reported_loads_complete_metric_reports() -> None:
    job = Bench()
    job.loaded({("enrich", 2): {"busy": 990.0}}, records_in=None)
    totals = reported_loads(
        [row(i, "90000" if i == 2 else "3000") for i in range(4)], lambda _: job.key
    )
    facts = job.job(loads=(*job.loads, *totals))
    loads = read_loads(facts, Topology(facts))
    members = [load for key, load in loads.items() if key.task == "enrich"]
    assert members[2].busy == 0.99 and members[2].is_sampled
    assert records_ratio(members[2], members, 4) == 30.0
