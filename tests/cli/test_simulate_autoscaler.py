"""`flowdiag simulate autoscaler` on a recorded autoscaler, without Spark."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from flowdiag.analyses.flink.autoscaler.state import state_of
from flowdiag.cli.app import main
from tests.archives import unpacked

ROOT = Path(__file__).parents[2] / "fixtures" / "recordings" / "rescaling"
RECORDED = str(ROOT / "2.3.0" / "autoscaled" / "autoscaled.tar.zst")


@pytest.fixture
def configuration(tmp_path: Path) -> str:
    """Return a configuration with the recorded options of the autoscaler."""
    provenance = json.loads((ROOT / "2.3.0" / "provenance.json").read_text())
    options = provenance["autoscaled"]["autoscaler"]["options"]
    path = tmp_path / "flink-conf.yaml"
    path.write_text("".join(f"{key}: {value}\n" for key, value in options.items()))
    return str(path)


def test_every_recorded_scaling_is_replayed(
    configuration: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    assert main(["simulate", "autoscaler", RECORDED, configuration]) == 0
    out = capsys.readouterr().out
    assert "the replay matches 4 of 4 recorded scalings" in out
    assert "price" in out and "with your settings" not in out


def test_other_settings(configuration: str, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--target-utilization", "0.4", "--max-parallelism", "6", "--format", "json"]
    assert main(["simulate", "autoscaler", RECORDED, configuration, *flags]) == 0
    document: Any = json.loads(capsys.readouterr().out)
    assert document["schema"] == "flowdiag.autoscaler/1"
    recorded, changed = document["outcomes"]
    assert recorded["settings"]["target_utilization"] == 0.7
    assert [s["recorded"] for s in recorded["scalings"]] == [
        s["proposed"] for s in recorded["scalings"]
    ]
    assert {s["proposed"] for s in changed["scalings"]} == {6}
    assert all(vertex["why"] for vertex in changed["vertices"])


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([str(ROOT / "2.3.0" / "provenance.json")], "no autoscaler state"),
        ([RECORDED, "--target-utilization", "7"], "between 0 and 1"),
        ([RECORDED, "--max-parallelism", "0"], "at least 1"),
        ([RECORDED, "--catch-up", "often"], "--catch-up"),
    ],
)
def test_unusable_inputs_and_values(
    arguments: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "autoscaler", *arguments]) == 2
    assert error in capsys.readouterr().err


LINES = {
    "prometheus": (
        "flink_k8soperator_resource_AutoScaler_jobVertexID_{name}_{kind}"
        '{{host="op-7d",namespace="flink",name="op",resourcens="prod",resourcename="orders",'
        'resourcetype="FlinkDeployment",jobVertexID="{vertex}",}} {value}\n'
    ),
    "slf4j": (
        "op-7d.k8soperator.flink.op.resource.prod.orders.FlinkDeployment"
        ".AutoScaler.jobVertexID.{vertex}.{name}.{kind}: {value}\n"
    ),
}
"""Lines of the operator's reporters: names from Apache's source, values from the recorded scaling."""


@pytest.mark.parametrize("reporter", LINES)
def test_published_metrics_of_the_recorded_scaling(
    reporter: str,
    configuration: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    recording = unpacked(Path(RECORDED).parent)
    (state,) = recording.glob("autoscaler/configmap.*.json")
    (graph,) = recording.glob(f"rest/jobs_{'?' * 32}.json")
    scalings = state_of(json.loads(state.read_bytes())).scalings
    scaling = max(scalings, key=lambda each: each.after - each.before)
    metrics = {**scaling.metrics, "PARALLELISM": (scaling.before, math.nan)}
    published = tmp_path / "operator.txt"
    published.write_text(
        "".join(
            LINES[reporter].format(vertex=scaling.vertex, name=name, kind=kind, value=value)
            for name, pair in metrics.items()
            for kind, value in zip(("Current", "Average"), pair, strict=True)
        )
    )
    arguments = [str(published), str(graph), configuration, "--format", "json"]
    assert main(["simulate", "autoscaler", *arguments]) == 0
    document: Any = json.loads(capsys.readouterr().out)
    assert document["job"] == "orders"
    (outcome,) = document["outcomes"]
    proposed = {each["vertex_id"]: each["proposed"] for each in outcome["vertices"]}
    assert (outcome["decision"], proposed[scaling.vertex]) == ("scale", scaling.after)
