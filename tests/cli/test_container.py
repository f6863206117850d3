"""The image's Containerfile, and the Job that runs it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
CONTAINERFILE = (ROOT / "Containerfile").read_text(encoding="utf-8")


def job() -> dict[str, object]:
    page = (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    document: dict[str, object] = YAML(typ="safe").load(block)
    return document


def test_the_image_runs_as_an_unprivileged_user() -> None:
    last = CONTAINERFILE.rpartition("\nFROM ")[2]
    (user,) = re.findall(r"^USER (\d+):\d+$", last, re.MULTILINE)
    assert int(user) > 1000
    assert f"flowdiag:x:{user}:{user}:" in last, "Hadoop refuses a user without a name"


def test_the_context_contains_what_the_build_reads() -> None:
    lines = (ROOT / ".containerignore").read_text(encoding="utf-8").splitlines()
    allowed = {line.removeprefix("!") for line in lines if line.startswith("!")}
    read = re.findall(r"/src/(\S+?\.\w+)", CONTAINERFILE)
    assert set(read) == {".ci/requirements.lock", ".ci/slim.py"} and set(read) <= allowed
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    folders = project["tool"]["setuptools"]["package-dir"].values()
    assert {folder.split("/")[0] for folder in folders} <= allowed
    assert {"LICENSE", "README.md", "pyproject.toml"} <= allowed


def test_the_job_needs_no_permissions() -> None:
    pod = job()["spec"]["template"]["spec"]  # type: ignore[index]
    (container,) = pod["containers"]
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert container["image"].endswith(f"/flowdiag:{version}")
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["automountServiceAccountToken"] is False
    security = container["securityContext"]
    assert security["readOnlyRootFilesystem"] is True
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    # The only place that flowdiag writes to.
    assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/tmp"]
