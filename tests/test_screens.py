"""Every report of every recording on terminals of every width: at most sixty lines, nothing cut."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flowdiag.analyses.topics import ENGINES

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
def test_its_reports_fit_a_terminal(folder: Path, spark: SparkSession) -> None:
    engine = "spark" if "spark" in folder.parts else "flink"
    topics = [name for name, wanted in ENGINES.items() if wanted == engine]
    measured = Recorded([folder], topics, spark)
    found = {name: list(flaws(measured.report(name))) for name in topics}
    assert found == {name: [] for name in topics}
