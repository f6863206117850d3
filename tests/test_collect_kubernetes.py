"""`flowdiag collect k8s` against an API server in memory, through the real client library."""

from __future__ import annotations

import gzip
import json
import sys
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from flowdiag.cli.app import main
from flowdiag.parsers.live.k8s import api, collector
from flowdiag.parsers.live.k8s.api import CONCURRENCY
from flowdiag.parsers.live.k8s.permissions import PERMISSIONS, Permission, role_yaml
from tests.fake_kubernetes import FakeCluster, Json, event, kubeconfig, pod, resource, rules_of
from tests.fake_server import NOT_FOUND, FakeServer, RecordedFlink, Reply, as_json, serving

FLINK = {"app": "orders", "type": "flink-native-kubernetes"}
JM = FLINK | {"component": "jobmanager"}
TM = FLINK | {"component": "taskmanager"}
SPARK = {"spark-app-selector": "spark-1", "spark-app-name": "billing"}
OPERATED = SPARK | {"sparkoperator.k8s.io/app-name": "billing"}
APACHE = {"spark-app-selector": "spark-2", "spark.operator/spark-app-name": "ledger"}

OOM = {
    "restartCount": 1,
    "lastState": {
        "terminated": {"reason": "OOMKilled", "exitCode": 137, "finishedAt": "2026-11-20T23:28:11Z"}
    },
}


def cluster() -> FakeCluster:
    """Return a namespace with every kind of workload that a handle can name."""
    volumes = [
        {"name": "conf", "configMap": {"name": "flink-config-orders"}},
        {"name": "state", "persistentVolumeClaim": {"claimName": "state-0"}},
    ]
    environment = [
        {"name": "DB_PASSWORD", "value": "hunter2hunter2"},
        {"name": "MODE", "value": "blue-green"},
    ]
    container = {"name": "main", "image": "flink:1.20", "env": environment}
    objects: list[Json] = [
        resource(
            "FlinkDeployment",
            "orders",
            "flink.apache.org/v1beta1",
            spec={"flinkVersion": "v1_20"},
            status={},
        ),
        resource(
            "FlinkSessionJob",
            "report",
            "flink.apache.org/v1beta1",
            spec={"deploymentName": "orders"},
        ),
        resource(
            "Deployment",
            "orders-plain",
            "apps/v1",
            spec={
                "selector": {"matchLabels": {"app": "plain", "component": "jobmanager"}},
                "template": {"metadata": {"labels": {"app": "plain", "component": "jobmanager"}}},
            },
        ),
        resource(
            "StatefulSet",
            "plain-taskmanager",
            "apps/v1",
            spec={
                "selector": {"matchLabels": {"app": "plain", "component": "taskmanager"}},
                "template": {"metadata": {"labels": {"app": "plain", "component": "taskmanager"}}},
            },
        ),
        resource(
            "Job", "submit", "batch/v1", spec={"selector": {"matchLabels": {"controller-uid": "7"}}}
        ),
        resource("SparkApplication", "billing", "sparkoperator.k8s.io/v1beta2", spec={}, status={}),
        resource("SparkApplication", "ledger", "spark.apache.org/v1beta1", spec={}, status={}),
        pod(
            "orders-7d",
            labels=JM,
            spec={"volumes": volumes, "nodeName": "worker-1", "containers": [container]},
        ),
        pod("orders-taskmanager-1-1", labels=TM, state=OOM),
        pod("plain-jm", labels={"app": "plain", "component": "jobmanager"}),
        pod("plain-tm", labels={"app": "plain", "component": "taskmanager"}),
        pod("submit-x", labels={"controller-uid": "7"}),
        pod("billing-driver", labels=OPERATED | {"spark-role": "driver"}),
        pod("billing-exec-1", labels=SPARK | {"spark-role": "executor"}),
        pod("ledger-driver", labels=APACHE | {"spark-role": "driver"}),
        pod("ledger-exec-1", labels=APACHE | {"spark-role": "executor"}),
        resource(
            "ConfigMap",
            "flink-config-orders",
            data={
                "flink-conf.yaml": "taskmanager.memory.process.size: 4g\ns3.secret-key: abcdefgh12\n",
                "other": "x",
            },
        ),
        resource(
            "ConfigMap",
            "autoscaler-orders",
            data={
                "scalingHistory": b64encode(gzip.compress(b"- parallelism: 4\n")).decode(),
            },
        ),
        resource("PersistentVolumeClaim", "state-0", status={"phase": "Pending"}),
        resource("PersistentVolumeClaim", "unrelated", status={}),
        *(
            resource(
                "HorizontalPodAutoscaler",
                name,
                "autoscaling/v2",
                spec={"maxReplicas": 4, "scaleTargetRef": {"kind": "Deployment", "name": name}},
            )
            for name in ("orders-taskmanager", "unrelated")
        ),
        resource(
            "Node",
            "worker-1",
            spec={},
            status={"conditions": [{"type": "MemoryPressure", "status": "True"}]},
        ),
    ]
    gone = resource("Pod", "orders-taskmanager-1-9")
    objects += [
        event(objects[8], "OOMKilling", "Memory cgroup out of memory"),
        event(gone, "Evicted", "The node was low on resource: memory."),
        event(resource("Pod", "unrelated-1"), "Evicted", "not ours"),
        event(objects[-1], "NodeHasInsufficientMemory", "worker-1"),
    ]
    logs: dict[tuple[str, str, bool], Any] = {
        (
            each["metadata"]["name"],
            "main",
            False,
        ): f"log of {each['metadata']['name']}\npassword=hunter3hunter3\n".encode()
        for each in objects
        if each["kind"] == "Pod"
    }
    logs["orders-taskmanager-1-1", "main", True] = b"before the restart\n"
    return FakeCluster(objects=objects, logs=logs)


