"""GC logs show how long a TaskManager paused, with or without other inputs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flowdiag.analyses.diagnosis import inspect_inputs, measure, report_on
from flowdiag.analyses.flink.assemble.collectors import (
    CollectorLogs,
    read_collectors,
    with_collectors,
)
from flowdiag.analyses.flink.job import ClusterFacts, Garbage
from flowdiag.analyses.inputs import find
from flowdiag.analyses.selection.options import Options
from flowdiag.analyses.topics import topic
from flowdiag.parsers.flink.container_texts import pauses

from ..archives import FIXTURES, unpacked
from ..recordings import REPORTS
from .test_writers import writer
from .workbench import SECOND, T0, Bench

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UNIFIED = (
    "[{at:.3f}s][info][gc] GC({n}) Pause Full (G1 Evacuation Pause) 321M->277M(324M) {ms:.3f}ms"
)


def test_a_pause_has_a_time() -> None:
    (up,) = pauses(UNIFIED.format(at=50.093, n=3, ms=474.6) + "\n")
    assert (up.uptime_s, up.time_us) == (50.093, None)
    (dated,) = pauses(
        "[2026-11-22T18:49:19.123+0200][50.093s][info][gc] GC(1) Pause Full (x) 3M->2M(4M) 1.5ms\n"
    )
    assert (dated.uptime_s, dated.time_us) == (50.093, 1_795_366_159_123_000)
    (old,) = pauses(
        "2026-11-22T18:49:19.123+0000: 12.345: [Full GC (Ergonomics) [PSYoungGen: 1K->0K(9K)]"
        " [ParOldGen: 8K->7K(9K)] 9K->7K(18K), [Metaspace: 1K->1K(9K)], 0.5 secs]\n"
    )
    assert (old.uptime_s, old.time_us, old.ms) == (12.345, 1_795_373_359_123_000, 500.0)


def pausing_log(folder: Path, name: str, first_s: float, last_s: float) -> Path:
    """Return a collector log with a pause of 700 ms each second between two uptimes."""
    lines = [
        UNIFIED.format(at=second, n=number, ms=700)
        for number, second in enumerate(range(int(first_s), int(last_s)))
    ]
    path = folder / name
    path.write_text("[0.012s][info][gc] Using G1\n" + "\n".join(lines) + "\n")
    return path


def garbage_of(folder: Path, *, begun_s: float = 0.0) -> tuple[Garbage, ...]:
    """Return the garbage collection of a job on three TaskManagers, from the collector logs in a folder."""
    read = read_collectors(find([str(folder)], strict=False).sources)
    writers = [
        writer(
            100 + n,
            "taskmanager",
            taskmanager=f"tm-{n}",
            host=f"host-tm-{n}",
            first_us=T0 + round(begun_s * SECOND),
            last_us=T0 + 600 * SECOND,
        )
        for n in (1, 2, 3)
    ]
    names = {**read.names, **{100 + n: f"{folder}/taskexecutor-host-tm-{n}.log" for n in (1, 2, 3)}}
    facts = ClusterFacts(jobs=(Bench().job(),), processes=())
    found = with_collectors(facts, replace(read, names=names), writers)
    return found.jobs[0].garbage


def test_a_pause_is_assigned_by_taskmanager_name_and_log_time(
    tmp_path: Path,
) -> None:
    pausing_log(tmp_path, "gc-host-tm-2.log", 60, 240)
    found = garbage_of(tmp_path)
    assert {item.taskmanager for item in found} == {"tm-2"}
    assert [round(item.gc_ms / item.span_ms, 1) for item in found] == [0.0, 0.7, 0.7, 0.7]
    assert found[0].first_us == T0


def test_a_rotated_collector_log_ends_with_its_last_pause(tmp_path: Path) -> None:
    pausing_log(tmp_path, "gc-host-tm-2.log", 3_400, 3_700)
    found = garbage_of(tmp_path, begun_s=300.0)
    assert found[-1].last_us == pytest.approx(T0 + 600 * SECOND, abs=2 * SECOND)


@pytest.mark.parametrize("name", ["gc.log", "gc-jobmanager.log", "gc-tm-9.log"])
def test_a_log_without_a_process_names_no_taskmanager(name: str, tmp_path: Path) -> None:
    pausing_log(tmp_path, name, 60, 240)
    assert garbage_of(tmp_path) == ()


def test_metrics_take_precedence_over_collector_logs(tmp_path: Path) -> None:
    pausing_log(tmp_path, "gc-tm-2.log", 60, 240)
    read = read_collectors(find([str(tmp_path)], strict=False).sources)
    measured = Garbage(
        taskmanager="tm-2",
        host=None,
        gc_ms=1,
        span_ms=60_000,
        samples=6,
        first_us=T0,
        last_us=T0 + 1,
    )
    facts = ClusterFacts(jobs=(Bench().job(garbage=(measured,)),), processes=())
    assert with_collectors(facts, read, [writer(9, "taskmanager", taskmanager="tm-2")]).jobs[
        0
    ].garbage == (measured,)
    assert with_collectors(facts, None, []) is facts
    assert with_collectors(facts, CollectorLogs(names={}), []) is facts


@pytest.mark.spark
@pytest.mark.parametrize("version", ["1.14.6", "1.20.5"])
def test_without_metrics_the_log_of_the_collector_names_the_taskmanager(
    version: str, spark: SparkSession, tmp_path: Path
) -> None:
    logs = unpacked(FIXTURES / "recordings/flink" / version / "garbage") / "logs"
    for path in logs.iterdir():
        (tmp_path / path.name).write_bytes(REPORTS.sub(b"", path.read_bytes()))
    topics = (topic("checkpoints"),)
    inspected = inspect_inputs(topics, find([str(tmp_path)], strict=False), Options())
    report = report_on(topics, inspected, measure(topics, inspected, lambda: spark))
    (culprit,) = report.summary.culprits
    assert culprit.subject.taskmanager == "taskmanager-3"
    assert report.summary.cause == "garbage-collection"
    assert not [each for each in report.inputs if each.source.startswith("gc-") and each.reason]
