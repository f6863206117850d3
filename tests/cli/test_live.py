"""`flowdiag diagnose` with live servers, once and in rounds, without Spark."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from flowdiag.analyses.contract.encoding import encode
from flowdiag.analyses.contract.report import Note, Report
from flowdiag.analyses.model.finding import Status
from flowdiag.analyses.report.changes import Kind, Round, changes
from flowdiag.analyses.report.verdicts import topic_without_input
from flowdiag.analyses.topics import topic_named
from flowdiag.cli.app import main
from flowdiag.cli.live import hook
from flowdiag.cli.live import servers as live
from flowdiag.cli.spark.starter import SparkStarter
from flowdiag.cli.text.page import Page
from flowdiag.cli.views.changes import changes_text
from flowdiag.parsers.discover import discover
from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.live.client import Access, Client
from flowdiag.parsers.live.detect import detect
from flowdiag.parsers.live.watching import wait_while_starting
from tests.collecting import FakePrometheus, recorded_driver
from tests.fake_server import NOT_FOUND, RecordedFlink, Reply, as_json, serving

from . import reports


class Starter(nullcontext[Any]):
    """Replaces Spark, which a canned diagnosis does not need."""

    on_cluster, is_ready, cores, folder = False, False, 1, Path("nowhere")

    def __enter__(self) -> Any:
        return self

    def explain_failures(self) -> Any:
        return nullcontext()

    def session(self) -> Any:
        raise AssertionError("the session is not needed")

    def environment_error(self, error: Exception) -> None: ...

    def replace_lost_java(self) -> bool:
        return False


class Canned:
    """A diagnosis that returns given reports, one per round, and records its inputs."""

    def __init__(self, given_reports: Sequence[Report]) -> None:
        self.reports, self.given, self.named = (
            list(given_reports),
            list[list[str]](),
            list[tuple[str, ...]](),
        )

    def __call__(self, topics: Any, looked: Any, session: Any, options: Any, **_: Any) -> Report:
        for source in looked.sources:
            assert os.path.exists(source.path)
        self.given.append([source.name for source in looked.sources])
        self.named.append(options.named)
        report = self.reports[min(len(self.given), len(self.reports)) - 1]
        return msgspec.structs.replace(
            report, warnings=[Note(message=str(n)) for n in looked.notes]
        )


@pytest.fixture
def canned(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Canned]]:
    monkeypatch.setattr(SparkStarter, "begin", lambda **how: Starter())
    monkeypatch.setattr("flowdiag.cli.live.rounds.pause", lambda seconds: None)
    monkeypatch.setitem(Client.__init__.__kwdefaults__, "backoff_s", 0.01)  # type: ignore[arg-type]

    def diagnose_with(*given_reports: Report) -> Canned:
        diagnosis = Canned(given_reports or [reports.healthy()])
        monkeypatch.setattr("flowdiag.analyses.diagnosis.diagnose", diagnosis)
        return diagnosis

    yield diagnose_with


CannedFactory = Callable[..., Canned]


def err_of(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().err


# -- detection -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pages",
    [
        ("", "/#/overview", "/#/job/0123/overview", "/jobs/overview", "/overview/"),
        ("/jobs/", "/StreamingQuery/", "/streaming/?x=1", "/api/v1/applications", ""),
        ("/graph?g0.expr=up", "/query", "/classic/targets", "/api/v1", ""),
    ],
    ids=["flink", "spark", "prometheus"],
)
def test_the_server_type_is_detected_from_its_response(
    pages: Sequence[str], request: pytest.FixtureRequest
) -> None:
    kind = request.node.callspec.id
    server_of: dict[str, Any] = {"flink": RecordedFlink(), "spark": recorded_driver}
    history = FakePrometheus() if kind == "prometheus" else None

    def respond(path: str, query: dict[str, list[str]]) -> Reply:
        if history is not None:
            if path == "/api/v1/query":
                return as_json({"status": "success", "data": {"resultType": "scalar"}})
            return history(path, query)
        found: Reply = server_of[kind](path, query)
        return found

    with serving(respond) as server:
        for page in pages:
            found = asyncio.run(detect(server.url + page, Access()))
            assert (found.kind, found.shown) == (kind, server.url), page


@pytest.mark.parametrize(
    "reply, message, hint",
    [
        (NOT_FOUND, "the server responds, but is not Flink, Spark or Prometheus", "JobManager"),
        (Reply(b"<html>Log in", kind="text/html"), "a login page", "--token-file"),
        (Reply(b"no", status=401), "the server requires credentials (401)", "--token-file"),
        (as_json({"flink-version": 5}), "is not Flink, Spark or Prometheus", "Web UI"),
    ],
    ids=["nothing", "login", "closed", "odd"],
)
def test_an_unknown_server_is_an_error(reply: Reply, message: str, hint: str) -> None:
    with (
        serving(lambda path, query: reply) as server,
        pytest.raises(FlowdiagError) as caught,
    ):
        asyncio.run(detect(f"{server.url}/a/b/c/d/e/f", Access()))
    assert message in caught.value.message and hint in str(caught.value.hint)
    assert len(server.requests) <= 12


# -- once ----------------------------------------------------------------------------------------


def test_a_url_is_diagnosed_and_leaves_no_files(
    canned: CannedFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    diagnosis = canned()
    with serving(recorded_driver) as server:
        url = server.url.replace("//", "//ann:hunter2secret@")
        assert main([f"{url}/jobs/", "--for", "0"]) == 0
    shown = capsys.readouterr()
    assert "hunter2" not in shown.out + shown.err + str([diagnosis.given, diagnosis.named])
    ((name,),) = diagnosis.given
    assert re.fullmatch(re.escape(server.url) + r"!tick-000001-\d{8}T\d{6}Z\.json", name)
    assert list(tmp_path.iterdir()) == []


def test_a_driver_that_is_starting_is_waited_for(
    canned: CannedFactory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    defaults = wait_while_starting.__kwdefaults__ or {}
    monkeypatch.setitem(defaults, "pause_s", 0.01)
    diagnosis = canned()
    starting = Reply(b"Spark is starting up. Please wait a while.", kind="text/html")
    pages = [starting] * 8 + [NOT_FOUND] * 6

    def respond(path: str, query: dict[str, list[str]]) -> Reply:
        return pages.pop(0) if pages else recorded_driver(path, query)

    with serving(respond) as server:
        assert main(["diagnose", f"{server.url}/jobs/", "--for", "0"]) == 0
        assert not pages and diagnosis.given[0]
        monkeypatch.setitem(defaults, "most_s", 0.1)
        pages += [starting] * 10_000
        assert main(["diagnose", server.url, "--for", "0"]) == 2
    assert "Spark is starting up" in err_of(capsys)


def test_kept_responses_can_be_diagnosed_again(
    canned: CannedFactory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    diagnosis = canned()
    (tmp_path / "job.log").write_text(
        "23/05/01 10:00:09 WARN ProcessingTimeExecutor: Current batch\n"
    )
    with serving(recorded_driver) as server:
        port = server.url.rpartition(":")[2]
        for _ in range(2):
            command = ["diagnose", server.url, str(tmp_path / "job.log"), "--for", "0"]
            assert main([*command, "--keep", str(tmp_path / "kept")]) == 0
    first, second = diagnosis.given
    assert first[0] == second[0] == str(tmp_path / "job.log")
    assert len(first) == len(second) == 2 and first[1] != second[1]
    assert first[1].startswith(f"{tmp_path}/kept/spark-127.0.0.1-{port}/2")
    kinds = {source.kind for source in discover([str(tmp_path / "kept")]).sources}
    assert kinds == {"spark-rest", "not-read"}  # the manifest is for humans


def test_a_missing_server_does_not_stop_the_others(
    canned: CannedFactory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    diagnosis = canned()
    with serving(recorded_driver) as one, serving(recorded_driver, "127.0.0.2") as other:
        gone = "http://127.0.0.1:1"
        assert main(["diagnose", one.url, gone, other.url, "--for", "0"]) == 0
        assert {name.partition("!")[0] for name in diagnosis.given[0]} == {one.url, other.url}
        assert f"warning: {gone}: connection refused" in err_of(capsys)
        assert main(["diagnose", one.url, gone, "--for", "0", "--strict-inputs"]) == 2
    assert err_of(capsys).startswith(f"error: {gone}: connection refused\n  hint: ")
    assert len(diagnosis.given) == 1


def test_no_server_responds(canned: CannedFactory, capsys: pytest.CaptureFixture[str]) -> None:
    diagnosis = canned()
    assert main(["http://127.0.0.1:1", "--format", "json"]) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and len(shown.err.splitlines()) == 2
    assert shown.err.startswith("error: http://127.0.0.1:1: connection refused")
    assert diagnosis.given == []


def test_a_server_that_dies_is_diagnosed_from_its_data(
    canned: CannedFactory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(live, "TICK_S", 0.1)
    canned()
    requests = 0

    def respond(path: str, query: dict[str, list[str]]) -> Reply:
        nonlocal requests
        requests += path.endswith("/batches")
        return Reply(b"gone", status=500) if requests > 1 else recorded_driver(path, query)

    with serving(respond) as server:
        assert main(["diagnose", server.url, "--for", "1s", "--stacks", "never"]) == 0
    shown = err_of(capsys)
    assert f"{server.url}: stopped responding (responds with 500); the diagnosis uses" in shown


def test_a_slow_server_is_cut_off(
    canned: CannedFactory, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(live, "GRACE_S", 0.5)
    diagnosis = canned()

    def respond(path: str, query: dict[str, list[str]]) -> Reply:
        reply = recorded_driver(path, query)
        reply.delay_s = 2.0 if path.endswith("/executors") else 0.0
        return reply

    with serving(respond) as server:
        assert main(["diagnose", server.url, "--for", "0"]) == 0
    assert "too slow: cut off" in err_of(capsys) and len(diagnosis.given[0]) == 1


def test_a_url_may_name_files(
    canned: CannedFactory, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    canned()
    found: list[Any] = []

    def find(paths: Sequence[str], **how: Any) -> Any:
        found.append(list(paths))
        raise FlowdiagError("enough")

    for module in ("analyses.inputs", "cli.live.rounds"):
        monkeypatch.setattr(f"flowdiag.{module}.find", find)
    with serving(lambda path, query: NOT_FOUND) as server:
        assert main(["diagnose", f"{server.url}/logs/today"]) == 2
        assert main(["diagnose", f"{server.url}/logs/jobmanager.log"]) == 2
    capsys.readouterr()
    assert main(["diagnose", "http://127.0.0.1:1/logs/today"]) == 2
    assert "connection refused" in err_of(capsys)
    assert found == [[f"{server.url}/logs/today"], [f"{server.url}/logs/jobmanager.log"]]


def test_event_logs_of_a_history_server(
    canned: CannedFactory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    diagnosis = canned()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("local-1", '{"Event":"SparkListenerLogStart","Spark Version":"3.5.7"}\n')
    applications = [
        {"id": f"local-{n}", "name": f"job-{n}", "attempts": [{"startTimeEpoch": n}]}
        for n in range(1, 6)
    ]

    def respond(path: str, query: dict[str, list[str]]) -> Reply:
        if path == "/api/v1/version":
            return as_json({"spark": "3.5.7"})
        if path == "/api/v1/applications":
            return as_json(applications)
        if path.endswith("/logs"):
            return Reply(packed.getvalue(), kind="application/octet-stream")
        return NOT_FOUND

    with serving(respond) as server:
        assert main(["diagnose", f"{server.url}/history/local-5/jobs/"]) == 0
        accepted = {
            path: headers["Accept"]
            for path, headers in zip(server.paths(), server.headers, strict=True)
        }
        # The server rejects clients that only accept JSON.
        assert accepted["/api/v1/applications/local-5/logs"] == "*/*"
        assert accepted["/api/v1/applications"] == "application/json"
        requests = [path for path in server.paths() if path.endswith("/logs")]
        assert requests == [f"/api/v1/applications/local-{n}/logs" for n in (5, 4, 3)]
        assert "only the latest 3 of 5 applications; use --job to select others" in err_of(capsys)
        assert main(["diagnose", server.url, "--job", "job-2"]) == 0
    assert [name.partition("!")[2] for name in diagnosis.given[0]] == [
        f"local-{n}.zip!local-1" for n in (3, 4, 5)
    ]
    assert [name.partition("!")[2] for name in diagnosis.given[1]] == ["local-2.zip!local-1"]


@pytest.mark.parametrize(
    "words, message",
    [
        (["logs", "--for", "5s"], "--for requires a live server"),
        (["logs", "--keep", "x"], "--keep requires a live server"),
        (["http://jm:8081", "--times", "2"], "--times requires --every"),
        (["http://jm:8081", "--exec", "true"], "--exec requires --every"),
        (["http://jm:8081", "--for", "60"], "'60' is not a valid duration for --for"),
        (["http://jm:8081", "--every", "1s"], "'1s' is not a valid duration for --every"),
        (["http://jm:8081", "--every", "30s", "--for", "60s"], "longer than --every 30s"),
        (["http://jm:8081", "--every", "30s", "--times", "0"], "--times"),
        (["http://jm:8081", "--every", "30s", "--exec", "no-such-program"], "not found"),
        (["http://jm:8081", "--every", "30s", "--exec", "'x"], "--exec: no closing quotation"),
        (["http://jm:8081", "--every", "30s", "--exec", ""], "--exec is empty"),
        (["http://jm:8081", "--every", "30s", "-f", "junit"], "cannot print junit"),
        (["http://jm:8081", "--every", "30s", "--since", "2026-01-31"], "requires a duration"),
        (["-", "--every", "30s"], "standard input can be read only once"),
        (["http://jm:8081", "--keep", "/dev/null/x"], "--keep: cannot write to"),
        (["http://jm:8081", "--token-file", "missing"], "cannot read 'missing'"),
        (["http://jm:99999"], "is not a URL"),
    ],
)
def test_wrong_usage(
    words: list[str],
    message: str,
    tmp_path: Path,
    canned: CannedFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    diagnosis = canned()
    assert main(["diagnose", *words]) == 2
    shown = err_of(capsys)
    assert message in shown and len(shown.splitlines()) <= 2
    assert diagnosis.given == [] and list(tmp_path.iterdir()) == []


# -- rounds --------------------------------------------------------------------------------------


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_rounds_print_the_changes(
    canned: CannedFactory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    canned(reports.healthy(), reports.failing(), reports.failing(), reports.healthy())
    with serving(recorded_driver) as server:
        command = ["diagnose", server.url, "--every", "10s", "--for", "0", "--times", "4"]
        assert main(command) == 0
    shown = capsys.readouterr().out
    whole, *rounds = re.split(r"^(?=\d{4}-\d\d-\d\d .* round \d)", shown, flags=re.MULTILINE)
    assert "Verdict  healthy" in whole
    assert [found[0] for found in re.finditer(r"round \d  .*", "".join(rounds))] == [
        "round 2  healthy → failing",
        "round 4  failing → healthy",
    ]
    assert re.search(r"^  new +critical +CP201 ", rounds[0], re.MULTILINE)
    assert re.search(r"^  gone +critical +CP201 ", rounds[1], re.MULTILINE)


def test_rounds_as_json_lines(canned: CannedFactory, capsys: pytest.CaptureFixture[str]) -> None:
    canned(reports.healthy(), reports.hostile(), reports.failing())
    with serving(recorded_driver) as server:
        command = ["diagnose", server.url, "--every", "10s", "--for", "0", "--times", "3"]
        assert main([*command, "--format", "json", "--quiet"]) == 1
    shown = capsys.readouterr()
    rounds = lines_of(shown.out)
    schema = msgspec.json.schema(Round)
    for number, this in enumerate(rounds, 1):
        jsonschema.validate(this, schema)
        assert (this["schema"], this["round"]) == ("flowdiag.round/1", number)
    assert [this["exit_code"] for this in rounds] == [0, 1, 1]
    assert rounds[1]["verdict_before"] == "healthy" and rounds[1]["verdict"] == "degraded"
    assert {each["change"] for each in rounds[1]["changes"]} == {"new"}
    assert rounds[0]["report"]["schema"] == "flowdiag.report/1" and shown.err == ""


def test_a_server_misses_a_round(canned: CannedFactory, capsys: pytest.CaptureFixture[str]) -> None:
    away = [False]
    with serving(lambda p, q: Reply(status=500) if away[0] else recorded_driver(p, q)) as server:
        diagnosis = canned(reports.failing())
        call = diagnosis.__call__

        def diagnose(*how: Any, **more: Any) -> Report:
            away[0] = not away[0]
            return call(*how, **more)

        command = ["diagnose", server.url, "--every", "10s", "--for", "0", "-f", "json"]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("flowdiag.analyses.diagnosis.diagnose", diagnose)
            assert main([*command, "--times", "2"]) == 2
    shown = capsys.readouterr()
    _, second = lines_of(shown.out)
    assert second["report"] is None and second["exit_code"] == 2
    assert second["verdict"] is None and second["verdict_before"] == "failing"
    assert server.url in second["errors"][0]["message"]
    assert f"warning: round 2: {server.url}: " in shown.err and "will retry" in shown.err


@pytest.mark.full
def test_disk_use_of_rounds_is_bounded(
    canned: CannedFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    diagnosis = canned()
    clock = [1000.0]

    def pause(seconds: float) -> None:
        clock[0] += 10

    monkeypatch.setattr("flowdiag.cli.live.rounds.pause", pause)
    monkeypatch.setattr(live, "now", lambda: clock[0])
    with serving(recorded_driver) as server:
        command = ["diagnose", server.url, "--every", "10s", "--for", "0", "-q"]
        kept = tmp_path / "kept"
        assert main([*command, "--times", "6", "--keep", str(kept)]) == 0
        assert [len(inputs) for inputs in diagnosis.given] == [1, 2, 3, 3, 3, 3]
        (folder,) = kept.iterdir()
        assert set(map(str, folder.glob("*/tick-*"))) == set(diagnosis.given[-1])
        diagnosis.given.clear()
        assert main([*command, "--times", "4", "--since", "12s"]) == 0
        assert [len(inputs) for inputs in diagnosis.given] == [1, 2, 2, 2]
        diagnosis.given.clear()
        monkeypatch.setattr(live, "KEPT_BYTES", 1)
        assert main([*command, "--times", "3"]) == 0
        assert [len(inputs) for inputs in diagnosis.given] == [1, 1, 1]


def test_a_growing_log_is_read_again(
    canned: CannedFactory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    diagnosis = canned()
    (tmp_path / "a.log").write_text("23/05/01 10:00:09 WARN ProcessingTimeExecutor: x\n")
    assert main(["diagnose", str(tmp_path), "--every", "10s", "--times", "2", "-q"]) == 0
    assert diagnosis.given == [[f"{tmp_path}/a.log"]] * 2


def test_the_last_report_is_written_to_a_file(
    canned: CannedFactory, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    canned(reports.healthy(), reports.failing())
    target = tmp_path / "report.md"
    with serving(recorded_driver) as server:
        command = ["diagnose", server.url, "--every", "10s", "--for", "0", "--times", "2"]
        assert main([*command, "-f", "markdown", "-o", str(target)]) == 1
    assert "CP101" in target.read_text()
    assert "healthy → failing" in capsys.readouterr().out


# -- changes -------------------------------------------------------------------------------------


def kinds(before: Report | None, after: Report) -> set[tuple[str, Kind]]:
    return {(each.code, each.change) for each in changes(before, after)}


def test_changes_by_fingerprint() -> None:
    sick = reports.failing()
    assert {kind for _, kind in kinds(None, sick)} == {Kind.NEW}
    assert kinds(sick, sick) == set()
    first = sick.findings[0]
    milder = msgspec.structs.replace(first, state="recovered")
    better = msgspec.structs.replace(sick, findings=[milder, *sick.findings[1:]])
    assert kinds(sick, better) == {(first.code, Kind.BETTER)}
    assert kinds(better, sick) == {(first.code, Kind.WORSE)}
    # A sibling subtask has the same problem: the worst finding counts.
    assert kinds(sick, msgspec.structs.replace(sick, findings=[milder, *sick.findings])) == set()


def test_a_finding_without_data_is_not_gone() -> None:
    sick = reports.failing()
    blind = [msgspec.structs.replace(rule, status=Status.NOT_ASSESSED) for rule in sick.rules]
    silent = msgspec.structs.replace(sick, rules=blind, findings=[])
    assert {kind for _, kind in kinds(sick, silent)} == {Kind.NOT_ASSESSED}
    clear = [msgspec.structs.replace(rule, status=Status.CLEAR) for rule in sick.rules]
    healed = msgspec.structs.replace(sick, rules=clear, findings=[])
    assert {kind for _, kind in kinds(sick, healed)} == {Kind.GONE}
    # The topic's first question has no answer: its other rules had no data.
    topics = [topic_without_input(str(topic_named(rule.code))) for rule in sick.rules]
    unsure = msgspec.structs.replace(healed, topics=topics)
    assert {kind for _, kind in kinds(sick, unsure)} == {Kind.NOT_ASSESSED}


def test_hostile_text_is_escaped() -> None:
    report = reports.hostile()
    this = Round(
        round=2,
        time="2026-11-22T18:00:00.000Z",
        verdict=report.summary.verdict,
        verdict_before=None,
        exit_code=1,
        changes=changes(None, report),
        errors=[],
        report=report,
    )
    for width in (40, 80, 10_000):
        text = changes_text(this, Page(width=width))
        assert "\x1b" not in text and "\u202e" not in text and text.count("\n") < 200


# -- the hook ------------------------------------------------------------------------------------


@pytest.mark.full
def test_exec_runs_on_changes(
    canned: CannedFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("FLOWDIAG_COLLECT_TOKEN", "hunter2")
    monkeypatch.delenv("FLOWDIAG_CACHE_DIR", raising=False)  # a path of the developer's environment
    canned(reports.healthy(), reports.hostile(), reports.hostile(), reports.healthy())
    script = tmp_path / "notify"
    script.write_text(
        f"#!{sys.executable}\nimport json, os, sys\n"
        "received = {k: v for k, v in os.environ.items() if k.startswith('FLOWDIAG_')}\n"
        "print('loud')\n"
        f"with open({str(tmp_path / 'received')!r}, 'a') as file:\n"
        "    print(json.dumps([json.load(sys.stdin)['schema'], received]), file=file)\n"
    )
    script.chmod(0o755)
    with serving(recorded_driver) as server:
        command = ["diagnose", server.url, "--every", "10s", "--for", "0", "--times", "4"]
        assert main([*command, "-f", "json", "--exec", str(script)]) == 0
    received: list[Any] = list(lines_of((tmp_path / "received").read_text()))
    assert [each[0] for each in received] == ["flowdiag.report/1"] * 2
    sick, healed = (each[1] for each in received)
    assert sick["FLOWDIAG_ROUND"] == "2" and sick["FLOWDIAG_VERDICT_BEFORE"] == "healthy"
    assert healed["FLOWDIAG_VERDICT"] == "healthy" and healed["FLOWDIAG_NEW"] == ""
    assert "FLOWDIAG_COLLECT_TOKEN" not in sick
    # Codes, words and numbers, but no log text.
    assert all(re.fullmatch(r"[A-Za-z0-9 -]*", value) for value in sick.values())
    shown = capfd.readouterr()
    assert "loud" in shown.err and "loud" not in shown.out
    assert len(lines_of(shown.out)) == 4


@pytest.mark.parametrize(
    "words, warning",
    [
        (["sh", "-c", "exit 7"], "exited with code 7"),
        (["sh", "-c", "cat >/dev/null; sleep 60 & sleep 60"], "was killed after 0.5 s"),
        (["true"], ""),
        (["/"], "--exec: /: "),
    ],
)
def test_a_failed_exec_is_a_warning(
    words: list[str], warning: str, capfd: pytest.CaptureFixture[str]
) -> None:
    begun = time.monotonic()
    report = reports.many(80)
    assert len(encode(report)) > 65_536  # larger than a pipe's buffer
    hook.run(words, report, changes(None, report), number=1, before=None, timeout_s=0.5)
    shown = capfd.readouterr().err
    assert warning in shown and bool(shown) is bool(warning)
    assert time.monotonic() - begun < 10


# -- the process ---------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.command
@pytest.mark.parametrize("more", [[], ["--every", "10m", "--times", "2"]], ids=["once", "rounds"])
def test_ctrl_c_leaves_a_valid_folder(more: list[str], tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    kept = tmp_path / "kept"
    with serving(RecordedFlink()) as server:
        command = [sys.executable, "-m", "flowdiag", "diagnose", server.url, "--for", "5m"]
        with subprocess.Popen(
            [*command, "--keep", str(kept), *more],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
        ) as process:
            end = time.monotonic() + 60
            while not list(kept.glob("*/*/tick-*")) and time.monotonic() < end:
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "")
    assert list((tmp_path / "tmp").iterdir()) == []
    read = [source for source in discover([str(kept)]).sources if source.kind == "rest"]
    assert read
    for source in read:
        assert json.loads(Path(source.path).read_bytes())["schema"] == "flowdiag.collected/1"


@pytest.mark.full
@pytest.mark.command
def test_rounds_share_one_session(tmp_path: Path) -> None:
    with serving(RecordedFlink()) as server:
        command = [sys.executable, "-m", "flowdiag", server.url, "--every", "10s", "--for", "3s"]
        done = subprocess.run(
            [*command, "--times", "3", "--format", "json"],
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, "TMPDIR": str(tmp_path)},
        )
    rounds = lines_of(done.stdout)
    assert [this["round"] for this in rounds] == [1, 2, 3] and done.returncode == rounds[-1][
        "exit_code"
    ]
    assert all(this["report"]["summary"]["assessed"] for this in rounds)
    first = rounds[0]["report"]["summary"]["culprits"][0]["subject"]
    assert (first["task"], first["subtask_index"]) == ("enrich", 0)
    # Three seconds give few samples, depending on the host's speed: findings without enough samples are not gone.
    assert all(change["change"] != "gone" for this in rounds for change in this["changes"])
    assert list(tmp_path.iterdir()) == []
