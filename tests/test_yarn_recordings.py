"""Collects recorded YARN applications again from their recorded responses, and diagnoses them."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from fixtures.yarn_recorder.record import PORTS
from flowdiag.cli.app import main
from flowdiag.parsers.yarn.answers import ended_on_yarn
from tests.archives import FIXTURES, unpacked
from tests.diagnoses import diagnosed
from tests.fake_server import NOT_FOUND, Reply, serving
from tests.test_kubernetes_stories import flowdiag

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDED = sorted(path.parent for path in (FIXTURES / "recordings/yarn").rglob("truth.json"))
# One of them is enough for every change; the others start Spark, too.
SAMPLED = [
    pytest.param(path, marks=[pytest.mark.full] if number else [])
    for number, path in enumerate(RECORDED)
]
NAMES = [path.relative_to(FIXTURES / "recordings/yarn").as_posix() for path in RECORDED]
MANAGER = "http://rm.hadoop.example"


class RecordedYarn:
    """Serves the answers of a recording, by URL; the last answer to a URL is repeated."""

    def __init__(self, answers: Path) -> None:
        self._answers: defaultdict[str, deque[Reply]] = defaultdict(deque)
        for line in answers.read_text().splitlines():
            each = json.loads(line)
            kind = each["headers"].pop("Content-Type", "")
            reply = Reply(each["body"].encode(), each["status"], kind, each["headers"])
            self._answers[each["url"].partition("?")[0]].append(reply)

    def __call__(self, url: str, query: dict[str, list[str]]) -> Reply:
        known = self._answers.get(url)
        if not known:
            return NOT_FOUND
        return known.popleft() if len(known) > 1 else known[0]


def files(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not name.startswith(("rest/", "manifest")):
            yield name, path.read_bytes()


@pytest.mark.parametrize("moment", [pytest.param("running", marks=pytest.mark.full), "ended"])
@pytest.mark.parametrize("recording", RECORDED, ids=NAMES)
def test_the_recorded_answers_give_the_recorded_snapshot(
    recording: Path, moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = unpacked(recording)
    truth = json.loads((recording / "truth.json").read_bytes())
    with serving(RecordedYarn(folder / "answers" / f"{moment}.jsonl"), proxy=True) as proxy:
        for name in ("HTTP_PROXY", "http_proxy"):
            monkeypatch.setenv(name, proxy.url)
        servers = [f"--{name}={MANAGER}:{port}" for name, port in PORTS.items()]
        output = ["-o", str(tmp_path / "snapshot"), "-q"]
        assert main(["collect", "yarn", truth["application"], *servers, *output]) == 0
    assert dict(files(tmp_path / "snapshot")) == dict(files(folder / moment))


@pytest.mark.parametrize("recording", RECORDED, ids=NAMES)
def test_containers_that_run_have_not_ended(recording: Path) -> None:
    truth = json.loads((recording / "truth.json").read_bytes())
    faults = {each.get("container") for each in truth["events"]}
    for path in (unpacked(recording) / "running").glob("*.json"):
        ended = {each.pod or "" for each in ended_on_yarn(path.read_text())}
        assert {name for name in ended if name.startswith("container_")} <= faults


@pytest.mark.spark
@pytest.mark.parametrize("recording", SAMPLED, ids=NAMES)
def test_the_snapshot_with_the_aggregated_copies_of_its_logs(
    recording: Path, spark: SparkSession
) -> None:
    folder = unpacked(recording)
    truth = json.loads((recording / "truth.json").read_bytes())
    aggregated = sorted((folder / "aggregated").rglob(truth["application"]))
    inputs = [folder / "ended", *aggregated, folder / "driver.log"]
    found = diagnosed(spark, *(path for path in inputs if path.exists()))
    summary, expected = found["summary"], truth["expected"]
    assert (summary["verdict"], summary["cause"]) == (expected["verdict"], expected["cause"])
    if expected["cause"] == "out-of-memory":
        stories = [each for each in summary["stories"] if each["cause"] == "out-of-memory"]
        findings = [each for each in found["findings"] if each["cause"] == "out-of-memory"]
        narratives = " ".join(each["narrative"] for each in stories)
        assert "beyond" in narratives or "exceeding physical memory" in narratives
        killed = [event["container"] for event in truth["events"] if event["event"] == "fault"]
        options = {
            action["option"] for each in findings for action in each["actions"] if action["option"]
        }
        if "flink_version" in truth:
            assert all(container in narratives for container in killed)
            assert options == {"taskmanager.memory.jvm-overhead.min"}
        else:
            assert f"{len(killed)} executors were lost" in narratives
            assert options == {"spark.executor.memoryOverhead"}
    elif expected["cause"] is None:
        assert summary["stories"] == []
    elif expected["cause"] == "taskmanager-lost":
        (story,) = summary["stories"]
        assert (story["cause"], story["state"]) == (expected["cause"], expected["state"])
        (fault,) = (event for event in truth["events"] if event["event"] == "fault")
        assert story["subject"]["taskmanager"] == fault["container"]
    else:
        states = {(each["cause"], each["state"]) for each in summary["stories"]}
        assert states == {(expected["cause"], expected["state"])}
        assert all(truth["expected"]["text"] in each["narrative"] for each in summary["stories"])
        assert len(summary["stories"]) == 1, "all attempts of the application have one cause"


@pytest.mark.application
@pytest.mark.full
@pytest.mark.parametrize("recording", RECORDED, ids=NAMES)
def test_one_command_collects_and_diagnoses(
    recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = tmp_path / "report.json"
    truth = json.loads((recording / "truth.json").read_bytes())
    answers = unpacked(recording) / "answers" / "ended.jsonl"
    servers = "&".join(f"{name}={MANAGER}:{port}" for name, port in PORTS.items())
    with serving(RecordedYarn(answers), proxy=True) as proxy:
        for name in ("HTTP_PROXY", "http_proxy"):
            monkeypatch.setenv(name, proxy.url)
        address = f"yarn://{truth['application']}?{servers}"
        flowdiag(address, "--format", "json", "-o", str(report), "-q")
    summary, expected = json.loads(report.read_bytes())["summary"], truth["expected"]
    assert (summary["verdict"], summary["cause"]) == (expected["verdict"], expected["cause"])
