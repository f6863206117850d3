"""Odd metric values never break the judgement or the charts."""

from __future__ import annotations

import random
from datetime import UTC

import msgspec
import pytest
from rich.console import Console

from flowdiag.analyses.contract.report import Data, Fault
from flowdiag.analyses.queues.data import queue_taskmanagers, queue_vertices
from flowdiag.analyses.report.build import failed_report
from flowdiag.cli.text.page import Page
from flowdiag.cli.text.words import Clock
from flowdiag.cli.views.queues import blocks

from .queues_workbench import Queues, facts_of, findings, judged, reasons

GAUGES = (
    "busy",
    "idle",
    "back_pressured",
    "is_back_pressured",
    "input_queue",
    "in_pool",
    "floating",
    "exclusive",
    "out_pool",
    "records_in",
    "bytes_in",
    "pending",
    "watermark",
)
VALUES = (0.0, 1.0, 1e-9, 500.0, 1000.0, 1e12, 1e18, -5.0)
VERSIONS = ("1.4.2", "1.8.0", "1.9.3", "1.12.5", "1.20.5", "2.3.0")


@pytest.mark.parametrize("seed", range(40))
def test_unusual_numbers(seed: int) -> None:
    draw = random.Random(seed)
    sizes = [draw.randint(1, 5) for _ in range(draw.randint(1, 4))]
    tasks = tuple((f"{'' if n else 'Source: '}t{n}", size) for n, size in enumerate(sizes))
    bench = Queues(
        tasks=tasks,
        version=draw.choice(VERSIONS),
        minutes=draw.randint(0, 6),
        per_minute=draw.randint(1, 12),
        managers=draw.randint(1, 4),
        linked=draw.random() < 0.8,
        machines={
            "taskmanager-1": {
                name: draw.choice([0.0, 1.0, 100.0, 1e9])
                for name in ("gc_ms", "heap_used", "heap_max", "cpu", "segments", "segments_free")
            }
        },
    )
    for task, size in tasks:
        for index in range(size):
            if draw.random() < 0.1:
                bench.absent.add((task, index))
            for minute in range(bench.minutes):
                values = {name: draw.choice(VALUES) for name in GAUGES if draw.random() < 0.5}
                bench.set_metrics(task, index, [minute], **values)
    job = bench.job()
    # A partition of the source may be hot; otherwise the source is never accused.
    accused = {c.subject.task for c in judged(job).culprits if c.cause != "hot-partition"}
    assert accused <= {task for task, _ in tasks[1:]} | {None}
    assert all(item.reason and item.checks for item in reasons(job))
    titles = [finding.title for finding in findings(job).values()]
    assert [each for each in titles if each.startswith("0 ") or "up to 0%" in each] == []
    facts = facts_of(job)
    for unicode in (True, False):
        page = Page(width=60, unicode=unicode, verbose=1)
        console = Console(width=60, record=True)
        data = Data(vertices=queue_vertices(facts, 5), taskmanagers=queue_taskmanagers(facts, 5))
        report = msgspec.structs.replace(failed_report("queues", Fault()), data=data)
        for block in blocks(report, page, Clock("UTC", UTC)):
            console.print(block)
        assert bench.minutes == 0 or "Graph" in console.export_text()