def collect(folder: Path, server: FakeServer | str, *arguments: str) -> int:
    url = server if isinstance(server, str) else server.url
    config = kubeconfig(folder, url)
    output = folder / "snapshot"
    return main(
        [
            "collect",
            "k8s",
            *arguments,
            "--kubeconfig",
            str(config),
            "-o",
            str(output),
            "--timeout",
            "2s",
        ]
    )


def files(folder: Path) -> set[str]:
    return (
        {path.name for path in (folder / "snapshot").iterdir()}
        if (folder / "snapshot").exists()
        else set()
    )


ORDERS = {"orders-7d", "orders-taskmanager-1-1"}
PLAIN = {"plain-jm", "plain-tm"}
HANDLES = {
    "orders": ORDERS,
    "flinkdeployments/orders": ORDERS,
    "report": ORDERS,
    "sessionjob/report": ORDERS,
    "deploy/orders-plain": PLAIN,
    "plain-taskmanager": PLAIN,
    "jobs/submit": {"submit-x"},
    "billing": {"billing-driver", "billing-exec-1"},
    "sparkapplication/ledger": {"ledger-driver", "ledger-exec-1"},
    "pod/orders-taskmanager-1-1": ORDERS,
    "billing-driver": {"billing-driver", "billing-exec-1"},
    "plain": PLAIN,
    "spark-2": {"ledger-driver", "ledger-exec-1"},
}


@pytest.mark.parametrize("handle", HANDLES)
def test_every_handle_finds_all_pods_of_its_workload(handle: str, tmp_path: Path) -> None:
    with serving(cluster()) as server:
        assert collect(tmp_path, server, handle, "--no-rest") == 0
    logs = {
        name.removesuffix(".main.log") for name in files(tmp_path) if name.endswith(".main.log")
    }
    assert logs == HANDLES[handle]


