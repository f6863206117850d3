"""Judges recordings about event time in other forms of input: metric reports in a log, and scrapes for Prometheus.

The forms contain the metrics that `flowdiag collect` stored, as Flink's reporters write them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from flowdiag.analyses.diagnosis import diagnose
from flowdiag.analyses.selection.options import Options
from flowdiag.analyses.topics import topic
from flowdiag.parsers.discover import discover

from .archives import unpacked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parents[1] / "fixtures" / "recordings" / "live" / "2.3.0"
JOB = re.compile(r"/jobs/[0-9a-f]{32}")
OF_VERTEX = re.compile(r"/jobs/(?P<job>[0-9a-f]{32})/vertices/(?P<vertex>[0-9a-f]{32})/metrics")
OF_TASK = re.compile(
    r"num(?:Records|Bytes)(?:In|Out)|(?:idle|busy|backPressured)TimeMsPerSecond|isBackPressured|currentInputWatermark"
    r"|Shuffle\..+|checkpoint.+|accumulate.+|max.+|mailbox.+|buffers\..+|numFiredTimers.*|(?:in|num).+|estimated.+|debl.+"
)
OF_OPERATOR = re.compile(
    r"numRecords(?:In|Out)|numLateRecordsDropped|currentOutputWatermark|current(?:Fetch|Emit)EventTimeLag|sourceIdleTime"
    r"|pendingRecords|watermark(?:AlignmentDrift|Lag)|split\..+"
)


class Sample(NamedTuple):
    """A metric of a subtask, or of an operator of its chain."""

    time_ms: int
    vertex: str
    task: str
    subtask: str
    operator: str | None
    name: str
    value: str


def samples(collected: Path) -> Iterator[Sample]:
    tasks: dict[str, str] = {}
    for path in sorted(collected.glob("tick-*")):
        tick = json.loads(path.read_bytes())
        for answer in tick["answers"]:
            if JOB.fullmatch(answer["path"]):
                tasks |= {v["id"]: v["name"] for v in answer["body"].get("vertices", ())}
        for answer in tick["answers"]:
            if (found := OF_VERTEX.fullmatch(answer["path"])) is not None:
                yield from _of_vertex(
                    tick["time_ms"], found["vertex"], tasks[found["vertex"]], answer["body"]
                )


def _of_vertex(
    time_ms: int, vertex: str, task: str, body: list[dict[str, str]]
) -> Iterator[Sample]:
    for metric in body:
        index, _, rest = metric["id"].partition(".")
        operator, _, name = rest.partition(".")
        value = metric.get("value")
        if value is None:
            continue
        if OF_OPERATOR.fullmatch(name):
            yield Sample(time_ms, vertex, task, index, operator, name, value)
        elif OF_TASK.fullmatch(rest):
            yield Sample(time_ms, vertex, task, index, None, rest, value)


def as_reports(found: list[Sample], folder: Path) -> None:
    """Write the samples as Flink's SLF4J reporter writes them to the log of a TaskManager."""
    lines = []
    for time_ms in sorted({sample.time_ms for sample in found}):
        time = datetime.fromtimestamp(time_ms / 1000, UTC)
        stamp = f"{time:%Y-%m-%d %H:%M:%S},{time_ms % 1000:03}"
        lines += [
            f"{stamp} INFO  org.apache.flink.metrics.slf4j.Slf4jReporter [] - ",
            "=========================== Starting metrics report ===========================",
            "",
            "-- Gauges " + "-" * 70,
            *(
                f"worker-1.taskmanager.taskmanager-1.orders.{s.operator or s.task}.{s.subtask}.{s.name}: {s.value}"
                for s in found
                if s.time_ms == time_ms
            ),
            "",
            "=========================== Finished metrics report ===========================",
            "",
        ]
    (folder / "flink-taskexecutor-0-worker-1.log").write_text("\n".join(lines))


def as_scrapes(found: list[Sample], folder: Path) -> None:
    """Write the samples as scrapes of Flink's Prometheus reporter, with their times in the names of the files."""
    for time_ms in sorted({sample.time_ms for sample in found}):
        lines = []
        for s in (s for s in found if s.time_ms == time_ms):
            labels = {
                "job_name": "orders",
                "job_id": "a" * 32,
                "task_id": s.vertex,
                "task_name": re.sub(r"[^\w:]", "_", s.task),
                "subtask_index": s.subtask,
                "tm_id": "taskmanager_1",
                "host": "worker_1",
            }
            scope, name = "task", s.name
            if s.operator is not None:
                labels |= {"operator_name": re.sub(r"[^\w:]", "_", s.operator)}
                scope = "task_operator"
            if name.startswith("split."):
                split, _, name = name.removeprefix("split.").rpartition(".watermark.")
                labels["split"], name = split, f"split.watermark.{name}"
            text = re.sub(r"[^\w:]", "_", name)
            shown = ",".join(f'{key}="{value}"' for key, value in labels.items())
            lines.append(f"flink_taskmanager_job_{scope}_{text}{{{shown},}} {number(s.value)}")
        time = datetime.fromtimestamp(time_ms / 1000, UTC)
        (folder / f"scrape-{time:%Y%m%dT%H%M%SZ}.prom").write_text("\n".join(lines) + "\n")


def number(value: str) -> str:
    return {"true": "1.0", "false": "0.0"}.get(value, value)


FORMS: dict[str, Callable[[list[Sample], Path], None]] = {
    "reports": as_reports,
    "scrapes": as_scrapes,
}


# No metric shows whether windows need event time. A plan does.
LESS_CERTAIN = {"no-watermarks": ("inconclusive", None, "No source emits a watermark")}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "name",
    [
        "silent-split",
        "no-watermarks",
        *(
            pytest.param(name, marks=pytest.mark.full)
            for name in ("microseconds", "quiet-join", "replay", "idleness-configured")
        ),
    ],
)
def test_the_same_cause_in_other_forms(
    name: str, form: str, spark: SparkSession, tmp_path: Path
) -> None:
    recording = ROOT / name
    FORMS[form](list(samples(unpacked(recording) / "collected")), tmp_path)
    report = diagnose(
        (topic("queues"),),
        discover([str(tmp_path)]),
        lambda: spark,
        Options(named=(str(tmp_path),), everything=True),
    )
    expected = json.loads((recording / "truth.json").read_text())["expected"]
    verdict, cause, reason = LESS_CERTAIN.get(name, (expected["verdict"], expected["cause"], ""))
    assert (report.summary.verdict, report.summary.cause) == (verdict, cause)
    assert any(reason in (rule.reason or "") for rule in report.rules)
    if cause is None:
        assert report.findings == []
    elif form == "reports":
        assert report.summary.culprits[0].subject.task == expected["culprit"]["task"]
