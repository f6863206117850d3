"""`flowdiag collect yarn` against YARN's REST APIs in memory, written after the API's source and a recorded cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from flowdiag.cli.app import main
from flowdiag.cli.live.yarn import manager_address
from tests.fake_server import Reply, as_json, serving

APP = "application_1700000000000_0007"
ATTEMPT = "appattempt_1700000000000_0007_000001"
MASTER = "container_1700000000000_0007_01_000001"
KILLED = "container_1700000000000_0007_01_000002"
LATER = "container_1700000000000_0007_01_000003"
SECRET = "s3.secret-key: abcdefgh12345678"
MISSING = as_json({"RemoteException": {"exception": "NotFoundException"}}, status=404)

KILLED_CONTAINER = {
    "containerId": KILLED,
    "containerExitStatus": -104,
    "containerState": "COMPLETE",
    "allocatedMB": 1024,
    "diagnosticsInfo": "running 9MB beyond the 'PHYSICAL' memory limit",
}


@dataclass
class Yarn:
    """A ResourceManager, a NodeManager and a timeline server behind one address.

    Attributes:
        state: the state of the application.
        logs: texts by container and file, for containers of the NodeManager and of the timeline server.
        broken: replies that replace others, by a part of the path.
        forgotten: whether the ResourceManager no longer knows the application.
        ended: the ended containers, as the timeline server lists them.
    """

    state: str = "RUNNING"
    diagnostics: str = ""
    logs: dict[str, dict[str, str]] = field(default_factory=dict)
    broken: dict[str, Reply] = field(default_factory=dict)
    forgotten: bool = False
    url: str = ""
    ended: list[dict[str, Any]] = field(default_factory=lambda: [KILLED_CONTAINER])

    def __call__(self, path: str, query: dict[str, list[str]]) -> Reply:
        for part, reply in self.broken.items():
            if part in path:
                return reply
        path = path.replace("/gateway/default/resourcemanager/v1", "/ws/v1")
        for prefix, answer in (
            ("/ws/v1/cluster", self.manager),
            ("/ws/v1/applicationhistory", self.timeline),
            ("/ws/v1/node", self.node),
        ):
            if path.startswith(prefix):
                return answer(path.removeprefix(prefix))
        return MISSING

    def manager(self, path: str) -> Reply:
        app = {"id": APP, "state": self.state, "finalStatus": "UNDEFINED", "queue": "etl", "diagnostics": self.diagnostics, "applicationType": "Apache Flink", "amContainerLogs": ""}  # fmt: skip
        node = self.url.removeprefix("http://")
        attempt = {"id": 1, "appAttemptId": ATTEMPT, "containerId": MASTER, "nodeHttpAddress": node}
        running = {"containerId": MASTER, "containerExitStatus": 0, "containerState": "RUNNING", "nodeHttpAddress": self.url}  # fmt: skip
        etl = {"queueName": "etl", "capacity": 20.0, "users": {"user": []}}
        answers: dict[str, Any] = {
            f"/apps/{APP}": {"app": app},
            f"/apps/{APP}/appattempts": {"appAttempts": {"appAttempt": [attempt]}},
            f"/apps/{APP}/appattempts/{ATTEMPT}/containers": {"container": [running]},
            "/nodes": {"nodes": {"node": [{"id": "n:1", "nodeHTTPAddress": node, "state": "RUNNING"}, {"id": "o:1", "nodeHTTPAddress": "other:8042", "state": "LOST"}]}},
            "/scheduler": {"scheduler": {"schedulerInfo": {"queueName": "root", "queues": {"queue": [etl]}}}},
        }  # fmt: skip
        return MISSING if self.forgotten or path not in answers else as_json(answers[path])

    def timeline(self, path: str) -> Reply:
        app = {"appId": APP, "appState": self.state, "finalAppStatus": "FAILED", "diagnosticsInfo": self.diagnostics}  # fmt: skip
        attempt = {"appAttemptId": ATTEMPT, "amContainerId": MASTER, "appAttemptState": "RUNNING"}
        answers: dict[str, Any] = {
            f"/apps/{APP}": app,
            f"/apps/{APP}/appattempts": {"appAttempt": [attempt]},
            f"/apps/{APP}/appattempts/{ATTEMPT}/containers": {"container": self.ended},
        }
        return as_json(answers[path]) if path in answers else self.log(path, {KILLED})

    def node(self, path: str) -> Reply:
        return self.log(path, set(self.logs) - {KILLED})

    def log(self, path: str, here: set[str]) -> Reply:
        _, kind, container, logs, *name = [*path.split("/"), "", ""][:5]
        files = self.logs.get(container, {}) if container in here else {}
        if (kind, logs) != ("containers", "logs"):
            return MISSING
        if name and name[0]:
            text = f"Container: {container} on worker-1_1\nLogType:{name[0]}\nLogContents:\n"
            return Reply((text + files[name[0]]).encode(), kind="text/plain")
        listed = [{"fileName": file, "fileSize": str(len(text))} for file, text in files.items()]
        info = {"containerLogInfo": listed, "logAggregationType": "AGGREGATED"}
        return as_json({"containerLogsInfo": [info]}) if listed else MISSING


@pytest.fixture
def yarn() -> Iterator[Yarn]:
    world = Yarn(
        logs={
            MASTER: {
                "jobmanager.log": f"requested {LATER}\n{SECRET}\n",
                "launch_container.sh": "x",
            },
            KILLED: {"taskmanager.log": "the end\n"},
            LATER: {"taskmanager.log": "later\n", "empty": ""},
        }
    )
    with serving(world) as server:
        world.url = server.url
        yield world


def collect(world: Yarn, folder: Path, *more: str) -> int:
    arguments = ["--resourcemanager", world.url, "--timeline", world.url, "-o", str(folder), "-q"]
    return main(["collect", "yarn", APP, *arguments, *more])


def files(folder: Path) -> set[str]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix() for path in found} - {"manifest.jsonl"}


def test_a_snapshot_contains_states_and_the_logs_of_all_containers(
    yarn: Yarn, tmp_path: Path
) -> None:
    assert collect(yarn, tmp_path, "--no-rest") == 0
    assert files(tmp_path) == {
        "application.json",
        "attempts.json",
        "attempt-000001.containers.json",
        "timeline.application.json",
        "timeline.attempts.json",
        "timeline.attempt-000001.containers.json",
        "nodes.json",
        "queue.json",
        f"{MASTER}/jobmanager.log",
        f"{KILLED}/taskmanager.log",
        f"{LATER}/taskmanager.log",
    }
    log = (tmp_path / MASTER / "jobmanager.log").read_text()
    assert "s3.secret-key: ***" in log and "abcdefgh" not in log
    nodes = json.loads((tmp_path / "nodes.json").read_bytes())
    assert [node["id"] for node in nodes["nodes"]["node"]] == ["n:1"]
    queue = json.loads((tmp_path / "queue.json").read_bytes())
    assert queue == {"queue": {"queueName": "etl", "capacity": 20.0}}
    manifest = [json.loads(line) for line in (tmp_path / "manifest.jsonl").read_text().splitlines()]
    assert (manifest[0]["kind"], manifest[0]["application"]) == ("yarn", APP)
    assert manifest[-1]["why"] == "all data is collected"


def test_all_containers_of_an_answer_are_known(yarn: Yarn, tmp_path: Path) -> None:
    yarn.ended.append(
        {"containerId": LATER, "containerState": "COMPLETE", "containerExitStatus": 0}
    )
    yarn.logs[MASTER]["jobmanager.log"] = "no other container\n"
    assert collect(yarn, tmp_path, "--no-rest") == 0
    assert {f"{KILLED}/taskmanager.log", f"{LATER}/taskmanager.log"} <= files(tmp_path)


@pytest.mark.parametrize("name", ["./../../outside", f"{MASTER}/../../outside", "outside", 7])
def test_names_in_responses_cannot_escape_the_folder(
    yarn: Yarn, tmp_path: Path, name: object
) -> None:
    yarn.ended.insert(0, {"containerId": name, "nodeHttpAddress": "http://[bad"})
    listed = {"containerLogInfo": [{"fileName": "x.log", "fileSize": "2"}]}
    text = Reply(b"x\n", kind="text/plain")
    yarn.broken = {"outside/logs/": text, "outside/logs": as_json({"containerLogsInfo": [listed]})}
    folder = tmp_path / "a" / "b"
    assert collect(yarn, folder, "--no-rest") == 0
    found = {path.parent for path in tmp_path.rglob("*.log")}
    assert found == {folder / MASTER, folder / KILLED, folder / LATER}


def test_an_ended_application_comes_from_the_timeline_server(yarn: Yarn, tmp_path: Path) -> None:
    yarn.forgotten, yarn.state = True, "FAILED"
    assert collect(yarn, tmp_path) == 0
    assert f"{KILLED}/taskmanager.log" in files(tmp_path)


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ({"/cluster": Reply(status=401, headers={"WWW-Authenticate": "Negotiate"})}, "requires Kerberos (401)"),
        ({"/cluster": Reply(status=403)}, "denies access (403)"),
        ({"/cluster": Reply(b"<html>Knox login</html>", kind="text/html")}, "a login page"),
        ({"/cluster": MISSING, "history": MISSING}, f"does not know {APP}"),
        ({"/cluster": Reply(b"<html>", status=404, kind="text/html")}, "not the REST API"),
    ],
)  # fmt: skip
def test_a_rejected_request_is_one_line(
    yarn: Yarn, tmp_path: Path, capsys: pytest.CaptureFixture[str], broken: dict[str, Reply], words: str
) -> None:  # fmt: skip
    yarn.broken = broken
    assert collect(yarn, tmp_path / "new") == 2
    error = capsys.readouterr().err
    assert words in error and "hint:" in error and "Traceback" not in error
    assert not (tmp_path / "new").exists()


def test_logs_without_permission_do_not_affect_the_others(
    yarn: Yarn, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = Reply(b"<!DOCTYPE html><title>login</title>", kind="text/html")
    yarn.broken = {"jobmanager.log": page, f"{KILLED}/logs": Reply(status=403)}
    assert collect(yarn, tmp_path, "--no-rest") == 0
    assert not {name for name in files(tmp_path) if name.startswith("container_")}
    error = capsys.readouterr().err
    assert "an HTML page instead of the log: a login page" in error
    assert f"{KILLED}: no server has its logs" in error
    assert "no log was readable: pass the folder of the aggregated logs" in error


def test_credentials_go_only_to_named_servers(yarn: Yarn, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("opensesame")
    with serving(yarn) as node:
        yarn.url, manager = node.url, yarn.url
        arguments = ["--resourcemanager", manager, "--timeline", manager, "--no-rest", "-q"]
        arguments += ["--token-file", str(token), "-o", str(tmp_path / "out")]
        assert main(["collect", "yarn", APP, *arguments]) == 0
        assert node.requests and all("Authorization" not in headers for headers in node.headers)
    assert f"{MASTER}/jobmanager.log" in files(tmp_path / "out")


def test_the_path_of_a_gateway(yarn: Yarn, tmp_path: Path) -> None:
    gateway = f"{yarn.url}/gateway/default/resourcemanager"
    arguments = ["--resourcemanager", gateway, "--timeline", yarn.url, "--no-rest", "-q"]
    assert main(["collect", "yarn", APP, "-o", str(tmp_path), *arguments]) == 0
    assert {"attempts.json", "queue.json", f"{MASTER}/jobmanager.log"} <= files(tmp_path)


@pytest.mark.parametrize("application", ["orders", "job_1700000000000_0007"])
def test_an_invalid_id(application: str, tmp_path: Path) -> None:
    assert (
        main(["collect", "yarn", application, "--resourcemanager", "rm", "-o", str(tmp_path)]) == 2
    )


def test_the_address_of_the_manager_is_in_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    assert main(["collect", "yarn", APP, "-o", str(tmp_path / "out")]) == 2
    assert "the address of the ResourceManager is unknown" in capsys.readouterr().err
    option = "<property><name>yarn.resourcemanager.webapp.address</name><value>rm:8088</value></property>"
    (tmp_path / "yarn-site.xml").write_text(f"<configuration>{option}</configuration>")
    assert manager_address({"HADOOP_CONF_DIR": str(tmp_path)}) == "http://rm:8088"


def test_other_commands_name_the_right_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["memory", f"yarn://{APP}"]) == 2
    assert "an application on YARN, not a log" in capsys.readouterr().err
    assert main(["diagnose", f"yarn://{APP}?x=1", "-q"]) == 2
    assert "unknown option 'x'" in capsys.readouterr().err