def test_a_selector_and_no_handle(tmp_path: Path) -> None:
    with serving(cluster()) as server:
        assert collect(tmp_path, server, "-l", "controller-uid=7", "--no-rest") == 0
        assert "submit-x.main.log" in files(tmp_path)
        (tmp_path / "b").mkdir()
        assert collect(tmp_path / "b", server, "--no-rest", "-q") == 0
    found = files(tmp_path / "b")
    assert {f"{name}.main.log" for name in ORDERS | PLAIN | HANDLES["billing"]} <= found
    assert "submit-x.main.log" not in found


def test_the_files_of_a_snapshot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = cluster()
    world.rest = RecordedFlink()
    with serving(world) as server:
        assert collect(tmp_path, server, "orders") == 0
    shown = capsys.readouterr()
    assert shown.err == "" and "all data is collected" in shown.out
    assert files(tmp_path) == {
        "flinkdeployment.orders.json",
        "pods-001.json",
        "events-001.json",
        "node-events-001.json",
        "node.worker-1.json",
        "configmap.flink-config-orders.json",
        "configmap.autoscaler-orders.json",
        "persistentvolumeclaims-001.json",
        "horizontalpodautoscalers-001.json",
        "orders-7d.main.log",
        "orders-taskmanager-1-1.main.log",
        "orders-taskmanager-1-1.main.previous.log",
        "rest",
        "manifest.jsonl",
    }
    snapshot = tmp_path / "snapshot"
    assert list((snapshot / "rest").glob("tick-*"))
    events = json.loads((snapshot / "events-001.json").read_text())["items"]
    assert [each["involvedObject"]["name"] for each in events] == [
        "orders-taskmanager-1-1",
        "orders-taskmanager-1-9",
    ]
    claims = json.loads((snapshot / "persistentvolumeclaims-001.json").read_text())["items"]
    assert [each["metadata"]["name"] for each in claims] == ["state-0"]
    scaled = json.loads((snapshot / "configmap.autoscaler-orders.json").read_text())
    assert scaled["data"] == {"scalingHistory": "- parallelism: 4\n"}
    text = "".join(path.read_text() for path in snapshot.rglob("*") if path.is_file())
    assert "hunter" not in text and "abcdefgh12" not in text and "t0ken" not in text
    assert "blue-green" in text and "password=***" in text
    assert all("secrets" not in path for path in server.paths())


def no_rest_api(path: str, query: dict[str, list[str]]) -> Reply:
    return NOT_FOUND


def without(permission: Permission) -> set[tuple[str, str, str, str]]:
    return rules_of(role_yaml("prod", [each for each in PERMISSIONS if each != permission]))


def test_the_printed_role_suffices(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["collect", "k8s", "-n", "prod", "--print-rbac"]) == 0
    world = cluster()
    world.rest = no_rest_api
    world.rules = rules_of(capsys.readouterr().out)
    with serving(world) as server:
        for number, handle in enumerate([*HANDLES, None]):
            (tmp_path / str(number)).mkdir()
            arguments = [] if handle is None else [handle]
            assert collect(tmp_path / str(number), server, *arguments, "-q") == 0
    errors = capsys.readouterr().err
    assert "permission denied" not in errors
    # Every rule is used by some request: the role is minimal.
    assert world.used == world.rules


