"""`--select`, `--ignore`, `--min-severity` and `--show-config` on the command line, without a JVM."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest

from flowdiag.analyses.contract.encoding import encode
from flowdiag.cli.app import main
from flowdiag.cli.settings import NOT_IN_FILE, Settings, load_settings

from . import reports

# A calculation without Spark, which results in a finding of MM303.
UNMANAGED = [
    *("memory", "--process-size", "4g", "--flink", "1.20"),
    *("-D", "state.backend=rocksdb", "-D", "state.backend.rocksdb.memory.managed=false"),
]


@pytest.fixture(autouse=True)
def only_test_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove all settings except those of the test."""
    monkeypatch.chdir(tmp_path)
    for name in os.environ:
        if name.startswith("FLOWDIAG_"):
            monkeypatch.delenv(name)


def report(capsys: pytest.CaptureFixture[str], *more: str, code: int) -> dict[str, Any]:
    assert main([*UNMANAGED, *more, "--format", "json"]) == code
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def statuses(document: dict[str, Any]) -> dict[str, str]:
    return {rule["code"]: rule["status"] for rule in document["rules"]}


def test_only_the_selected_rule_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    document = report(capsys, "--select", "unmanaged-rocksdb", code=1)
    assert [finding["code"] for finding in document["findings"]] == ["MM303"]
    assert statuses(document).pop("MM303") == "found"
    assert set(statuses(document).values()) == {"found", "ignored"}


@pytest.mark.parametrize(
    "more",
    [
        ("--ignore", "MM303"),
        ("--ignore", "mm3"),
        ("--ignore", "MM1,unmanaged-rocksdb"),
        ("--ignore", "MM1", "--ignore", "MM303"),
        ("--select", "MM", "--ignore", "MM303"),
        ("--select", "MM1"),
        ("--ignore", "MM"),
    ],
)
def test_ignored_findings_are_mentioned_and_never_healthy(
    more: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    document = report(capsys, *more, code=3)
    assert document["findings"] == [] and statuses(document)["MM303"] == "ignored"
    assert document["summary"]["verdict"] == "inconclusive"
    reason = document["summary"]["reason"]
    assert reason == "all rules are ignored" or reason.startswith(
        "MM303 unmanaged-rocksdb found something"
    )
    assert main([*UNMANAGED, *more]) == 3
    out = capsys.readouterr().out
    assert "rules ignored: " in out and "healthy" not in out
    assert main([*UNMANAGED, *more, "--allow-inconclusive"]) == 0


def test_every_format_lists_ignored_rules(capsys: pytest.CaptureFixture[str]) -> None:
    message = "2 of 10 rules ignored: --ignore tight-network-memory,MM303"
    ignoring = [*UNMANAGED, "--ignore", "MM303,tight-network-memory", "--format"]
    for name in ("table", "markdown", "github"):
        assert main([*ignoring, name]) == 3
        assert message in capsys.readouterr().out
    assert main([*ignoring, "junit"]) == 3
    suite = Xml.fromstring(capsys.readouterr().out)
    skipped = {case.get("name", "")[:5]: case.find("skipped") for case in suite}
    for code, word in (("MM303", "MM303"), ("MM202", "tight-network-memory")):
        mark = skipped[code]
        assert mark is not None and mark.get("message") == f"--ignore {word}"
    assert suite.get("failures") == "0"


@pytest.mark.parametrize("option", ["--select", "--ignore"])
def test_an_unknown_rule_is_an_error(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*UNMANAGED, option, "MM101,unmanaged-roksdb"]) == 2
    captured = capsys.readouterr()
    assert captured.err == (
        f"error: there is no rule 'unmanaged-roksdb' to {option[2:]}\n"
        "  hint: did you mean MM303 (unmanaged-rocksdb)?\n"
    )
    assert captured.out == ""


def test_files_and_variables_select_rules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "flowdiag.toml").write_text('ignore = ["MM303"]\nmin-severity = "critical"\n')
    assert statuses(report(capsys, code=3))["MM303"] == "ignored"
    # A flag replaces the whole list of the file, and an empty flag clears it.
    for more in ("MM1", ""):
        document = report(capsys, "--ignore", more, code=1)
        assert statuses(document)["MM303"] == "found" and document["findings"] == []
        assert document["summary"]["below_min_severity"] == {"warning": 1}
    monkeypatch.setenv("FLOWDIAG_IGNORE", "MM1, MM2")
    monkeypatch.setenv("FLOWDIAG_MIN_SEVERITY", "info")
    document = report(capsys, code=1)
    assert statuses(document)["MM201"] == "ignored" and len(document["findings"]) == 1


def test_hidden_findings_still_count(capsys: pytest.CaptureFixture[str]) -> None:
    document = report(capsys, "--min-severity", "critical", code=1)
    assert document["findings"] == [] and document["summary"]["verdict"] == "degraded"
    assert document["summary"]["below_min_severity"] == {"warning": 1}
    assert statuses(document)["MM303"] == "found"
    assert main([*UNMANAGED, "--min-severity", "critical"]) == 1
    out = capsys.readouterr().out
    assert "1 warning hidden by --min-severity" in out
    assert "Verdict  degraded: 1 warning" in out
    assert (
        report(capsys, "--min-severity", "warning", code=1)["summary"]["below_min_severity"] == {}
    )
    assert main([*UNMANAGED, "--min-severity", "bad"]) == 2


