"""The way of `flowdiag checkpoints` from inputs to a report: `diagnose` is the one function to read first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from flowdiag.analyses.checkpoints.rules import CHECKPOINT_RULES
from flowdiag.analyses.engine.frames import kept
from flowdiag.analyses.engine.reading import ORDINARY, Means, Say
from flowdiag.analyses.flink.assemble import assemble
from flowdiag.analyses.flink.job import ClusterFacts, JobFacts
from flowdiag.analyses.flink.kit import jobs_of
from flowdiag.analyses.flink.settled import rows_of, settled_events
from flowdiag.analyses.options import Wishes
from flowdiag.analyses.report.build import report_of
from flowdiag.analyses.report.wire import Data, Report, iso
from flowdiag.analyses.rule import apply
from flowdiag.analyses.span import Moment, Selection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flowdiag.parsers.sources.discover import Discovery, Source

# Metrics are judged while checkpoints fail; this much before the trigger belongs to it.
BEFORE_TRIGGER_US: Final = 5_000_000
# Longer lists of spans become one, since each span is a condition in a query plan.
MAX_SPANS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What came out of measuring.

    Args:
        facts: for the rules.
        splits: the `split` rows, for the list of inputs.
    """

    facts: ClusterFacts
    splits: tuple[dict[str, Any], ...]


def diagnose(
    discovery: Discovery,
    session: Callable[[], SparkSession],
    wishes: Wishes,
    *,
    means: Means = ORDINARY,
    say: Say = lambda stage: None,
) -> Report:
    """Who makes the checkpoints fail, and what proves it.

    Args:
        discovery: what `parsers.sources.discover` found.
        session: waits for Spark and returns its session.
        wishes: of the user.
        means: with what to read and measure.
        say: told the name of each stage, for progress.

    Raises:
        FlowdiagError: the selection fits nothing in the input, or Spark cannot start.
    """
    from flowdiag.analyses.checkpoints.data import checkpoint_data

    measured = measure(discovery.sources, session, means=means, tz=wishes.tz, say=say)
    say("judging")
    facts = select(measured.facts, wishes.selection)
    outcomes = apply(CHECKPOINT_RULES, facts, jobs_of(facts), wishes.thresholds)
    jobs = checkpoint_data(
        facts, outcomes, max_rows=wishes.max_rows, excerpts=wishes.privacy.excerpts
    )
    return report_of(
        "checkpoints",
        Data(jobs=jobs),
        wishes,
        sources=discovery.sources,
        splits=measured.splits,
        processes=facts.processes,
        outcomes=outcomes,
        names={job.key: job.name for job in facts.jobs},
        assessed=any(job.checkpoints or job.late or job.declines for job in facts.jobs),
        notes=(*discovery.errors, *discovery.warnings, *nothing_left(measured.facts, facts)),
        say=say,
    )


def nothing_left(measured: ClusterFacts, selected: ClusterFacts) -> list[str]:
    """A warning where the inputs hold checkpoints, but none in the time that was asked for."""
    times = [
        checkpoint.triggered_us or checkpoint.ended_us
        for job in measured.jobs
        if any(job.key == wanted.key for wanted in selected.jobs)
        for checkpoint in job.checkpoints
    ]
    known = [time_us for time_us in times if time_us is not None]
    if not known or any(job.checkpoints for job in selected.jobs):
        return []
    span = f"{iso(min(known))} to {iso(max(known))}"
    return [f"no checkpoint began in the time asked for: those of the inputs began from {span}"]


def measure(
    sources: Sequence[Source],
    session: Callable[[], SparkSession],
    *,
    means: Means = ORDINARY,
    tz: str | None = None,
    say: Say = lambda stage: None,
) -> Measured:
    """Parse, settle the clocks, measure: everything that happens before judging.

    Args:
        sources: what `parsers.sources.discover` found.
        session: waits for Spark and returns its session; small inputs are parsed before it is asked.
        means: with what to read and measure.
        tz: name of a zone that overrides every inferred one.
        say: told the name of each stage, for progress.
    """
    from flowdiag.analyses.flink import lifecycle

    settled = settled_events(
        sources, session, means=means, tz=tz, say=say, metrics=lifecycle.METRICS
    )
    say("measuring checkpoints")
    rows = rows_of(lifecycle.facts_frame(kept(lifecycle.once(settled.events))))
    facts = assemble(rows, [], settled.writers)
    if any(row["what"] == "stream" and row["scopes"] for row in settled.surveyed):
        say("measuring metrics")
        loads = rows_of(lifecycle.loads(settled.metrics(), failing_spans(facts)))
        facts = assemble(rows, loads, settled.writers)
    return Measured(facts=facts, splits=settled.splits)


def select(facts: ClusterFacts, selection: Selection) -> ClusterFacts:
    """Keep the jobs and the time that are judged; attempts and settings stay, since they join.

    Raises:
        FlowdiagError: no job matches.
    """
    selection.require((job.key.job_id or None, job.name) for job in facts.jobs)
    jobs = [job for job in facts.jobs if selection.wants(job.key.job_id or None, job.name)]
    if selection.since is None and selection.until is None:
        return replace(facts, jobs=tuple(jobs))
    ends = [job.last_us for job in facts.jobs if job.last_us is not None]
    zones = [p.zone_offset_ms for p in facts.processes if p.role in ("jobmanager", "mixed")]
    zones += [p.zone_offset_ms for p in facts.processes]
    zone = next((zone for zone in zones if zone is not None), 0)

    def instant(moment: Moment | None, otherwise: int) -> int:
        return (
            otherwise
            if moment is None
            else moment.at(end_us=max(ends, default=0), zone_offset_ms=zone)
        )

    low, high = instant(selection.since, -(2**62)), instant(selection.until, 2**62)
    return replace(facts, jobs=tuple(_between(job, low, high) for job in jobs))


def _between(job: JobFacts, low: int, high: int) -> JobFacts:
    """A job's facts from `low` to `high`; a checkpoint belongs to the time of its trigger."""
    checkpoints = [
        checkpoint
        for checkpoint in job.checkpoints
        if low <= (checkpoint.triggered_us or checkpoint.ended_us or low) <= high
    ]
    kept = {(checkpoint.run, checkpoint.id) for checkpoint in checkpoints}
    return replace(
        job,
        checkpoints=tuple(checkpoints),
        late=tuple(item for item in job.late if (item.run, item.checkpoint) in kept),
        declines=tuple(item for item in job.declines if (item.run, item.checkpoint) in kept),
        incidents=tuple(
            incident
            for incident in job.incidents
            if incident.time_us is None or low <= incident.time_us <= high
        ),
        last_us=None if job.last_us is None else min(job.last_us, high),
        first_us=None if job.first_us is None else max(job.first_us, low),
    )


def failing_spans(facts: ClusterFacts) -> list[tuple[int, int]]:
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
    if (
        len(joined) > MAX_SPANS
    ):  # sick through and through: one span says the same in a smaller plan
        joined = [(joined[0][0], max(high for _, high in joined))]
    return joined