@pytest.mark.parametrize("permission", PERMISSIONS, ids=str)
def test_a_missing_permission_is_a_warning_that_names_it(
    permission: Permission, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    handles = {
        "sparkapplications": "spark-1",
        "deployments": "spark-1",
        "statefulsets": "spark-1",
        "jobs": "spark-1",
    }
    handle = handles.get(permission.resource, "orders")
    if str(permission) == "get pods":
        handle = "spark-1"
    if permission.resource == "flinksessionjobs":
        handle = "billing"
    world = cluster()
    world.rest, world.rules = no_rest_api, without(permission)
    with serving(world) as server:
        code = collect(tmp_path, server, handle)
    error = capsys.readouterr().err
    assert f"permission denied: {permission}" in error
    if str(permission) == "list pods":
        assert code == 2 and "--print-rbac" in error
    else:
        assert code == 0 and files(tmp_path) - {"manifest.jsonl"}
    assert error.count("permission denied") == 1


BROKEN_CONFIGS = {
    "missing": (None, [], "no kubeconfig: '", "KUBECONFIG"),
    "context": (
        "good",
        ["--context", "prod-eu"],
        "the kubeconfig has no context 'prod-eu'",
        "pass one of: test",
    ),
    "garbage": ("[1, 2", [], "cannot read the kubeconfig: ", "KUBECONFIG"),
    "empty": ("{}", [], "invalid kubeconfig: Expected key ", "KUBECONFIG"),
}


@pytest.mark.parametrize("name", BROKEN_CONFIGS)
def test_a_broken_configuration_is_one_clear_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, arguments, message, hint = BROKEN_CONFIGS[name]
    path = tmp_path / "kubeconfig"
    if text == "good":
        kubeconfig(tmp_path, "http://127.0.0.1:1")
    elif text is not None:
        path.write_text(text)
    code = main(
        [
            "collect",
            "k8s",
            "orders",
            "-o",
            str(tmp_path / "s"),
            "--kubeconfig",
            str(path),
            *arguments,
        ]
    )
    error = capsys.readouterr().err
    assert code == 2 and message in error and hint in error
    assert len(error.splitlines()) == 2


def test_an_exec_plugin_that_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "no-such-plugin",
        "interactiveMode": "Never",
    }
    config = kubeconfig(tmp_path, "http://127.0.0.1:1", exec=plugin)
    code = main(
        ["collect", "k8s", "orders", "-o", str(tmp_path / "s"), "--kubeconfig", str(config)]
    )
    error = capsys.readouterr().err
    assert code == 2 and "the credential plugin of the kubeconfig failed: " in error
    assert "no-such-plugin" in error


def test_an_exec_plugin_supplies_the_token(tmp_path: Path) -> None:
    status = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "fresh"},
    }
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": ["-c", f"print({json.dumps(json.dumps(status))})"],
        "interactiveMode": "Never",
    }
    with serving(cluster()) as server:
        config = kubeconfig(tmp_path, server.url, exec=plugin)
        output = str(tmp_path / "s")
        assert (
            main(
                ["collect", "k8s", "orders", "-o", output, "--kubeconfig", str(config), "--no-rest"]
            )
            == 0
        )
    assert {each["Authorization"] for each in server.headers} == {"Bearer fresh"}


