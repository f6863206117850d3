"""Checks that several processes write the rows of a single process, even if some of them die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from flowdiag.parsers import parallel
from flowdiag.parsers.discover import discover
from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.packing import PACKED, packed
from flowdiag.parsers.parallel import ParsedRows, parse_in_processes, parse_task
from flowdiag.parsers.rows import Event
from flowdiag.parsers.split import Split, parse_on_driver, plan_splits
from tests.archives import unpacked

RECORDING = Path(__file__).parents[2] / "fixtures/recordings/flink/1.20.5/hot-key"
posix_only = pytest.mark.skipif(os.name != "posix", reason="kills processes")


@pytest.fixture(scope="module")
def tasks() -> list[list[Split]]:
    """Return one task per file."""
    found = plan_splits(discover([str(unpacked(RECORDING) / "logs")]).sources)
    return [[split] for task in found for split in task]


def sorted_rows(table: pa.Table) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.to_pylist()
    return sorted(rows, key=lambda row: (row["source"], row["offset"], row["event"], str(row)))


def rows_of(parsed: ParsedRows) -> list[dict[str, Any]]:
    """Return the rows without marks."""
    table = pa.concat_tables([parsed.events.table(), parsed.metrics.table()])
    return sorted_rows(table.filter(pc.not_equal(table["event"], Event.MARKS.value)))


def test_rows_are_those_of_one_process(tasks: list[list[Split]], tmp_path: Path) -> None:
    parsed = parse_in_processes(tasks, tmp_path, processes=2)
    expected = parse_on_driver(tasks)
    assert rows_of(parsed) == sorted_rows(packed(expected))
    assert parsed.metrics.table().schema == PACKED
    kinds = set(parsed.events.table()["event"].to_pylist())
    assert Event.METRIC.value not in kinds
    assert set(parsed.metrics.table()["event"].to_pylist()) == {Event.METRIC.value}
    assert parsed.events.count == parsed.events.table().num_rows
    assert parsed.metrics.count == parsed.metrics.table().num_rows > 20
    marks = parsed.events.of_kinds({Event.MARKS.value})
    assert len(set(marks["source"].to_pylist())) == len(tasks)


def test_only_requested_metrics_are_kept(tasks: list[list[Split]], tmp_path: Path) -> None:
    parsed = parse_in_processes(tasks, tmp_path, processes=1, metrics={"busyTimeMsPerSecond"})
    metrics = parsed.metrics.table()["metrics"].to_pylist()
    assert {name for row in metrics for name, _ in row} == {"busyTimeMsPerSecond"}


def test_section_headers_stay_with_their_metrics(tmp_path: Path) -> None:
    log = tmp_path / "application_1_0001.log"
    container = "container_1_0001_01_00000"
    report = (
        "2026-01-05 10:00:00,000 INFO  org.apache.flink.metrics.slf4j.Slf4jReporter [] - \n"
        "=========================== Starting metrics report ===========================\n\n"
        "-- Gauges ---------------------------------------------------------------------\n"
        "host.taskmanager.tm-N.job.map.0.busyTimeMsPerSecond: 900\n\n"
        "=========================== Finished metrics report ===========================\n"
    )
    log.write_text(
        "".join(
            f"Container: {container}{n} on host_1\nLogType:x.log\n{report.replace('N', n)}"
            for n in ("1", "2")
        )
    )
    tasks = plan_splits(discover([str(log)]).sources)
    parsed = parse_in_processes(tasks, tmp_path / "rows", processes=1)
    rows = sorted_rows(parsed.metrics.table())
    assert [row["process"] for row in rows if row["event"] == "section" and row["process"]] == [
        f"{container}1",
        f"{container}2",
    ]
    assert sum(row["event"] == "metric" for row in rows) == 2
    again = parsed.events.of_kinds({"section"})
    assert again.num_rows == sum(row["event"] == "section" for row in rows)


def test_rows_that_are_in_memory_already_go_into_one_file(
    tasks: list[list[Split]], tmp_path: Path
) -> None:
    rows = packed(parse_on_driver(tasks))
    written = parallel.rows_in_file(rows, tmp_path / "new")
    assert written.count == rows.num_rows
    assert written.table().to_pylist() == rows.to_pylist()
    assert parallel.rows_in_file(rows.slice(0, 0), tmp_path).files == ()


def children() -> Iterator[int]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() and b"parallel import serve" in (
                stat.with_name("cmdline").read_bytes()
            ):
                yield int(stat.parent.name)
        except OSError:
            continue


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_tasks_of_a_killed_process_are_parsed(tasks: list[list[Split]], tmp_path: Path) -> None:
    killed: list[int] = []

    def kill() -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not killed:
            for child in children():
                os.kill(child, signal.SIGKILL)
                killed.append(child)
            time.sleep(0.001)

    killer = threading.Thread(target=kill)
    killer.start()
    parsed = parse_in_processes(tasks, tmp_path, processes=2)
    killer.join()
    assert killed
    assert rows_of(parsed) == sorted_rows(packed(parse_on_driver(tasks)))
    assert not list(children())


INTERRUPTED = """
import sys, threading, time
from pathlib import Path
from flowdiag.parsers import parallel
from flowdiag.parsers.split import plan_splits
from flowdiag.parsers.discover import discover
tasks = [[split] for task in plan_splits(discover([sys.argv[1]]).sources) for split in task]
print("ready", flush=True)
while True:  # until it is interrupted, wherever it is
    parallel.parse_in_processes(tasks, Path(sys.argv[2]), processes=2)
"""


@posix_only
@pytest.mark.parametrize("after_s", [0.05, 0.6, 0.9])
def test_ctrl_c_ends_all_processes_silently(tmp_path: Path, after_s: float) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(unpacked(RECORDING) / "logs"), str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(after_s)
        process.send_signal(signal.SIGINT)
        _, complaints = process.communicate(timeout=60)
    assert complaints.rstrip().endswith("KeyboardInterrupt")
    assert complaints.count("Traceback") == 1
    assert "(feed)" not in complaints


@posix_only
def test_a_process_ends_with_its_parent() -> None:
    with subprocess.Popen(
        [sys.executable, "-P", "-c", f"from {parallel.__name__} import serve; serve()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(timeout=60) == 0


@pytest.mark.parametrize("in_the_way", ["rows", "rows/events-000000-000000.parquet/folder"])
def test_a_write_failure_is_one_clear_error(
    tasks: list[list[Split]], tmp_path: Path, in_the_way: str
) -> None:
    (tmp_path / in_the_way).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / in_the_way).write_text("")
    with pytest.raises(FlowdiagError, match="cannot write parsed rows") as raised:
        parse_in_processes(tasks, tmp_path / "rows", processes=1)
    assert "TMPDIR" in (raised.value.hint or "")


def test_a_repeated_task_replaces_its_old_rows(tasks: list[list[Split]], tmp_path: Path) -> None:
    first = parse_task(tasks[0], tmp_path, 0, None)
    (tmp_path / "events-000000-000000.parquet").write_bytes(b"half a fi")
    assert parse_task(tasks[0], tmp_path, 0, None) == first
