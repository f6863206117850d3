"""Compares the first incident of recorded clusters with the jobs' own notes; also two engines in
one folder.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from flowdiag.analyses.contract.encoding import encode
from flowdiag.analyses.diagnosis import diagnose, report_on
from flowdiag.analyses.report.fitting import engines_of
from flowdiag.analyses.report.pseudonyms import names_in
from flowdiag.analyses.report.transform import decode
from flowdiag.analyses.selection.options import Options, Privacy
from flowdiag.analyses.topic_names import EVERYTHING, names_of
from flowdiag.analyses.topics import topic
from flowdiag.cli.render import RENDERERS, table
from flowdiag.cli.text.page import Page
from flowdiag.parsers.discover import discover
from tests.archives import unpacked

from .diagnoses import grade_report
from .measured import FLINK, Recorded
from .test_queue_recordings import MAY_BE_SILENT, ROOT, recordings_of_queues

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

# Causes that the topics of `FLINK` do not report.
OF_STARTUP = ("jobmanager-lost",)
EVERY = Options(everything=True)


def all_recordings() -> list[Any]:
    """Return all recordings. Those of scenarios with a later version run only in `.ci/full`."""
    kinds: dict[str, Any] = {}
    found = recordings_of_queues()
    for each in found:
        kinds[each.values[0].name] = each.id
    return [
        each
        if kinds[each.values[0].name] == each.id
        else pytest.param(*each.values, id=each.id, marks=pytest.mark.full)
        for each in found
    ]


@pytest.mark.parametrize(("folder", "truth"), all_recordings())
def test_the_first_incident_is_the_true_one(
    folder: Path, truth: dict[str, Any], recorded: Callable[..., Recorded]
) -> None:
    names: tuple[str, ...] = FLINK
    if any(job["expected"]["cause"] in OF_STARTUP for job in truth.get("jobs", [truth])):
        names = (*FLINK, "startup")
    measured = recorded(unpacked(folder), topics=names)
    report = report_on(tuple(map(topic, names)), measured.inspected, measured.measured, EVERY)
    assert report.tool.command == EVERYTHING
    right = grade_report(truth, report)
    assert right == "right" or (
        # A report without an incident is not wrong.
        right == "inconclusive"
        and (str(folder.relative_to(ROOT)) in MAY_BE_SILENT or "rescale" in folder.name)
    )
    printed = table.render(report, Page(width=100))
    assert printed.count("\n") <= table.LINES
    if report.summary.stories:
        assert "Incidents" in printed


@pytest.mark.parametrize(
    "name",
    [
        "flink/1.20.5/decoy",
        pytest.param("flink/1.14.6/decoy", marks=pytest.mark.full),
        pytest.param("flink/1.20.5/decoy-slow-sync-snapshot", marks=pytest.mark.full),
    ],
)
def test_a_decoy_is_not_named_as_a_second_culprit(
    name: str, recorded: Callable[..., Recorded]
) -> None:
    """Another subtask is busy because it is expensive, but nothing waits for it."""
    measured = recorded(unpacked(ROOT / name), topics=FLINK)
    report = report_on(tuple(map(topic, FLINK)), measured.inspected, measured.measured, EVERY)
    culprits = {
        (culprit.subject.task, culprit.subject.subtask_index) for culprit in report.summary.culprits
    }
    assert len(culprits) == 1
    assert all(
        (found.subject.task, found.subject.subtask_index) in culprits
        for found in report.findings
        if found.why and found.cause and found.severity != "info"
    )


@pytest.mark.parametrize(
    "version",
    [
        "1.20.5",
        *(
            pytest.param(version, marks=pytest.mark.full)
            for version in ("1.9.3", "1.10.3", "1.14.6", "2.3.0")
        ),
    ],
)
def test_a_log_without_metrics_needs_no_queue_diagnosis(
    version: str, recorded: Callable[..., Recorded]
) -> None:
    """The JobManager's log of a healthy job shows its checkpoints, and no log shows its queues."""
    (log,) = (unpacked(ROOT / "flink" / version / "healthy") / "logs").glob("*standalonesession*")
    measured = recorded(log, topics=FLINK)
    report = report_on(tuple(map(topic, FLINK)), measured.inspected, measured.measured, EVERY)
    assert (report.summary.verdict, report.findings) == ("healthy", [])
    (queues,) = (each for each in report.topics if each.topic == "queues")
    assert queues.status == "nothing"


@pytest.mark.parametrize("name", ["flink/1.20.5/hot-key", "spark/4.3.0/query-skewed"])
def test_no_format_of_a_redacted_report_contains_a_name(
    name: str, recorded: Callable[..., Recorded]
) -> None:
    names_of_topics = FLINK if name.startswith("flink") else ("rate",)
    measured = recorded(unpacked(ROOT / name), topics=names_of_topics)
    plain, redacted = (
        report_on(
            tuple(map(topic, names_of_topics)),
            measured.inspected,
            measured.measured,
            replace(EVERY, privacy=Privacy(redact=redact)),
        )
        for redact in (False, True)
    )
    names = {name for _, name in names_in(msgspec.to_builtins(plain)) if not is_our_word(name)}
    hosts = {name for name in names if "." in name and "/" not in name}
    names |= {host.partition(".")[0] for host in hosts}
    assert len(names) > 5
    assert encode(decode(encode(redacted))) == encode(redacted)
    shown = [render(redacted, Page(width=100)) for render in RENDERERS.values()]
    for text in [*shown, *redacted._repr_mimebundle_().values()]:
        words = normalized(text)
        assert [name for name in names if f" {normalized(name)} " in words] == []


def is_our_word(name: str) -> bool:
    """Return whether a name is also a word in flowdiag's own sentences, or too short to search for."""
    return len(name) < 3 or name in ("aggregate", "driver", "orders")


def normalized(text: str) -> str:
    """Normalize a text, so that all spellings of a name are equal."""
    return f" {re.sub(r'[^a-z0-9]+', ' ', text.casefold())} ".replace("  ", " ")


def test_two_engines_in_one_folder_are_two_incidents(spark: SparkSession) -> None:
    paths = [ROOT / "flink" / "1.20.5" / "hot-key", ROOT / "spark" / "4.3.0" / "query-skewed"]
    found = discover([str(path) for path in paths])
    sources, engines = engines_of(found.sources)
    assert engines == {"flink", "spark"}
    topics = tuple(map(topic, names_of(EVERYTHING, engines)))
    assert [each.name for each in topics] == ["checkpoints", "rate", "queues", "memory", "startup"]
    report = diagnose(topics, replace(found, sources=sources), lambda: spark, EVERY)
    assert [story.cause for story in report.summary.stories] == ["data-skew", "data-skew"]
    assert report.summary.stories[0].subject.task == "enrich"
    assert report.summary.stories[1].subject.query == "orders"
    unread = {item.reason for item in report.inputs if item.kind == "not-read"}
    assert not [reason for reason in unread if reason and "flowdiag" in reason]