PODS = "/api/v1/namespaces/prod/pods"
DEPLOYMENT = "/apis/flink.apache.org/v1beta1/namespaces/prod/flinkdeployments/orders"
HTML = Reply(b"<!doctype html><html><title>Sign in</title>", kind="text/html")
REFUSALS = {
    "expired token": (
        Reply(b"{}", status=401),
        "rejects the credentials (401): the token may have expired",
    ),
    "login page": (HTML, "an HTML page instead of JSON: the login page of a proxy?"),
    "redirect": (
        Reply(status=302, headers={"Location": "https://sso.example/login?x=1"}),
        "redirects to https://sso.example/login",
    ),
    "cut": (
        Reply(b'{"kind": "FlinkDeployment", "metadata": {"name": "orders"}}', cut=True),
        "the connection was lost",
    ),
    "not JSON": (Reply(b'{"kind": "Fli'), "the response is not JSON, or is truncated"),
    "slow": (Reply(b"{}", delay_s=5), "does not respond in time"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_an_unusable_server_is_one_clear_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reply, message = REFUSALS[name]
    world = FakeCluster(answers={DEPLOYMENT: reply})
    with serving(world) as server:
        config = kubeconfig(tmp_path, server.url)
        arguments = [
            "collect",
            "k8s",
            "orders",
            "--kubeconfig",
            str(config),
            "-o",
            str(tmp_path / "s"),
            "--timeout",
            "0.2s",
        ]
        assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error and len(error.splitlines()) == 2 and "t0ken" not in error


def test_no_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert collect(tmp_path, "http://127.0.0.1:9", "orders") == 2
    assert "http://127.0.0.1:9: connection refused" in capsys.readouterr().err


def test_an_unknown_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(cluster()) as server:
        assert collect(tmp_path, server, "order") == 2
        assert "no resource is named 'order' in namespace 'prod'" in capsys.readouterr().err
        assert collect(tmp_path, server, "orders", "-n", "test") == 2
        assert "in namespace 'test'" in capsys.readouterr().err
        assert collect(tmp_path, server, "cronjob/x") == 2
        assert "unknown kind 'cronjob'" in capsys.readouterr().err
        assert collect(tmp_path, server, "Orders/../x") == 2
        assert collect(tmp_path, server, "-l", "app=nothing") == 2
        assert "no pod matches 'app=nothing'" in capsys.readouterr().err


def test_data_from_before_the_token_expired_stays_usable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = cluster()
    world.answers[f"{PODS}/orders-7d/log"] = Reply(b"{}", status=401)
    with serving(world) as server:
        assert collect(tmp_path, server, "orders", "--no-rest") == 0
    assert {"pods-001.json", "events-001.json"} <= files(tmp_path)
    error = capsys.readouterr().err
    assert (
        "rejects the credentials (401)" in error and "the data collected so far is valid" in error
    )


def test_pods_that_vanish_and_logs_that_end_early(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = cluster()
    world.answers[f"{PODS}/orders-taskmanager-1-1/log"] = Reply(b"{}", status=404)
    world.answers[f"{PODS}/orders-7d/log"] = Reply(
        b"first line\n" * 20, kind="text/plain", cut=True
    )
    with serving(world) as server:
        assert collect(tmp_path, server, "orders", "--no-rest") == 0
    error = capsys.readouterr().err
    assert "orders-taskmanager-1-1: the pod was gone before its log was read" in error
    assert "orders-7d/main: the connection was lost during the response" in error
    kept = (tmp_path / "snapshot" / "orders-7d.main.log").read_text()
    assert kept.startswith("first line\n")


@pytest.mark.parametrize("width", [0, 400], ids=["short lines", "long lines"])
def test_the_end_of_a_huge_log_is_kept(
    width: int, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector, "TAIL_LINES", 10_000)
    world = cluster()
    lines = [
        f"line {number}{' and more' * (width // 9)}\n".encode()
        for number in range(300_000 // (1 + width // 40))
    ]
    world.logs["orders-7d", "main", False] = b"".join(lines)
    with serving(world) as server:
        assert collect(tmp_path, server, "orders", "--no-rest", "--log-size", "1m") == 0
    kept = (tmp_path / "snapshot" / "orders-7d.main.log").read_bytes()
    assert 100_000 < len(kept) < 1 << 20 and b"".join(lines).endswith(kept)
    shown = capsys.readouterr()
    assert "larger than 1 MiB: only its last lines are kept" in shown.err
    assert "the warnings show what is missing" in shown.out
    assert server.paths().count(f"{PODS}/orders-7d/log") == 2


def test_a_server_that_ignores_the_limits_of_logs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = cluster()
    endless = b"a line of an endless log\n" * 500_000
    world.answers[f"{PODS}/orders-7d/log"] = Reply(endless, kind="text/plain")
    with serving(world) as server:
        assert collect(tmp_path, server, "orders", "--no-rest", "--log-size", "1m") == 0
    kept = (tmp_path / "snapshot" / "orders-7d.main.log").read_bytes()
    assert len(kept) == 1 << 20 and endless.startswith(kept)
    assert "larger than 1 MiB: only its first lines are kept" in capsys.readouterr().err
    assert server.paths().count(f"{PODS}/orders-7d/log") == 2


def test_all_logs_together_are_limited(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector, "ALL_LOG_BYTES", 1 << 20)
    world = cluster()
    for number in range(60):
        world.objects.append(pod(f"orders-taskmanager-3-{number}", labels=TM))
        world.logs[f"orders-taskmanager-3-{number}", "main", False] = b"a line of a log\n" * 6000
    with serving(world) as server:
        assert collect(tmp_path, server, "orders", "--no-rest") == 0
    logs = [path.stat().st_size for path in (tmp_path / "snapshot").glob("*.log")]
    assert 1 << 20 <= sum(logs) <= (1 << 20) + CONCURRENCY * 100_000
    assert "not read: all logs together exceed" in capsys.readouterr().err


@pytest.mark.parametrize("what", ["pods", "events"])
def test_an_expired_list_is_reported_as_incomplete(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "PAGE", 2)
    world = cluster()
    world.objects += [pod(f"orders-taskmanager-4-{number}", labels=TM) for number in range(4)]

    def respond(path: str, query: dict[str, list[str]]) -> Reply:
        if path.endswith(f"prod/{what}") and "continue" in query:
            return as_json({"message": "The provided continue parameter is too old"}, status=410)
        return world(path, query)

    with serving(respond) as server:
        assert collect(tmp_path, server, "orders", "--no-rest") == 0
    error = capsys.readouterr().err
    assert f"{what}: the list is incomplete: responds with 410: The provided continue" in error
    kept = json.loads((tmp_path / "snapshot" / f"{what}-001.json").read_text())["items"]
    assert 1 <= len(kept) <= 2


@pytest.mark.parametrize("jobs", [5, pytest.param(500, marks=pytest.mark.full)])
def test_requests_do_not_grow_with_the_square_of_the_jobs(jobs: int, tmp_path: Path) -> None:
    world = FakeCluster()
    for number in range(jobs):
        labels = FLINK | {"app": f"job-{number}"}
        names = [f"job-{number}-7d", *(f"job-{number}-taskmanager-1-{n}" for n in (1, 2, 3))]
        pods = [pod(each, labels=labels | {"component": "taskmanager"}) for each in names]
        world.objects += [resource("FlinkDeployment", f"job-{number}", "flink.apache.org/v1beta1")]
        world.objects += [*pods, *(event(each, "Killing", "Stopping container") for each in pods)]
    with serving(world) as server:
        assert collect(tmp_path, server, "--no-rest") == 0
    assert server.most_at_once <= CONCURRENCY
    # Three lists of pods, of which two find all of them, and two objects for each job.
    assert server.paths().count(PODS) <= 3 + 2 * (jobs * 4 // 500)
    assert len([path for path in server.paths() if not path.endswith("/log")]) <= 20 + 2 * jobs
    for kind, each in (("pods", "metadata"), ("events", "involvedObject")):
        kept = [
            item[each]["name"]
            for path in (tmp_path / "snapshot").glob(f"{kind}-*.json")
            for item in json.loads(path.read_text())["items"]
        ]
        assert len(set(kept)) == 4 * jobs


def test_thousands_of_pods_cost_bounded_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = cluster()
    world.objects += [pod(f"orders-taskmanager-2-{n}", labels=TM) for n in range(2000)]
    with serving(world) as server:
        assert collect(tmp_path, server, "orders", "--no-rest", "--max-pods", "5") == 0
    assert "2002 pods: only the logs of 5 are read" in capsys.readouterr().err
    assert {"orders-7d.main.log", "orders-taskmanager-1-1.main.previous.log"} <= files(tmp_path)
    pods = [
        each
        for path in (tmp_path / "snapshot").glob("pods-*.json")
        for each in json.loads(path.read_text())["items"]
    ]
    assert len(pods) == 2002
    assert len([path for path in server.paths() if path == PODS]) <= 20


def test_a_folder_with_files_is_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "snapshot" / "x").touch()
    with serving(cluster()) as server:
        assert collect(tmp_path, server, "orders") == 2
    assert "contains other files" in capsys.readouterr().err


def test_without_the_client_library(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    assert main(["collect", "k8s", "orders", "-o", str(tmp_path / "s")]) == 2
    error = capsys.readouterr().err
    assert "requires the Kubernetes client" in error and "[k8s]" in error
