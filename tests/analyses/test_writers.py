"""The process of each stream, and the cluster of each process."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdiag.analyses.checkpoints.data import checkpoint_data
from flowdiag.analyses.flink.assemble import assemble
from flowdiag.analyses.flink.clocks.settle import (
    Clock,
    Segment,
    Writer,
    assign_clusters,
    settle,
    share_within_log,
)
from flowdiag.analyses.flink.clocks.survey import Stream, _empty_stream
from flowdiag.analyses.flink.job import ClusterFacts
from flowdiag.analyses.model.finding import Verdict

from .workbench import Bench

JOB, OTHER = "a" * 32, "b" * 32


def writer(source: int, role: str, cluster: str = "logs", **more: Any) -> Writer:
    values: dict[str, Any] = {
        "stream": Stream(source, None),
        "role": role,
        "cluster": cluster,
        "version": None,
        "wording": None,
        "taskmanager": None,
        "host": None,
        "job_ids": (),
        "lacks_job": False,
        "clock": Clock(segments=(Segment(0, -(2**62), 0),), known_from="assumed"),
        "events": 1,
        "logged": True,
        "dated": True,
        "first_us": source,
    }
    return Writer(**(values | more))


def test_parts_of_a_rolled_log_share_facts_of_the_oldest() -> None:
    newest = writer(0, "taskmanager", first_us=300)
    middle = writer(1, "unknown", first_us=200, taskmanager="tm-1", host="worker-1")
    oldest = writer(
        2, "taskmanager", cluster="prod", named_cluster=True, first_us=100, version="1.20.5"
    )
    for part in share_within_log([newest, middle, oldest]):
        assert (part.role, part.version, part.taskmanager, part.host, part.cluster) == (
            "taskmanager",
            "1.20.5",
            "tm-1",
            "worker-1",
            "prod",
        )


def test_a_restarted_process_of_another_version_does_not_change_earlier_parts() -> None:
    parts = [
        writer(0, "jobmanager", first_us=100),
        writer(1, "jobmanager", first_us=200, version="1.18.1"),
        writer(2, "jobmanager", first_us=300),
        writer(3, "jobmanager", first_us=400, version="1.20.5"),
    ]
    assert [part.version for part in share_within_log(parts)] == [
        None,
        "1.18.1",
        "1.18.1",
        "1.20.5",
    ]


@pytest.mark.parametrize(
    ("managers", "worker", "expected"),
    [
        (["orders-jobmanager"], "orders-taskmanager-1-3", "orders-jobmanager"),
        (["logs/jm"], "logs/tms", "logs/jm"),
        (["a/jm", "b/jm"], "b/worker-1", "b/jm"),
        (["jm-a", "jm-b"], "worker-1", "worker-1"),  # ambiguous
        ([], "worker-1", "worker-1"),
    ],
)
def test_taskmanagers_belong_to_the_jobmanager_of_their_folder(
    managers: list[str], worker: str, expected: str
) -> None:
    writers = [writer(number, "jobmanager", name) for number, name in enumerate(managers)]
    writers.append(writer(9, "taskmanager", worker))
    assert assign_clusters(writers)[-1].cluster == expected
    assert [item.cluster for item in assign_clusters(writers)][:-1] == managers


names = st.text("ab/", max_size=6)


@given(managers=st.sets(names, min_size=2), worker=names)
def test_the_jobmanager_with_the_most_similar_name_is_chosen(
    managers: set[str], worker: str
) -> None:
    def alike(name: str) -> int:
        return max(at for at in range(7) if name[:at] == worker[:at] and at <= len(name))

    most = [name for name in managers if alike(name) == max(map(alike, managers))]
    writers = [writer(number, "jobmanager", name) for number, name in enumerate(sorted(managers))]
    found = assign_clusters([*writers, writer(99, "taskmanager", worker)])[-1].cluster
    assert found == (most[0] if len(most) == 1 and worker not in managers else worker)


def test_a_file_without_marks_has_the_clock_of_its_group() -> None:
    def stream(source: int, owner: str | None = None) -> dict[str, Any]:
        return {**_empty_stream(Stream(source, owner)), "as_taskmanager": 1, "n": 1}

    zones = {1: 3_600_000, 3: 7_200_000, 4: 1_800_000}
    marks = [
        {
            "what": "mark", "source": source, "owner": None, "zone": zone, "n": 1, "offset": 0,
            "shown_us": 0, "difference": zone, "printed": False,
        }
        for source, zone in zones.items()
    ]  # fmt: skip
    streams = [*(stream(source) for source in range(6)), stream(5, "labelled")]
    groups = {0: "a", 1: "a", 2: "b", 3: "b", 4: "b", 5: "c"}
    found = {each.stream: each.clock.zone_ms for each in settle([*streams, *marks], groups)}
    assert [found[Stream(source, None)] for source in (0, 2, 5)] == [3_600_000, 7_200_000, 0]
    assert found[Stream(5, "labelled")] == 0


def test_a_cluster_that_the_log_names_stays() -> None:
    writers = [
        writer(0, "jobmanager", "here"),
        writer(1, "taskmanager", "application_1_2", named_cluster=True),
    ]
    assert assign_clusters(writers)[1].cluster == "application_1_2"


COLUMNS = (
    "event template source offset owner time_us role level logger thread cluster job_id job_name "
    "vertex_id task subtask_index parallelism attempt_id attempt taskmanager host checkpoint epoch_ms "
    "duration_ms bytes from_state to_state cause fields"
)


def record(job_id: str, time_us: int, **more: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "what": "incident",
        "event": "job_state",
        "template": "job-state",
        "source": 0,
        "offset": time_us,
        "time_us": time_us,
        "cluster": "c",
        "job_id": job_id,
        "job_name": "orders",
        "to_state": "RUNNING",
    }
    return dict.fromkeys(COLUMNS.split()) | values | more


def load(first_us: int, last_us: int, **more: Any) -> dict[str, Any]:
    values = dict.fromkeys(
        ("busy", "idle", "back_pressured", "is_back_pressured", "records_in", "records_out",
         "bytes_in", "input_queue", "in_pool_usage", "out_pool_usage", "alignment_ns",
         "start_delay_ns", "ref")
    )  # fmt: skip
    return {
        **values,
        "what": "load",
        "cluster": "c",
        "job_name": "orders",
        "task": "enrich",
        "subtask_index": 0,
        "taskmanager": "tm-1",
        "host": "worker-1",
        "samples": 3,
        "first_us": first_us,
        "last_us": last_us,
        **more,
    }


def loaded_jobs(loads: list[dict[str, Any]], second: str = "c") -> dict[str, int]:
    """Return the number of loads that each of two jobs gets: one runs from 100 to 200, the other from 300 to 400."""
    rows = [
        record(job_id, at, cluster=cluster)
        for job_id, cluster, times in ((JOB, "c", (100, 200)), (OTHER, second, (300, 400)))
        for at in times
    ]
    writers = [
        writer(0, "jobmanager", "c", job_ids=(JOB,) if second != "c" else (JOB, OTHER)),
        writer(1, "jobmanager", second, job_ids=(OTHER,)),
    ]
    facts = assemble(rows, loads, writers)
    return {job.key.job_id[0]: len(job.loads) for job in facts.jobs}


def test_metrics_belong_to_the_job_of_that_name_that_ran_then() -> None:
    assert loaded_jobs([load(320, 380)]) == {"a": 0, "b": 1}
    assert loaded_jobs([load(150, 380)]) == {"a": 0, "b": 0}  # mixed: belongs to neither
    assert loaded_jobs([load(320, 380, job_name="payments")]) == {"a": 0, "b": 0}


def test_metrics_belong_to_the_job_of_that_name_in_their_cluster() -> None:
    assert loaded_jobs([load(150, 380, cluster="d")], second="d") == {"a": 0, "b": 1}


def test_metrics_given_twice_count_once() -> None:
    twice = [load(320, 380), load(320, 380, cluster="copy", samples=2)]
    assert loaded_jobs(twice) == {"a": 0, "b": 1}


def test_a_job_without_observed_work_is_not_healthy() -> None:
    (job,) = checkpoint_data(ClusterFacts(jobs=(Bench().job(),), processes=()), ())
    assert job.verdict == Verdict.INCONCLUSIVE
