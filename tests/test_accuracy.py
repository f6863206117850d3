"""Whatever files are missing: the right culprit or none, and never a wrong one that sounds sure.

Several hundred diagnoses take a quarter of an hour, so that only `.ci/full` runs them;
`docs/accuracy.md` holds the same numbers as a table.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from .recordings import VARIANTS, Recording, outcome, recordings
from .windows import runs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[1] / "docs" / "accuracy.md"


@pytest.mark.full
@pytest.mark.spark
@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("recording", recordings(), ids=lambda r: r.name)
def test_no_wrong_culprit_at_high_confidence(
    recording: Recording, name: str, spark: SparkSession
) -> None:
    said = outcome(recording, name, spark)
    if said is None:
        pytest.skip("cannot be varied like this")
    assert said not in ("wrong", "wrong (high)")
    if name == "everything":
        assert said == "right"


def test_the_page_owns_up_to_every_recording() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    assert {run.name for run in runs()} <= {row.split("|")[1].strip() for row in rows}
