"""A rule is clear only if the input would have shown its fault: each answer of a healthy job alone clears few rules."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flowdiag.analyses.diagnosis import diagnose
from flowdiag.analyses.inputs import find, with_owners
from flowdiag.analyses.selection.options import Options
from flowdiag.analyses.topic_names import EVERYTHING, names_of
from flowdiag.analyses.topics import topic
from tests.archives import FIXTURES, unpacked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

HEALTHY = FIXTURES / "recordings" / "flink" / "1.20.5" / "healthy"
UNDATED = """\
org.apache.flink.runtime.jobmanager.scheduler.NoResourceAvailableException: Could not acquire the minimum required resources.
\tat org.apache.flink.runtime.scheduler.DefaultExecutionDeployer.lambda$assignResource$7(DefaultExecutionDeployer.java:227)
"""


KILLED = """\
Container killed by YARN for exceeding memory limits. 5.6 GB of 5.5 GB physical memory used.
"""


def clear(spark: SparkSession, path: Path) -> set[str]:
    """Return the codes of the rules that are clear."""
    found, engines = with_owners(find([str(path)], strict=False))
    topics = tuple(map(topic, names_of(EVERYTHING, engines)))
    report = diagnose(topics, found, lambda: spark, Options(everything=True))
    return {rule.code for rule in report.rules if rule.status == "clear"}


def starting(codes: set[str], *prefixes: str) -> set[str]:
    return {code for code in codes if code.startswith(prefixes)}


@pytest.mark.parametrize(
    ("answer", "may_be_clear"),
    [
        ("jobs_*_checkpoints.json", ("CP1", "CP2", "CP304", "CP306", "CP307", "CP309")),
        ("jobs_*_vertices_*_backpressure.json", ("BP1", "BP2", "SK")),
        ("jobs_*_config.json", ("MM",)),
        ("taskmanagers.json", ("MM103",)),
        ("overview.json", ()),
    ],
)
def test_a_single_response_clears_only_rules_about_its_content(
    spark: SparkSession, answer: str, may_be_clear: tuple[str, ...]
) -> None:
    found = clear(spark, next(iter(sorted((unpacked(HEALTHY) / "rest").glob(answer)))))
    assert found - (starting(found, *may_be_clear) if may_be_clear else set()) == set()


@pytest.mark.parametrize("text", [UNDATED, KILLED], ids=["flink", "spark"])
def test_undated_lines_clear_nothing(text: str, spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "excerpt.txt"
    path.write_text(text)
    assert clear(spark, path) == set()


def test_a_taskmanager_log_without_metrics_clears_no_rule_about_metrics(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = next(iter(sorted((unpacked(HEALTHY) / "logs").glob("*taskexecutor*"))))
    dated = [line for line in log.read_text().splitlines() if line[:2] == "20"]
    path = tmp_path / "taskmanager.log"
    path.write_text("\n".join(line for line in dated if "Metrics report" not in line))
    assert starting(clear(spark, path), "BP1", "SK", "IO1", "IO30") == set()


def test_a_whole_recording_clears_the_rules_of_its_inputs(spark: SparkSession) -> None:
    found = clear(spark, unpacked(HEALTHY))
    assert {"CP101", "CP301", "CP303", "BP101", "SK101", "ST101"} <= found
    assert starting(found, "BP107", "IO301", "IO302") == set()
