"""Two that are sick by themselves in two operators of one job: each is named."""

from __future__ import annotations

from typing import Any

from flowdiag.analyses.checkpoints.rules import RULES
from flowdiag.analyses.finding import Confidence, Finding

from .judged import outcomes_of
from .workbench import Bench, Who

HOT: dict[str, Any] = {"busy": 990.0, "records_in": 9000.0}
PRESSED: dict[str, Any] = {"busy": 50.0, "back_pressured": 900.0}


def sick() -> Bench:
    job = Bench(interval_s=3, timeout_s=8)
    job.completes(6)
    job.expires(6)
    return job


def named(job: Bench) -> dict[Who, Finding]:
    return {
        (finding.subject.task or "", finding.subject.subtask_index or 0): finding
        for outcome in outcomes_of(RULES, job.facts())
        if outcome.code == "CP201"
        for finding in outcome.findings
    }


def slow_snapshots(job: Bench, *who: Who) -> None:
    """Their synchronous parts take six of the eight seconds."""
    for checkpoint in job.checkpoints[6:]:
        job.acknowledgements(
            checkpoint,
            missing=job.everyone("Sink: deliver"),
            special={one: {"sync_ms": 6000, "end_to_end_ms": 6500} for one in who},
        )


def test_a_hot_key_and_a_slow_snapshot_in_another_operator() -> None:
    job = sick()
    job.loaded({("Source: orders", None): PRESSED, ("enrich", 2): HOT})
    slow_snapshots(job, ("aggregate", 3))
    found = named(job)
    assert {who: finding.cause for who, finding in found.items()} == {
        ("enrich", 2): "data-skew",
        ("aggregate", 3): "slow-sync-snapshot",
    }
    assert all(f.confidence is not Confidence.LOW for f in found.values())


def test_hot_keys_in_two_operators() -> None:
    """Both ends of back pressure get more than their share, and somebody waits for each."""
    job = sick()
    job.loaded(
        {
            ("Source: orders", None): PRESSED,
            ("enrich", None): {"busy": 100.0, "back_pressured": 700.0},
            ("enrich", 2): HOT | {"back_pressured": 0.0},
            ("aggregate", 3): HOT,
        }
    )
    found = named(job)
    assert {who: finding.cause for who, finding in found.items()} == {
        ("enrich", 2): "data-skew",
        ("aggregate", 3): "data-skew",
    }


def test_slow_snapshots_of_three_operators_are_no_three_culprits() -> None:
    job = sick()
    job.loaded({("Source: orders", None): PRESSED, ("enrich", 2): HOT})
    slow_snapshots(job, ("Source: orders", 1), ("aggregate", 3), ("Sink: deliver", 0))
    assert [finding.cause for finding in named(job).values()].count("slow-sync-snapshot") <= 1


def test_who_is_busy_and_not_waited_for_is_no_second_culprit() -> None:
    job = sick()
    job.loaded({("Source: orders", None): PRESSED, ("enrich", 2): HOT, ("Sink: deliver", 1): HOT})
    assert list(named(job)) == [("enrich", 2)]
