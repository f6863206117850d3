"""The recordings as a data set: loader, scorer and card (`fixtures/DATASET.md`)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import baselines, score
from benchmarks.score import Score
from fixtures.dataset import Case, cases

ALL = {case.id: case for case in cases()}
HOT_KEY = ALL["flink/1.20.5/hot-key"]
HEALTHY = ALL["flink/1.20.5/healthy"]


def test_every_case_names_a_cause_or_is_healthy() -> None:
    assert len(ALL) > 200
    assert HEALTHY.cause is None and HEALTHY.culprits == ()
    assert HOT_KEY.cause == "data-skew"
    assert HOT_KEY.culprits[0]["task"] == "enrich" and HOT_KEY.culprits[0]["subtask_index"] == 0


def test_versions_of_a_scenario_are_in_one_split() -> None:
    splits = {(case.scenario, case.split) for case in ALL.values()}
    assert len(splits) == len({scenario for scenario, _ in splits})
    assert {split for _, split in splits} == {"develop", "test"}


def test_files_come_without_the_truth(tmp_path: Path) -> None:
    HOT_KEY.unpack(tmp_path)
    names = {path.name for path in tmp_path.rglob("*")}
    assert "logs" in names and "truth.json" not in names


@pytest.mark.parametrize(
    ("prediction", "expected"),
    [
        ({"sick": True, "cause": "data-skew", "culprit": dict(HOT_KEY.culprits[0])}, (1, 1, 1)),
        ({"sick": True, "culprit": {"task": "enrich"}}, (1, 0, 1)),
        ({"sick": True, "culprit": {"task": "enrich", "subtask_index": 3}}, (1, 0, 0)),
        ({"sick": True, "cause": "slow-operator", "culprit": {}}, (1, 0, 0)),
        ({"sick": False}, (0, 0, 0)),
        ({}, (0, 0, 0)),
    ],
)
def test_scores(prediction: dict[str, object], expected: tuple[int, int, int]) -> None:
    made = Score.of([HOT_KEY], {HOT_KEY.id: prediction})
    assert (made.sick[0], made.cause[0], made.culprit[0]) == expected


def test_a_missing_prediction_counts_as_unanswered() -> None:
    made = Score.of([HEALTHY, HOT_KEY], {})
    assert (made.sick, made.healthy) == ((0, 1), (0, 1))


@pytest.mark.parametrize("line", ["no JSON", '{"sick": true}', '{"id": "flink/9.9/none"}', "[]"])
def test_a_bad_prediction_names_its_line(line: str) -> None:
    with pytest.raises(SystemExit, match="line 2"):
        score.read([json.dumps({"id": HOT_KEY.id}), line])


def test_the_command_scores_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = tmp_path / "predictions.jsonl"
    saved.write_text("".join(json.dumps({"id": name, "sick": True}) + "\n" for name in ALL))
    assert score.main([str(saved)]) == 0
    sick = sum(case.cause is not None for case in ALL.values())
    assert f"{sick} of {sick} (100%) | 0 of {len(ALL) - sick} (0%)" in capsys.readouterr().out


def culprit_of(tool: str, case: Case, folder: Path) -> object:
    return baselines.TOOLS[tool](case.unpack(folder)).get("culprit")


def test_baselines_read_the_logs(tmp_path: Path) -> None:
    assert culprit_of("most late messages", HOT_KEY, tmp_path / "a") == {
        "taskmanager": "taskmanager-2"
    }
    assert culprit_of("busiest subtask", HOT_KEY, tmp_path / "b")
    assert baselines.grep_expired(tmp_path / "a") == {"sick": True}
    assert baselines.grep_expired(HEALTHY.unpack(tmp_path / "c")) == {"sick": False}


def test_the_card_counts_the_cases() -> None:
    assert score.counts().strip() in score.CARD.read_text(encoding="utf-8")
