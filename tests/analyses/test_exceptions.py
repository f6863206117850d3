"""The root cause of bare exceptions, undated failures and global failures."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from flowdiag.analyses.checkpoints.rules import RULES
from flowdiag.analyses.checkpoints.topic import CHECKPOINTS
from flowdiag.analyses.diagnosis import diagnose
from flowdiag.analyses.flink.failures.crises import crises
from flowdiag.analyses.flink.job import ClusterFacts, Incident
from flowdiag.analyses.knowledge.exceptions import CAUSE_OF_CLASS
from flowdiag.analyses.model.finding import Finding, State
from flowdiag.analyses.rate.topic import RATE
from flowdiag.analyses.startup.topic import STARTUP
from flowdiag.parsers.discover import discover

from ..parsers.test_pastes import TABLE, trace
from ..parsers.traces import WRAPPINGS
from .judged import outcomes_of
from .workbench import Bench

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FLINK: Final = [entry for entry in TABLE if entry.get("engine", "flink") == "flink"]


def found(facts: ClusterFacts) -> list[Finding]:
    return [finding for outcome in outcomes_of(RULES, facts) for finding in outcome.findings]


def bare(job: Bench, entry: dict[str, Any], **more: Any) -> Incident:
    text = {"class": entry["name"], "exception": entry["sample"], **entry.get("gives", {})}
    return job.happens("exception", cause=entry["sample"], text=text, **more)


@pytest.mark.parametrize("entry", FLINK, ids=lambda entry: entry["name"])
def test_every_class_of_flink_is_a_finding_with_its_word(entry: dict[str, Any]) -> None:
    job = Bench()
    bare(job, entry)
    findings = found(job.facts())
    assert findings, "silent on an exception"
    word = CAUSE_OF_CLASS.get(entry["name"], (None, ()))[0]
    assert word in {finding.cause for finding in findings}
    if word is not None:
        assert all(finding.actions for finding in findings if finding.cause == word)
    assert all(finding.state is State.ONGOING for finding in findings)


def test_the_numbers_of_an_exception_are_measurements() -> None:
    job = Bench()
    bare(job, next(entry for entry in TABLE if entry["name"] == "network-buffers"))
    (finding,) = found(job.facts())
    values = {
        measurement.name: (measurement.value, measurement.unit)
        for measurement in finding.measurements
    }
    assert values["needed"] == (17, "buffers")
    assert values["available"] == (9, "buffers")
    # The exception names three options; the command that counts buffers knows which one to set, and the value.
    count, quote = finding.actions
    assert (count.option, count.command) == (None, "memory")
    assert "taskmanager.memory.network.fraction" in quote.text


def test_an_undated_failure_keeps_its_position() -> None:
    """An undated last line was mistaken for the first failure, and for the root."""
    job = Bench()
    job.completes(3)
    first = job.happens("task-failure", second=400, cause="java.lang.IllegalStateException: x")
    last = job.happens(
        "job-failure", second=401, cause="java.io.IOException: No space left on device"
    )
    undated = replace(last, time_us=None)
    job.incidents[-1] = undated
    (crisis,) = crises(job.job())
    assert crisis.first_us == first.time_us
    assert crisis.failures[0].incident is first


def test_a_global_failure_is_a_failure() -> None:
    job = Bench()
    job.completes(3)
    job.happens(
        "restart",
        cause="java.net.UnknownHostException: kafka-3.example",
        text={
            "template": "global-failure",
            "exception": "org.apache.flink.util.FlinkException: Global failure triggered by Operator"
            "Coordinator for 'Source: orders' (operator cbc357ccb763df2852fee8c4fc7d55f2).",
        },
    )
    (crisis,) = crises(job.job())
    assert crisis.bursts == 1
    assert {finding.cause for finding in found(job.facts())} == {"service-unreachable"}


def test_a_restart_without_an_exception_is_not_a_failure() -> None:
    job = Bench()
    job.completes(3)
    job.happens("restart", text={"template": "tasks-restarting"})
    job.happens("restart", text={"template": "global-failure"})
    assert crises(job.job()) == ()


def test_cancellations_are_not_failures() -> None:
    job = Bench()
    job.happens("exception", cause="java.util.concurrent.CancellationException", text={})
    assert found(job.facts()) == []


def test_a_job_that_gave_up_failed_for_good() -> None:
    job = Bench()
    entry = next(entry for entry in TABLE if entry["name"] == "taskmanager-lost")
    job.happens(
        "exception",
        cause=entry["sample"],
        text={
            "class": entry["name"],
            "exception": "org.apache.flink.runtime.JobException: Recovery is suppressed by "
            "NoRestartBackoffTimeStrategy",
        },
    )
    (crisis,) = crises(job.job())
    assert crisis.final and crisis.fatal


# --- from the paste to the report -----------------------------------------------------------------

PASTED: Final = (
    ("checkpoints", "bare", "taskmanager-lost"),
    ("checkpoints", "comment", "network-buffers"),
    ("checkpoints", "html", "heap-full"),
    ("checkpoints", "date above", "kafka-timeout"),
    ("checkpoints", "json elements", "not-enough-slots"),
    ("startup", "html", "not-enough-slots"),
    ("startup", "bullets", "class-loading"),
    ("rate", "quoted", "offsets-went-back"),
    ("rate", "fence", "executor-lost"),
    ("rate", "json value", "state-store-broken"),
)


@pytest.mark.parametrize("command, dress, name", PASTED)
def test_one_pasted_exception_is_a_diagnosis(
    command: str, dress: str, name: str, tmp_path: Path, spark: SparkSession
) -> None:
    entry = next(entry for entry in TABLE if entry["name"] == name)
    path = tmp_path / "paste"
    path.write_text(WRAPPINGS[dress](trace(entry["sample"], entry.get("engine", "flink"))))
    topic = {"checkpoints": CHECKPOINTS, "startup": STARTUP, "rate": RATE}[command]
    report = diagnose((topic,), discover([str(path)]), lambda: spark)
    assert report.summary.cause == CAUSE_OF_CLASS[name][0]
    assert report.summary.verdict in ("failing", "degraded")
