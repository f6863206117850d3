"""Compares the diagnoses of jobs that rescale with the faults that the recorder injected."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .archives import unpacked
from .measured import Recorded

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[1] / "fixtures" / "recordings" / "rescaling"
# Others are for `.ci/full`.
FAST = ("below-parallelism",)


def recordings() -> list[Any]:
    return [
        pytest.param(
            path.parent,
            json.loads(path.read_text()),
            id=f"{path.parents[1].name}-{path.parent.name}",
            marks=[] if path.parent.name in FAST else [pytest.mark.full],
        )
        for path in sorted(ROOT.glob("*/*/truth.json"))
    ]


@pytest.mark.parametrize(("folder", "truth"), recordings())
def test_the_cause_of_each_recording(
    folder: Path, truth: dict[str, Any], recorded: Callable[..., Recorded]
) -> None:
    measured = recorded(unpacked(folder), topics=("startup", "queues"))
    findings = [f for topic in ("startup", "queues") for f in measured.report(topic).findings]
    found = {finding.cause for finding in findings if finding.code.startswith(("ST4", "IO3"))}
    expected = truth["expected"]
    if expected["cause"] is None:
        assert found == set()
    else:
        assert expected.get("rescaling", expected["cause"]) in found
    # A requested rescale is not a restart.
    assert not any(finding.code in ("CP311", "ST102") for finding in findings)
