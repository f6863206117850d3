"""Warnings about missing inputs: TaskManagers without logs, logs without metrics, gaps in rolled files."""

from __future__ import annotations

from flowdiag.analyses.flink.missing import missing_inputs
from flowdiag.analyses.model.keys import Process
from flowdiag.analyses.report.inputs import describe_inputs, missing_parts
from flowdiag.parsers.source import Source

from .workbench import Bench


def warnings_of(job: Bench, *managers: str) -> list[str]:
    processes = tuple(
        Process(source=n, label=name, role="taskmanager", cluster="", taskmanager=name)
        for n, name in enumerate(managers)
    )
    return [str(remark) for remark in missing_inputs(job.facts(processes=processes))]


def failing_job() -> Bench:
    job = Bench()
    job.completes(3)
    job.expires(3)
    job.loaded()
    return job


def test_taskmanagers_without_a_log_are_listed() -> None:
    assert warnings_of(failing_job(), "tm-1") == [
        "the input has no logs of 2 of the 3 TaskManagers that ran tasks: tm-2, tm-3"
    ]
    assert warnings_of(failing_job(), "tm-1", "tm-2", "tm-3") == []


def test_without_any_taskmanager_log_none_is_missing() -> None:
    assert warnings_of(failing_job()) == []


def test_expired_checkpoints_without_metrics_of_their_time() -> None:
    job = failing_job()
    job.loads.clear()
    (warning,) = warnings_of(job, "tm-1", "tm-2", "tm-3")
    assert warning.startswith("the TaskManagers' logs contain no metrics from the time")
    well = Bench()
    well.completes(5)
    assert warnings_of(well, "tm-1", "tm-2", "tm-3") == []


def source(index: int, name: str) -> Source:
    return Source(
        index=index,
        name=name,
        path=name,
        member=None,
        codec="none",
        encoding="utf-8",
        size=1,
        kind="log",
        engine="flink",
        role="unknown",
        group="x.log",
        url=None,
        splittable=True,
        reason=None,
    )


def parts(*names: str) -> list[tuple[str, str]]:
    sources = [source(number, name) for number, name in enumerate(names)]
    notes = missing_parts(describe_inputs(sources, []))
    return [(note.source or "", note.message) for note in notes]


def test_a_gap_in_rolled_files_is_a_warning() -> None:
    assert parts("a/x.log", "a/x.log.1", "a/x.log.4", "a/x.log.2", "b/x.log.3") == [
        ("a/x.log.1", "some of its rolled files are missing: x.log.3")
    ]
    assert parts("x.log", "x.log.1", "x.log.2") == []
    assert parts("x.log", "x.log.2") == [
        ("x.log.2", "some of its rolled files are missing: x.log.1")
    ]
    assert parts("x.log.2", "x.log.3") == []
    assert parts("c!x.log.7.gz", "c!x.log.9.gz") == [
        ("c!x.log.7.gz", "some of its rolled files are missing: x.log.8.gz")
    ]


def test_distant_numbers_are_not_a_series() -> None:
    assert parts("x.log.1", "x.log.200") == []
