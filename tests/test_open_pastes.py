"""Tests the open half of the paste benchmark: failure texts from outside the catalogue."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from benchmarks.open_pastes import (
    HALVES,
    PARTS,
    OpenPaste,
    answers_of,
    counts,
    judge_open,
    open_pastes,
    split_name,
)
from benchmarks.pastes import PAGE, PasteJudge
from flowdiag.analyses.knowledge.causes import CAUSES

PASTES: Final = open_pastes()
SAMPLES: Final = {"develop": open_pastes("develop")[::3], "rounds": open_pastes("rounds")[::2]}


def test_every_text_lies_in_the_half_of_its_name() -> None:
    assert len({paste.name for paste in PASTES}) == len(PASTES) >= 200
    halves = [paste for paste in PASTES if paste.half in HALVES]
    assert [paste.name for paste in halves if paste.half != split_name(paste.name)] == []


@pytest.mark.parametrize("paste", PASTES, ids=lambda paste: paste.name)
def test_an_expected_answer_is_possible(paste: OpenPaste) -> None:
    assert paste.failure == bool(paste.deepest)
    read = " ".join(paste.text.replace('\\"', '"').replace("\\n", " ").split())
    assert " ".join(paste.deepest.split()) in read
    assert set(paste.cause) <= set(CAUSES)


@pytest.mark.parametrize("part", SAMPLES)
def test_a_sample_gets_answers(part: str, tmp_path: Path) -> None:
    answers = answers_of(SAMPLES[part], PasteJudge(tmp_path, None).report_on_text)
    right, fair, _, _, wrong = counts(answers, part)
    assert right + fair >= 0.95 * len(answers), answers
    assert wrong == 0, answers


def test_a_wrong_engine_is_a_wrong_answer(tmp_path: Path) -> None:
    report = PasteJudge(tmp_path, None).report_on_text(
        "java.lang.OutOfMemoryError: Java heap space\n"
        "\tat org.apache.flink.streaming.api.operators.StreamMap.processElement(StreamMap.java:38)\n"
    )
    assert report is not None
    for engine, verdict in (("flink", "right"), ("spark", "wrong")):
        paste = OpenPaste(
            half="develop",
            group="",
            name="",
            shape="",
            engine=engine,
            process=None,
            text="",
            cause=("out-of-memory",),
            deepest="heap",
        )
        assert judge_open(paste, report).verdict == verdict


def test_the_page_shows_both_halves() -> None:
    page = PAGE.read_text()
    for half in PARTS:
        number = sum(paste.half == half for paste in PASTES)
        assert f"**{half} ({number}): right " in page


def test_a_proposal_for_another_process_is_a_wrong_answer(tmp_path: Path) -> None:
    text = (
        "org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 4 times, most "
        "recent failure: Lost task 0.3 in stage 3.0 (TID 9) (h executor 1): java.lang.IllegalStateException: no price\n"
        "\tat com.acme.Price.check(Price.scala:12)\n"
    )
    report = PasteJudge(tmp_path, None).report_on_text(text)
    assert report is not None
    for process, verdict in (("executor", "right"), ("driver", "wrong")):
        paste = OpenPaste(
            half="develop",
            group="",
            name="",
            shape="",
            engine="spark",
            process=process,
            text=text,
            deepest="no price",
        )
        assert judge_open(paste, report).verdict == verdict


def test_no_proposal_names_an_input(tmp_path: Path) -> None:
    log = (
        "24/05/01 10:00:09 ERROR MicroBatchExecution: Query q [id = 5bd8d6ba-8b9c-4d9a-8df8-5a6e1dd93f5e, "
        "runId = d3f2f3f8-99dc-4a0e-97c0-5c0c1b2d3e4f] terminated with error\n"
        "java.lang.IllegalStateException: no price\n\tat com.acme.Price.check(Price.scala:12)\n"
    )
    report = PasteJudge(tmp_path, None).report_on_text(log)
    assert report is not None
    assert report.summary.suggestions
    assert not any("driver's log" in suggestion.text for suggestion in report.summary.suggestions)
