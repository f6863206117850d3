"""The credit model on real runs: fitted on one run, it predicts another run with changed settings.

`credits.json` contains, for each recording, the measurements by flowdiag (`observed`), and the values in Flink's REST
responses and metric reports (`real`). See fixtures/credit_pairs.py.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flowdiag.analyses.queues.credit_facts import (
    ObservedJob,
    ObservedSubtask,
    ObservedTask,
    bytes_of,
    debloating_of,
    flow_of,
)
from flowdiag.analyses.queues.credit_fit import (
    Fit,
    fit,
    predict,
    reference_task,
    what_if,
    with_more_subtasks,
)
from flowdiag.analyses.queues.credits.job import Edge, Flow, Job, ModelError, Task

ROOT = Path(__file__).parents[2] / "fixtures" / "recordings" / "queues"
SINK = "Sink: deliver"
Change = Callable[[Fit], dict[str, Any]]


@cache
def recorded(name: str) -> tuple[ObservedJob, dict[str, Any]]:
    document = json.loads((ROOT / "credits.json").read_bytes())[name]
    return msgspec.convert(document["observed"], ObservedJob), document["real"]


@cache
def fitted(name: str) -> Fit:
    return fit(recorded(name)[0])


@dataclass(frozen=True)
class Pair:
    """Runs before and after one change; `changed` names the figures that the change affects."""

    before: str
    after: str
    change: Change
    changed: tuple[str, ...]


def more_buffers(fitted: Fit) -> dict[str, Any]:
    return {"flow": replace(fitted.flow, per_channel=6)}


def debloated(fitted: Fit) -> dict[str, Any]:
    return {"flow": replace(fitted.flow, debloating=debloating_of(fitted.version, 200.0))}


def unaligned(fitted: Fit) -> dict[str, Any]:
    return {"flow": replace(fitted.flow, unaligned=True)}


def wide(fitted: Fit) -> dict[str, Any]:
    return {"job": with_more_subtasks(fitted.job, SINK, 2)}


def slower(fitted: Fit) -> dict[str, Any]:
    """Return the recorded change from 5 to 10 ms per record."""
    tasks = tuple(
        replace(task, service_ms=tuple(ms + 5.0 for ms in task.service_ms))
        if task.name == SINK
        else task
        for task in fitted.job.tasks
    )
    return {"job": replace(fitted.job, tasks=tasks)}


PAIRS = [
    Pair("1.20.5/pressed", "1.20.5/pressed-more-buffers", more_buffers, ("barrier", "queue")),
    Pair("1.20.5/pressed", "1.20.5/pressed-debloated", debloated, ("barrier",)),
    Pair("1.20.5/pressed", "1.20.5/pressed-unaligned", unaligned, ("barrier",)),
    # The distribution of keys over four subtasks is unknown in advance, and the fullest subtask delays barriers.
    Pair("1.20.5/pressed", "1.20.5/pressed-wide", wide, ("throughput", "queue")),
    Pair("1.20.5/pressed", "1.20.5/pressed-slower", slower, ("barrier", "throughput")),
    Pair("2.3.0/pressed", "2.3.0/pressed-debloated", debloated, ("barrier",)),
    Pair("1.14.6/pressed", "1.14.6/pressed-debloated", debloated, ("barrier",)),
    Pair("1.14.6/pressed", "1.14.6/pressed-more-buffers", more_buffers, ("barrier", "queue")),
    Pair("1.14.6/pressed", "1.14.6/pressed-unaligned", unaligned, ("barrier",)),
]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.after)
def test_a_changed_run_is_predicted(pair: Pair) -> None:
    _, before = recorded(pair.before)
    _, after = recorded(pair.after)
    model = fitted(pair.before)
    assert not model.is_poor, model.compared
    prediction = predict(model, pair.after, **pair.change(model))
    assert prediction.barrier_ms is not None
    figures = {
        "barrier": (before["checkpoint_ms"], prediction.barrier_ms, after["checkpoint_ms"]),
        "throughput": (before["records_per_s"], prediction.throughput, after["records_per_s"]),
        "queue": (before["queue"], prediction.queue, after["queue"]),
    }
    for name, (was, predicted, real) in figures.items():
        missed = abs(math.log(predicted / real))
        assert missed < math.log(2), (name, was, predicted, real)
        if name in pair.changed:
            assert missed < abs(math.log(was / real)), (name, was, predicted, real)


def test_the_model_excludes_the_time_to_store_overtaken_data() -> None:
    """This run stored channel state so slowly that the prediction is low by a factor of over two."""
    _, before = recorded("2.3.0/pressed")
    _, after = recorded("2.3.0/pressed-unaligned")
    prediction = predict(fitted("2.3.0/pressed"), "unaligned", **unaligned(fitted("2.3.0/pressed")))
    assert prediction.barrier_ms is not None and prediction.outcome is not None
    assert prediction.barrier_ms < after["checkpoint_ms"] < before["checkpoint_ms"] / 10
    assert max(b.overtaken_bytes for b in prediction.outcome.barriers) > 100_000


@pytest.mark.parametrize(
    "name", ["1.10.3/pressed", "1.14.6/pressed", "1.20.5/pressed", "2.3.0/pressed"]
)
def test_the_model_reproduces_the_recorded_run(name: str) -> None:
    model = fitted(name)
    assert model.bottleneck == SINK
    assert {c.name for c in model.compared} == {"throughput", "queue", "barrier"}
    assert model.error is not None and model.error < 1.5


# -- a fit on made-up facts ------------------------------------------------------------------------


def observed(**changes: Any) -> ObservedJob:
    """Return two sources that are back-pressured half of the time, and a sink that is always busy."""
    base = ObservedJob(
        tasks=(
            ObservedTask(
                name="Source: a",
                subtasks=tuple(
                    ObservedSubtask(
                        subtask_index=i, records_out=100.0, busy=500.0, back_pressured=500.0
                    )
                    for i in range(2)
                ),
            ),
            ObservedTask(
                name="b",
                subtasks=(
                    ObservedSubtask(
                        subtask_index=0, records_in=200.0, bytes_in=80_000.0, busy=1000.0, queue=8.0
                    ),
                ),
            ),
        ),
        edges=(("Source: a", "b", "HASH"),),
        flow=Flow(floating=4, segment_bytes=4096, interval_ms=1000.0),
        version=(1, 20),
    )
    return replace(base, **changes)


def test_costs_come_from_busy_times_and_rates() -> None:
    model = fit(observed())
    source, sink = model.job.tasks
    assert source.service_ms == (5.0, 5.0) and source.record_bytes == 400.0
    assert sink.service_ms == (5.0,) and model.bottleneck == "b"
    assert not model.is_poor


def test_a_poor_fit_is_reported() -> None:
    base = observed()
    overloaded = replace(base.tasks[1].subtasks[0], queue=500.0)
    tasks = (base.tasks[0], replace(base.tasks[1], subtasks=(overloaded,)))
    model = fit(observed(tasks=tasks))
    assert model.is_poor and model.error is not None and model.error > 10


def test_a_large_barrier_error_does_not_scale_predictions() -> None:
    model = fit(observed(checkpoint_ms=60_000.0))
    assert model.is_poor and model.scale == 1.0


def test_without_busy_times_the_end_of_back_pressure_is_the_slow_task() -> None:
    base = observed()
    sources = tuple(
        replace(s, busy=None, back_pressured=None, is_back_pressured=1.0)
        for s in base.tasks[0].subtasks
    )
    sink = replace(base.tasks[1].subtasks[0], busy=None, is_back_pressured=0.0)
    tasks = (
        replace(base.tasks[0], subtasks=sources),
        replace(base.tasks[1], subtasks=(sink,)),
    )
    model = fit(observed(tasks=tasks, version=(1, 10)))
    assert model.bottleneck == "b" and model.job.tasks[1].service_ms == (5.0,)
    assert any("unknown" in note for note in model.notes)


def test_missing_observations_are_assumed_or_rejected() -> None:
    base = observed()
    silent = tuple(replace(s, records_out=None) for s in base.tasks[0].subtasks)
    nothing = replace(base.tasks[1].subtasks[0], records_in=None)
    tasks = (replace(base.tasks[0], subtasks=silent), replace(base.tasks[1], subtasks=(nothing,)))
    with pytest.raises(ModelError, match="sent nothing"):
        fit(observed(tasks=tasks))
    sized = replace(base.tasks[1].subtasks[0], bytes_in=None)
    tasks = (base.tasks[0], replace(base.tasks[1], subtasks=(sized,)))
    assert "size" in fit(observed(tasks=tasks)).notes[0]


def test_remedies_match_the_version() -> None:
    def names(version: tuple[int, int], **flow: Any) -> list[str]:
        base = observed()
        changed = replace(base, version=version, flow=replace(base.flow, **flow))
        return [item.name.split(" (")[0] for item in what_if(fit(changed), "unchanged")]

    every = ["unchanged", "fewer buffers", "buffer debloating", "unaligned checkpoints"]
    assert names((1, 20)) == [*every, "b with 2 subtasks"]
    assert names((1, 10)) == [*every[:2], "b with 2 subtasks"]
    assert names((2, 3), unaligned=True) == ["unchanged", "buffer debloating", "b with 2 subtasks"]


def test_a_hot_key_stays_together() -> None:
    job = Job(
        tasks=(Task(name="a", service_ms=(1.0,)), Task(name="b", service_ms=(1.0,) * 4)),
        edges=(Edge(upstream="a", downstream="b", shares=(0.7, 0.1, 0.1, 0.1)),),
    )
    (edge,) = with_more_subtasks(job, "b", 2).edges
    assert len(edge.shares) == 8 and sum(edge.shares) == pytest.approx(1.0)
    assert (
        max(edge.shares) > 0.5
    )  # a quarter of the records is evenly distributed; the rest has one key
    assert reference_task(None, job) == "b"


def test_options_by_version() -> None:
    network = "taskmanager.network.memory"
    options = {
        f"{network}.buffers-per-channel": "4",
        f"{network}.floating-buffers-per-gate": "3",
        f"{network}.buffer-debloat.enabled": "true",
        f"{network}.buffer-debloat.target": "300 ms",
        "taskmanager.memory.segment-size": "16kb",
        "execution.checkpointing.interval": "3 s",
        "execution.checkpointing.unaligned.enabled": "true",
        "execution.checkpointing.aligned-checkpoint-timeout": "5 s",
    }
    new, old = flow_of(options, (2, 3)), flow_of(options, (1, 13))
    assert (new.per_channel, new.floating, new.overdraft) == (2, 8, 20)
    assert (old.per_channel, old.floating, old.overdraft) == (4, 3, 0)
    assert new.debloating is not None and new.debloating.start_bytes == 1024
    assert old.debloating is None and old.segment_bytes == 16384
    assert not new.unaligned and new.aligned_timeout_ms == 5000.0 and new.interval_ms == 3000.0
    assert debloating_of((1, 14), 1000.0).least_bytes == 1024
    assert bytes_of("lots", 5) == 5
