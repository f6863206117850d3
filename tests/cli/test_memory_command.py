"""`flowdiag memory` as a calculator: no input, no Spark."""

from __future__ import annotations

import json

import pytest

from flowdiag.cli.app import main


def test_the_calculator(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["memory", "--process-size", "4g", "--flink", "1.20", "--format", "json"]) == 0
    (process,) = json.loads(capfdbinary.readouterr().out)["data"]["processes"]
    assert process["jvm_parameters"].startswith("-Xmx1664299798 ")
    assert process["derived"]["taskmanager.memory.managed.size"] == 1438814063


def test_versions_differ(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    sizes = {}
    for version in ("1.16", "1.17"):
        main(["memory", "--process-size", "20g", "--flink", version, "--format", "json"])
        (process,) = json.loads(capfdbinary.readouterr().out)["data"]["processes"]
        sizes[version] = process["derived"]["taskmanager.memory.network"]
    assert sizes == {"1.16": 1 << 30, "1.17": 2013265950}


def test_variables_of_old_start_scripts(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """`FLINK_TM_HEAP=2048m bin/taskmanager.sh` of 1.9 passes -Xmx1844M; later versions do not read it."""
    arguments = ["memory", "-D", "FLINK_TM_HEAP=2048m", "--format", "json"]
    assert main([*arguments, "--flink", "1.9"]) == 0
    (process,) = json.loads(capfdbinary.readouterr().out)["data"]["processes"]
    assert process["derived"]["heap"] == 1844 << 20
    assert main([*arguments, "-D", "taskmanager.memory.process.size=2g", "--flink", "1.20"]) == 0
    findings = json.loads(capfdbinary.readouterr().out)["findings"]
    assert [(finding["code"], finding["severity"]) for finding in findings] == [("MM102", "info")]


def test_the_chart(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    arguments = ["memory", "--process-size", "1600m", "--jobmanager", "--flink", "2.0"]
    assert main([*arguments, "-D", "jobmanager.memory.jvm-metaspace.size=128m"]) == 0
    shown = capfdbinary.readouterr().out.decode()
    assert "JobManager · Flink 2.0" in shown
    assert "metaspace" in shown
    assert "128m" in shown


def test_a_configuration_that_flink_rejects_is_a_finding(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    assert main(["memory", "--process-size", "3 gigs"]) == 1
    assert "MM101" in capfdbinary.readouterr().out.decode()


@pytest.mark.parametrize(
    "arguments",
    [
        ["memory"],
        ["memory", "-D", "x"],
        ["memory", "--process-size", "1g", "--flink", "x"],
        ["memory", "--process-size", "4"],
        ["memory", "--flink-size", "1728"],
    ],
)
def test_wrong_usage(arguments: list[str], capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(arguments) == 2
    assert capfdbinary.readouterr().err


def test_a_size_without_a_unit_is_rejected_with_a_suggestion(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    assert main(["memory", "--process-size", "4"]) == 2
    assert "--process-size 4g" in capfdbinary.readouterr().err.decode()


def test_a_misspelt_option_is_named_with_the_known_one(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    options = ["-D", "taskmanager.memory.managed.fraktion=0.2"]
    assert main(["memory", "--process-size", "4g", *options]) == 0
    assert (
        "did you mean taskmanager.memory.managed.fraction" in capfdbinary.readouterr().err.decode()
    )
