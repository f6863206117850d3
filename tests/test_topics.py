"""Checks that several topics share one pass of reading, settling and collecting, with the
findings of the single commands.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from flowdiag.analyses.contract.report import Finding
from flowdiag.analyses.diagnosis import diagnose
from flowdiag.analyses.flink import settled, topic
from flowdiag.analyses.topics import topic as topic_of
from flowdiag.parsers.discover import discover

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
RECORDINGS = Path(__file__).parents[1] / "fixtures" / "recordings"
NAMES = ("checkpoints", "queues", "startup", "memory")
TRIED = ("flink/1.20.5/hot-key", "startup/2.3.0/too-few-buffers")


@pytest.mark.parametrize("recording", TRIED)
def test_four_topics_at_once_give_the_findings_of_each_alone(
    recording: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = discover([str(RECORDINGS / recording)])
    topics = {name: topic_of(name) for name in NAMES}
    alone = {name: diagnose((each,), found, lambda: spark) for name, each in topics.items()}
    calls: Counter[str] = Counter()
    for module, name in ((settled, "read"), (topic, "settled_events"), (topic, "rows_of")):
        monkeypatch.setattr(module, name, counting(getattr(module, name), name, calls))
    together = diagnose(tuple(topics.values()), found, lambda: spark)
    assert calls == {"read": 1, "settled_events": 1, "rows_of": 1}
    listed = Counter(rule.code for each in topics.values() for rule in each.rules)
    for name, each in topics.items():
        # Findings of a rule that several topics share are merged.
        codes = {rule.code for rule in each.rules if listed[rule.code] == 1}
        assert [judged_of(f) for f in together.findings if f.code in codes] == [
            judged_of(f) for f in alone[name].findings if f.code in codes
        ]
        assert [rule for rule in together.rules if rule.code in codes] == [
            rule for rule in alone[name].rules if rule.code in codes
        ]
        for table, rows in msgspec.structs.asdict(alone[name].data).items():
            assert rows is None or getattr(together.data, table) == rows, (name, table)
    assert together.summary.verdict == max(
        (report.summary.verdict for report in alone.values()), key=lambda verdict: verdict.weight
    )


WITH_CHECKPOINTS = {"SK101"}
"""Rules whose numbers also cover the time of failed checkpoints, if that topic is measured."""


def judged_of(finding: Finding) -> object:
    """Return the parts of a finding that do not depend on the other topics.

    Only the first topic of a shared finding has its remedies.
    """
    same = msgspec.structs.replace(finding, actions=[], see=[])
    if finding.code not in WITH_CHECKPOINTS:
        return same
    # The title, the reason and these lists contain the ratio, so only their shape is the same.
    shape = [vote.signal for vote in finding.votes], [each.name for each in finding.measurements]
    return msgspec.structs.replace(same, title="", why=None, votes=[], measurements=[]), shape


def counting(function: Any, name: str, calls: Counter[str]) -> Any:
    """Wrap a function so that its calls are counted."""

    def counted(*arguments: Any, **named: Any) -> Any:
        calls[name] += 1
        return function(*arguments, **named)

    return counted
