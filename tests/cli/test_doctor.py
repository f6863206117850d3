"""`flowdiag doctor`: what is missing on this host, and how to fix it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flowdiag.cli import checkup
from flowdiag.cli.app import main
from flowdiag.cli.checkup import Check, Level, checks
from flowdiag.parsers.errors import FlowdiagError


def by_name(environ: dict[str, str] | None = None) -> dict[str, Check]:
    return {check.name: check for check in checks(environ or {})}


def test_this_host_can_run_flowdiag(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("ok       flowdiag") and "PySpark" in shown and "problem" not in shown


def test_json_has_the_same_checks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in document] == list(by_name())
    assert {tuple(each) for each in document} == {("name", "level", "text", "hint")}


def test_without_java_the_output_shows_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def none(environ: object) -> None:
        raise FlowdiagError("no Java found, and Spark requires Java", hint="pip install X")

    monkeypatch.setattr(checkup, "find_java", none)
    assert main(["doctor"]) == 2
    shown = capsys.readouterr().out
    assert "problem  java" in shown and "pip install X" in shown and "class cache" not in shown


def test_low_memory_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "memory_bytes", lambda: 512 << 20)
    check = by_name()["memory"]
    assert check.level is Level.PROBLEM and check.text.startswith("512 MiB")


def test_a_full_disk_is_a_note(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(checkup, "TEMPORARY", 1 << 60)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    check = by_name()["temporary files"]
    assert check.level is Level.NOTE and "TMPDIR" in (check.hint or "")


def test_proxies_are_named_without_their_passwords() -> None:
    check = by_name({"https_proxy": "http://me:secret@proxy:3128"})["network"]
    assert check.text == "for live servers: HTTPS_PROXY"


def test_a_missing_extra_names_its_purpose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "_EXTRAS", {"s3": (("no_such_package",), "inputs at s3://")})
    check = by_name()["extra s3"]
    assert check.level is Level.NOTE
    assert check.text == "not installed; needed for inputs at s3://"
    assert "[s3]" in (check.hint or "")


def test_every_extra_of_the_package_is_checked() -> None:
    import tomllib

    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    extras = set(tomllib.loads(text)["project"]["optional-dependencies"])
    assert extras - {"dev", "fuzz", "java"} == set(checkup._EXTRAS)
