"""The way of `flowdiag checkpoints` from sources to facts: the one function to read first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from flowdiag.analyses.assemble import assemble
from flowdiag.analyses.facts import CheckpointFacts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from flowdiag.parsers.sources import Source

# Up to here parsing on the driver is done before Spark's workers would have started; measured in
# benchmarks/README.md.
DRIVER_BYTES: Final = 256 * 1024 * 1024
# Metrics are judged while checkpoints fail; this much before the trigger belongs to it.
BEFORE_TRIGGER_US: Final = 5_000_000

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What came out of measuring.

    Args:
        facts: for the rules.
        splits: the `split` rows, for the list of inputs.
    """

    facts: CheckpointFacts
    splits: tuple[dict[str, Any], ...]


def measure(
    sources: Sequence[Source],
    session: Callable[[], SparkSession],
    *,
    tune: Callable[[bool], None] = lambda small: None,
    tz: str | None = None,
    say: Say = lambda stage: None,
) -> Measured:
    """Parse, settle the clocks, measure: everything that happens before judging.

    Args:
        sources: what `parsers.sources.discover` found.
        session: waits for Spark and returns its session; small inputs are parsed before it is asked.
        tune: told whether the input is small, before the first query.
        tz: name of a zone that overrides every inferred one.
        say: told the name of each stage, for progress.
    """
    from flowdiag.analyses import lifecycle, resolve
    from flowdiag.parsers.parse import plan_splits
    from flowdiag.parsers.spark import events_frame, parse_on_driver

    tasks = plan_splits(sources)
    small = sum(source.size for source in sources if source.kind != "not-read") <= DRIVER_BYTES
    say("reading")
    parsed = parse_on_driver(tasks) if small else tasks
    say("starting Spark")
    spark = session()
    tune(small)
    raw = events_frame(spark, parsed)
    if not small:
        say("reading")
        raw = raw.persist()
    events = resolve.located(raw)

    say("settling clocks")
    surveyed = _rows(resolve.survey(events))
    writers = resolve.settle(surveyed, {source.index: source.group for source in sources}, tz)
    settled = resolve.resolve(events, writers, spark, tz)

    say("measuring checkpoints")
    rows = _rows(lifecycle.facts_frame(lifecycle.once(settled)))
    facts = assemble(rows, [], writers)
    if any(row["what"] == "stream" and row["scopes"] for row in surveyed):
        say("measuring metrics")
        facts = assemble(rows, _rows(lifecycle.loads(settled, failing_spans(facts))), writers)
    return Measured(
        facts=facts,
        splits=tuple(row for row in surveyed if row["what"] == "rare" and row["event"] == "split"),
    )


def failing_spans(facts: CheckpointFacts) -> list[tuple[int, int]]:
    """When unsuccessful checkpoints were on their way, in microseconds; empty if none was.

    Overlapping spans are joined, so that the list stays as short as the number of episodes.
    """
    spans = sorted(
        (checkpoint.triggered_us - BEFORE_TRIGGER_US, checkpoint.ended_us)
        for job in facts.jobs
        for checkpoint in job.checkpoints
        if checkpoint.status.unsuccessful and checkpoint.triggered_us and checkpoint.ended_us
    )
    joined: list[tuple[int, int]] = []
    for low, high in spans:
        if joined and low - joined[-1][1] <= 60_000_000:
            joined[-1] = (joined[-1][0], max(high, joined[-1][1]))
        else:
            joined.append((low, high))
    if len(joined) > 64:  # sick through and through: one span says the same in a smaller plan
        joined = [(joined[0][0], max(high for _, high in joined))]
    return joined


def _rows(frame: DataFrame) -> list[dict[str, Any]]:
    """Collect a small frame through Arrow; maps become dictionaries."""
    table = frame.toArrow()
    maps = [field.name for field in table.schema if str(field.type).startswith("map<")]
    rows: list[dict[str, Any]] = table.to_pylist()
    for row in rows:
        for name in maps:
            if row[name] is not None:
                row[name] = dict(row[name])
    return rows