def test_a_saved_report_with_critical_findings_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(encode(reports.failing()))
    output = {}
    for name in ("table", "markdown", "github", "junit", "json"):
        assert main(["render", str(path), "--min-severity", "critical", "-f", name]) == 0
        output[name] = capsys.readouterr().out
    document = json.loads(output["json"])
    assert [finding["severity"] for finding in document["findings"]] == ["critical"]
    assert document["summary"]["verdict"] == "failing"
    for name in ("table", "markdown", "github"):
        assert "1 warning hidden by --min-severity" in output[name]
        assert "1 critical, 1 warning" in output[name]
    cases = {case.get("name", "")[:5]: case for case in Xml.fromstring(output["junit"])}
    assert cases["CP201"].find("failure") is not None
    assert cases["CP101"].find("skipped") is not None  # found, so it must not pass


# -- --show-config -------------------------------------------------------------------------------


def test_show_config_lists_the_origin_of_each_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "flowdiag.toml").write_text(
        'fail-on = "critical"\ntz = "Asia/Tokyo"\n[thresholds.CP101]\nat-the-end = 5\n'
    )
    monkeypatch.setenv("FLOWDIAG_TZ", "UTC")
    assert main(["checkpoints", "--show-config", "--ignore", "CP3,RT"]) == 0
    out = capsys.readouterr().out
    lines = {line.partition(" ")[0]: line.rpartition("# ")[2] for line in out.splitlines()[1:]}
    assert lines["fail-on"] == lines["at-the-end"] == "flowdiag.toml"
    assert (lines["tz"], lines["ignore"]) == ("FLOWDIAG_TZ", "--ignore")
    assert lines["format"] == lines["select"] == "default"
    # The output is an equivalent settings file.
    (tmp_path / "same.toml").write_text(out)
    loaded = load_settings({}, config="same.toml", environ={})
    assert (loaded.tz, loaded.ignore, loaded.thresholds) == (
        "UTC",
        ("CP3", "RT"),
        {"CP101": {"at-the-end": 5}},
    )
    keys = (
        set(tomllib.loads(out))
        | NOT_IN_FILE
        | {*("master", "java-heap", "stay", "show-tz", "baseline")}
    )
    assert keys == {name.replace("_", "-") for name in Settings.__struct_fields__}


def test_show_config_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "other.toml").write_text("quiet = true\n[thresholds.CP101]\nat-the-end = 5\n")
    assert main(["rate", "--show-config", "-c", "other.toml", "--format", "json", "-vv"]) == 0
    document = json.loads(capsys.readouterr().out)
    settings = document["settings"]
    assert document["file"] == "other.toml"
    assert settings["quiet"] == {"value": True, "origin": "file", "where": "other.toml"}
    assert settings["verbose"] == {"value": 2, "origin": "flag", "where": "--verbose"}
    assert settings["tz"] == {"value": None, "origin": "default", "where": None}
    assert document["thresholds"]["CP101"]["at-the-end"]["value"] == 5


@pytest.mark.parametrize("command", [[], ["checkpoints"], ["memory"], ["render"], ["rate", "x/"]])
def test_every_command_with_settings_shows_them(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--show-config"]) == 0
    captured = capsys.readouterr()
    assert 'fail-on = "warning"' in captured.out and captured.err == ""
    assert captured.out.startswith(
        "# no settings file: flowdiag.toml is not in the working directory"
    )


@pytest.mark.parametrize(
    ("file", "message", "hint"),
    [
        ("ignoer = ['CP']", "unknown key 'ignoer' in 'flowdiag.toml'", "did you mean 'ignore'?"),
        ("ignore = ['CP999']", "there is no rule 'CP999' to ignore", "did you mean CP"),
        ("ignore = 5", "'ignore' in 'flowdiag.toml':", None),
        ("select = [1]", "'select' in 'flowdiag.toml':", None),
        ("[thresholds.CP101]\nat-the-ned = 1", "no threshold 'at-the-ned'", "'at-the-end'?"),
        ("min-severity = 'low'", "'min-severity' in 'flowdiag.toml':", None),
        ("tz = 'Mars'", "unknown time zone 'Mars'", "write Asia/Shanghai"),
    ],
)
def test_show_config_rejects_wrong_settings(
    file: str, message: str, hint: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "flowdiag.toml").write_text(file + "\n")
    assert main(["checkpoints", "--show-config"]) == 2
    captured = capsys.readouterr()
    assert message in captured.err and (hint is None or hint in captured.err) and captured.out == ""


def test_a_diagnosis_still_needs_inputs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["checkpoints"]) == 2
    assert "missing argument 'PATH...'" in capsys.readouterr().err
