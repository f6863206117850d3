"""Tests `flowdiag PATH` on one pasted exception in every wrapping."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.pastes import PAGE, RIGHT, Paste, PasteJudge, pastes, wrap, wrappings_of
from flowdiag.analyses.diagnosis import inspect_inputs, measure, report_on
from flowdiag.analyses.knowledge.causes import CAUSES
from flowdiag.analyses.knowledge.exceptions import CAUSE_OF_CLASS, CAUSE_OF_FAILURE
from flowdiag.analyses.report.fitting import engines_of
from flowdiag.analyses.selection.options import Options
from flowdiag.analyses.topic_names import EVERYTHING, names_of
from flowdiag.analyses.topics import topic
from flowdiag.parsers.exceptions import classes

from .unmeasured import measured as measured_alone

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORPUS = pastes()


@pytest.mark.parametrize("paste", CORPUS, ids=lambda paste: paste.id)
def test_a_paste_is_recognised(paste: Paste, tmp_path: Path) -> None:
    judge = PasteJudge(tmp_path, None)
    names = list(wrappings_of(paste.engine))
    # Bare, and in two of the wrappings; together the pastes cover all of them.
    first = CORPUS.index(paste) % len(names)
    for wrapping in ("bare", names[first], names[(first + 11) % len(names)]):
        answer = judge.answer(paste, wrapping)
        if answer is not None:
            assert answer.verdict == RIGHT, f"{wrapping}: {answer.why}"


@pytest.mark.full
@pytest.mark.parametrize("paste", CORPUS, ids=lambda paste: paste.id)
def test_no_wrapping_leads_to_a_wrong_answer(paste: Paste, tmp_path: Path) -> None:
    judge = PasteJudge(tmp_path, None)
    answers = {wrapping: judge.answer(paste, wrapping) for wrapping in wrappings_of(paste.engine)}
    possible = [answer for answer in answers.values() if answer is not None]
    assert [answer for answer in possible if answer.verdict == "wrong"] == []


@pytest.mark.full
@pytest.mark.parametrize("paste", CORPUS, ids=lambda paste: paste.id)
def test_a_paste_is_recognised_with_spark(
    paste: Paste, tmp_path: Path, spark: SparkSession
) -> None:
    answer = PasteJudge(tmp_path, lambda: spark, all_with_spark=True).answer(paste, "bare")
    assert answer is not None
    assert answer.verdict == RIGHT, answer.why


# Measured with Spark: exceptions of a job, a start and a query, and one whose lines are also messages.
MEASURED = (
    ("flink: TaskManager's heartbeat", "date above"),
    ("flink: slots", "html"),
    ("flink: fenced producer", "comment"),
    ("flink: metaspace", "fence"),
    ("spark: executor died", "json value"),
    ("spark: Python code of a batch", "quoted"),
)


@pytest.mark.parametrize(("name", "wrapping"), MEASURED)
def test_the_report_without_spark_is_the_same(
    name: str, wrapping: str, tmp_path: Path, spark: SparkSession
) -> None:
    paste = next(paste for paste in CORPUS if paste.id == name)
    text = wrap(paste, wrapping)
    assert text is not None
    found, options = PasteJudge(tmp_path, None).inputs(text), Options(everything=True)
    topics = tuple(map(topic, names_of(EVERYTHING, engines_of(found.sources)[1])))
    inspected = inspect_inputs(topics, found, options)
    alone = measured_alone([topic.name for topic in topics], found)
    assert alone is not None
    quick = report_on(topics, inspected, alone, options)
    whole = report_on(
        topics, inspected, measure(topics, inspected, lambda: spark, options), options
    )
    assert quick.findings == whole.findings
    assert (quick.summary.verdict, quick.summary.cause) == (
        whole.summary.verdict,
        whole.summary.cause,
    )


# flowdiag's own sentence about a copied table, which most wrappings tear apart. An open text covers it.
OF_TABLES = {"gc-share-high"}


def test_the_corpus_covers_every_class_of_failures() -> None:
    assert {failure_class.name for failure_class in classes()} - OF_TABLES <= {
        paste.kind for paste in CORPUS
    }
    causes = {paste.right["cause"] for paste in CORPUS}
    assert {word for name, (word, _) in CAUSE_OF_CLASS.items() if name not in OF_TABLES} <= causes
    assert set(CAUSE_OF_FAILURE.values()) <= causes
    assert causes - {""} <= set(CAUSES)


def test_the_table_lists_every_paste_and_wrapping() -> None:
    page = PAGE.read_text()
    for paste in CORPUS:
        assert f"| {paste.name} | {paste.kind or '–'} | {paste.right['cause'] or '–'} |" in page
    for engine in ("flink", "spark"):
        for wrapping in wrappings_of(engine):
            assert f"** {wrapping}\n" in page
    assert "✗ |" not in page
