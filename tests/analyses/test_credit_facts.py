"""Facts that the credit model takes from measured queues, and the recorded values in credits.json."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from flowdiag.analyses.flink.job import Checkpoint, Status, SubtaskCheckpoint
from flowdiag.analyses.queues.credit_facts import ObservedJob, observe
from flowdiag.analyses.queues.facts import JobQueues, options_of
from tests.analyses.queues_workbench import MINUTE, Queues
from tests.archives import unpacked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2] / "fixtures" / "recordings" / "queues"
TASKS = (("Source: a", 1), ("Sink: b", 2))


def pressed() -> Queues:
    """Return a job whose sink is slow from the third minute on."""
    queues = Queues(tasks=TASKS, legacy_sources=False, minutes=6)
    queues.set_metrics("Source: a", busy=100.0, records_out=6000.0)
    queues.set_metrics("Source: a", 0, range(3, 6), back_pressured=800.0, records_out=1200.0)
    queues.set_metrics("Sink: b", busy=300.0, records_in=3000.0, bytes_in=300_000.0)
    queues.set_metrics(
        "Sink: b", None, range(3, 6), busy=990.0, records_in=600.0, bytes_in=60_000.0
    )
    return queues


def seen(job: JobQueues) -> ObservedJob:
    found = observe(job, {})
    assert found is not None
    return found


def test_rates_are_medians_of_the_later_half() -> None:
    queues = pressed()
    queues.set_metrics("Sink: b", 0, [4], busy=0.0, records_in=0.0)  # a hiccup
    found = seen(queues.job())
    source, sink = found.tasks
    assert [task.name for task in found.tasks] == ["Source: a", "Sink: b"]
    assert source.subtasks[0].records_out == pytest.approx(20.0)
    assert [s.records_in for s in sink.subtasks] == pytest.approx([10.0, 10.0])
    assert [s.busy for s in sink.subtasks] == [990.0, 990.0]
    assert sink.subtasks[0].bytes_in == pytest.approx(1000.0)
    assert sink.subtasks[0].taskmanager != sink.subtasks[1].taskmanager
    assert found.edges == (("Source: a", "Sink: b", "HASH"),) and found.version == (1, 20)


def test_one_sample_a_window_is_enough() -> None:
    queues = pressed()
    queues.per_minute = 1
    assert seen(queues.job()).tasks[0].subtasks[0].records_out == pytest.approx(20.0)


def test_earlier_checkpoints_do_not_count() -> None:
    queues = pressed()
    job = queues.job()
    checkpoints = tuple(
        Checkpoint(
            job=queues.key,
            run=0,
            id=number,
            status=Status.COMPLETED if number != 3 else Status.EXPIRED,
            type="checkpoint",
            triggered_us=queues.at(minute),
            duration_ms=duration,
        )
        for number, (minute, duration) in enumerate([(0.5, 40), (3.2, 5000), (4.0, 7000), (5.0, 1)])
    )
    parts = tuple(
        SubtaskCheckpoint(
            job=queues.key,
            checkpoint=2,
            vertex_id=None,
            task=task,
            subtask_index=0,
            acknowledged=True,
            end_to_end_ms=total,
            start_delay_ms=begun,
            alignment_ms=waited,
            sync_ms=2,
        )
        for task, total, begun, waited in (("Source: a", 14, 10, 0), ("Sink: b", 7000, 6000, 970))
    )
    facts = replace(job.job, checkpoints=checkpoints, subtask_checkpoints=parts)
    found = seen(replace(job, job=facts))
    assert found.checkpoint_ms == 6000.0
    assert found.overhead_ms == 40.0  # 10 before it began, and 30 in the sink itself
    assert found.snapshot_ms == {"Sink: b": 2.0, "Source: a": 2.0}
    early = replace(job, job=replace(facts, checkpoints=checkpoints[:1]))
    assert seen(early).checkpoint_ms is None


def test_missing_rates_give_no_model() -> None:
    queues = pressed()
    queues.linked = False
    assert observe(queues.job(), {}) is None
    silent = pressed()
    silent.minutes = 0
    assert observe(silent.job(), {}) is None
    assert MINUTE == pressed().job().window_us


@pytest.mark.spark
def test_extractions_match_the_recordings(spark: SparkSession) -> None:
    from flowdiag.analyses.diagnosis import measure
    from flowdiag.analyses.queues.topic import QUEUES
    from flowdiag.parsers.discover import discover

    folder = unpacked(ROOT / "1.10.3" / "pressed")
    found = discover([str(folder / "logs"), str(folder / "rest")])
    (job,) = measure((QUEUES,), found, lambda: spark).facts[QUEUES.name].jobs
    kept = json.loads((ROOT / "credits.json").read_bytes())["1.10.3/pressed"]["observed"]
    assert observe(job, options_of(job.job)) == msgspec.convert(kept, ObservedJob)
