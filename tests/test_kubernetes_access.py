"""Ways to an API server: kubectl itself, its plugins, the service account of a pod, and proxies."""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from flowdiag.cli.app import main
from flowdiag.parsers.live.k8s import api
from tests.fake_kubernetes import FakeCluster, event, kubeconfig, pod, resource
from tests.fake_server import serving

LABELS = {"app": "orders", "type": "flink-native-kubernetes", "component": "taskmanager"}
NAME = "orders-taskmanager-1-1"

needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl")


def cluster() -> FakeCluster:
    """Return a namespace with one pod that was killed for its memory."""
    ended = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
    killed = pod(NAME, labels=LABELS, state={"restartCount": 1, "lastState": ended})
    return FakeCluster(
        objects=[killed, event(resource("Pod", NAME), "OOMKilling", "Memory cgroup out of memory")],
        logs={(NAME, "main", False): b"the log\n"},
    )


def kubectl(folder: Path, url: str, *arguments: str) -> str:
    config = kubeconfig(folder, url)
    environment = os.environ | {"HOME": str(folder), "KUBECONFIG": str(config)}
    done = subprocess.run(
        ["kubectl", *arguments], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@needs_kubectl
def test_kubectl_accepts_the_server_of_the_tests(tmp_path: Path) -> None:
    with serving(cluster()) as server:
        pods = json.loads(kubectl(tmp_path, server.url, "get", "pods", "-o", "json"))
        assert [each["metadata"]["name"] for each in pods["items"]] == [NAME]
        assert kubectl(tmp_path, server.url, "logs", NAME) == "the log\n"
        assert "OOMKilled" in kubectl(tmp_path, server.url, "describe", "pod", NAME)
        assert "Memory cgroup out of memory" in kubectl(
            tmp_path, server.url, "get", "events", "-o", "json"
        )


@needs_kubectl
@pytest.mark.skipif(shutil.which("kubectl-flowdiag") is None, reason="not installed")
def test_kubectl_runs_flowdiag_as_its_plugin(tmp_path: Path) -> None:
    with serving(cluster()) as server:
        output = tmp_path / "snapshot"
        arguments = [
            "flowdiag",
            "collect",
            "k8s",
            f"pod/{NAME}",
            "-o",
            str(output),
            "--no-rest",
            "-q",
        ]
        kubectl(tmp_path, server.url, *arguments)
    assert (output / f"{NAME}.main.log").read_text() == "the log\n"


def test_a_pod_uses_its_service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, certificate = tmp_path / "key", tmp_path / "ca.crt"
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    if shutil.which("openssl") is None:
        pytest.skip("no openssl")
    subprocess.run(
        [*made, *names, "-keyout", key, "-out", certificate], check=True, capture_output=True
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    (tmp_path / "token").write_text("of-the-pod")
    (tmp_path / "namespace").write_text("prod\n")
    incluster = "kubernetes.config.incluster_config"
    monkeypatch.setattr(f"{incluster}.SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(f"{incluster}.SERVICE_CERT_FILENAME", str(certificate))
    monkeypatch.setattr(api, "_NAMESPACE_FILE", tmp_path / "namespace")
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with serving(cluster()) as server:
        server.wrap(context)
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", server.url.rpartition(":")[2])
        output = str(tmp_path / "snapshot")
        assert main(["collect", "k8s", NAME, "-o", output, "--no-rest", "-q"]) == 0
    assert (tmp_path / "snapshot" / f"{NAME}.main.log").read_text() == "the log\n"
    sent = {each.get("Authorization", "").casefold() for each in server.headers}
    assert sent == {"bearer of-the-pod"}


@pytest.mark.parametrize("way", ["environment", "kubeconfig"])
def test_a_proxy(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = kubeconfig(tmp_path, "http://api.example:6443")
    with serving(cluster()) as proxy:
        if way == "environment":
            monkeypatch.setenv("HTTP_PROXY", proxy.url)
            monkeypatch.setenv("http_proxy", proxy.url)
        else:
            text = json.loads(config.read_text())
            text["clusters"][0]["cluster"]["proxy-url"] = proxy.url
            config.write_text(json.dumps(text))
        output = str(tmp_path / "snapshot")
        arguments = ["--kubeconfig", str(config), "-o", output, "--no-rest", "-q"]
        assert main(["collect", "k8s", NAME, *arguments]) == 0
        assert all(path.startswith("http://api.example:6443/") for path in proxy.requests)
    assert (tmp_path / "snapshot" / f"{NAME}.main.log").is_file()
