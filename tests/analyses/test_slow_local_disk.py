"""Slow local disks of RocksDB, in hand-written logs and metrics."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from flowdiag.analyses.model.finding import Confidence, Finding
from flowdiag.analyses.neighbours.facts import Neighbours, StoreRecord
from flowdiag.analyses.queues.facts import JobQueues, StoreMetric
from flowdiag.analyses.queues.rules import slow_local_disk
from flowdiag.parsers.neighbours.store_log import StoreOwner, read_store_log

from .queues_workbench import judged
from .test_stores import REF, TASK, busy_job, findings, store

MIB = 1 << 20
AT = 1_795_855_844.0
"""2026-11-28 08:50:44 UTC, in seconds."""


def line(second: float, text: str) -> str:
    """Return a line of RocksDB's LOG, some seconds after `AT`."""
    minute, rest = divmod(44 + second, 60)
    return f"2026/11/28-08:{50 + int(minute):02}:{rest:09.6f} 7f83c5bfe6c0 {text}\n"


def event(second: float, job: int, name: str) -> str:
    content = {"time_micros": int((AT + second) * 1e6), "job": job, "event": name, "lsm_state": [1]}
    return line(second, f"EVENT_LOG_v1 {json.dumps(content)}")


def flush(second: float, takes: float, size: int, job: int, *, finishes: bool = True) -> str:
    """Return the lines of a flush."""
    text = event(second, job, "flush_started")
    text += line(
        second + 1,
        f"[/flush_job.cc:434] [sums] [JOB {job}] Level-0 flush table #7: {size} bytes OK",
    )
    end = second + takes
    return text + (event(end, job, "flush_finished") if finishes else line(end, "DUMPING STATS"))


def with_log(job: JobQueues, text: str) -> JobQueues:
    assert job.job.graph is not None
    vertex = next(v.vertex_id for v in job.job.graph.vertices if v.task == TASK) or ""
    owner = StoreOwner(job_id="a" * 32, operator_id=vertex, subtask_index=2)
    rows = tuple(StoreRecord(row, owner, REF) for row in read_store_log(text))
    return replace(job, neighbours=Neighbours(stores=rows))


def of_log(text: str) -> list[Finding]:
    return findings(slow_local_disk, with_log(busy_job(), text))


def test_the_log_has_the_duration_and_the_size_of_each_flush() -> None:
    first, second = read_store_log(flush(0, 66, 1_509_112, 9) + flush(70, 3, 64 * MIB, 10))
    assert (first.kind, first.family, first.amount, first.ms) == (
        "flush",
        "sums",
        1_509_112,
        66_000,
    )
    assert second.time_us == int((AT + 73) * 1e6)
    assert read_store_log(flush(0, 1.5, 64 * MIB, 9)) == []


def test_flushes_that_overlap_belong_to_their_jobs() -> None:
    text = event(0, 3, "flush_started") + flush(1, 4, MIB, 4) + event(10, 3, "flush_finished")
    assert [round(row.ms or 0) for row in read_store_log(text)] == [4000, 10_000]


def test_a_flush_of_a_minute_is_the_culprit() -> None:
    (found,) = of_log(flush(0, 66, 1_509_112, 9))
    assert (found.cause, found.subject.task, found.confidence) == (
        "slow-local-disk",
        TASK,
        Confidence.HIGH,
    )
    assert "takes 1 min 6 s to write 1.4 MiB" in found.title
    assert [action.command for action in found.actions] == [None] * len(found.actions)
    job = with_log(busy_job(), flush(0, 66, 1_509_112, 9))
    assert {(c.subject.task, c.cause) for c in judged(job).culprits} == {(TASK, "slow-local-disk")}


def test_a_flush_that_has_not_finished_lasts_until_the_end_of_the_log() -> None:
    (found,) = of_log(flush(0, 40, MIB, 9, finishes=False))
    assert "takes 40 s" in found.title


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("".join(flush(10 * n, 3, MIB, n) for n in range(3)), 1),
        ("".join(flush(10 * n, 3, MIB, n) for n in range(2)), 0),
        ("".join(flush(10 * n, 3, 64 * MIB, n) for n in range(3)), 0),
        (flush(0, 40, 4 << 30, 9), 0),
    ],
    ids=["three", "two", "large ones", "one of 4 GiB"],
)
def test_several_short_flushes_count_if_they_write_little(text: str, count: int) -> None:
    assert len(of_log(text)) == count


def of_metrics(*stores: StoreMetric) -> list[Finding]:
    return findings(slow_local_disk, busy_job(*stores))


BUFFERS = store("cur-size-all-mem-tables", 12.0 * MIB, 2.0 * MIB, 1.5 * MIB, 1.5 * MIB)


def test_metrics_show_one_flush_while_no_file_is_added() -> None:
    running = store("num-running-flushes", 0, 1, 1, 0)
    (found,) = of_metrics(running, store("total-sst-files-size", 5e6, 6e6, 6e6, 7e6), BUFFERS)
    assert (found.cause, found.confidence) == ("slow-local-disk", Confidence.MEDIUM)
    assert "takes 1 min for a flush" in found.title


@pytest.mark.parametrize(
    ("running", "sizes", "buffers"),
    [
        ((0, 1, 1, 0), (5e6, 6e6, 7e6, 8e6), BUFFERS),
        ((0, 1, 0, 1), (5e6, 5e6, 5e6, 5e6), BUFFERS),
        ((0, 1, 1, 0), (5e6, 6e6, 6e6, 7e6), store("cur-size-all-mem-tables", 1e9, 1e9)),
    ],
    ids=["several flushes", "a flush in some samples", "much to write"],
)
def test_other_samples_are_no_slow_flush(
    running: tuple[float, ...], sizes: tuple[float, ...], buffers: StoreMetric
) -> None:
    found = of_metrics(
        store("num-running-flushes", *running), store("total-sst-files-size", *sizes), buffers
    )
    assert found == []


def test_without_the_size_of_the_files_it_may_be_several_flushes() -> None:
    assert of_metrics(store("num-running-flushes", 1, 1, 1, 1), BUFFERS) == []
