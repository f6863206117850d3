"""Checks every report of every recording: at most sixty lines on terminals of any width, and
valid in every format.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flowdiag.analyses.diagnosis import report_on
from flowdiag.analyses.selection.options import Options
from flowdiag.analyses.topic_names import ENGINES
from flowdiag.analyses.topics import topic

from .cli.formats import invalid
from .cli.screens import flaws
from .measured import Recorded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.full, pytest.mark.spark]
RECORDINGS = Path(__file__).parents[1] / "fixtures" / "recordings"


@pytest.mark.parametrize(
    "folder",
    sorted(path.parent for path in RECORDINGS.rglob("truth.json")),
    ids=lambda folder: str(folder.relative_to(RECORDINGS)),
)
def test_its_reports_fit_a_terminal_and_are_valid(folder: Path, spark: SparkSession) -> None:
    engine = "spark" if "spark" in folder.parts else "flink"
    topics = [name for name, each in ENGINES.items() if each == engine]
    measured = Recorded([folder], topics, spark)
    made = {name: measured.report(name) for name in topics}
    everything = Options(everything=True)
    made["diagnose"] = report_on(
        tuple(map(topic, topics)), measured.inspected, measured.measured, everything
    )
    found = {name: [*flaws(report), *invalid(report)] for name, report in made.items()}
    assert found == {name: [] for name in made}
