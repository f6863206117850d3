"""The way of `flowdiag startup` from inputs to a report: `diagnose` is the one function to read first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from flowdiag.analyses.engine.reading import ORDINARY, Means, Say
from flowdiag.analyses.flink.assemble import assemble
from flowdiag.analyses.flink.settled import rows_of, settled_events
from flowdiag.analyses.options import Wishes
from flowdiag.analyses.report.build import report_of
from flowdiag.analyses.report.wire import Data, Report
from flowdiag.analyses.rule import apply
from flowdiag.analyses.span import Moment, Selection
from flowdiag.analyses.startup.assemble import assemble_startup
from flowdiag.analyses.startup.data import (
    cluster_steps,
    job_scheduling,
    start_attempts,
    start_workers,
)
from flowdiag.analyses.startup.facts import JobStarting, JobStarts, StartupFacts
from flowdiag.analyses.startup.rules import STARTUP_RULES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flowdiag.parsers.sources.discover import Discovery, Source


def diagnose(
    discovery: Discovery,
    session: Callable[[], SparkSession],
    wishes: Wishes,
    *,
    means: Means = ORDINARY,
    say: Say = lambda stage: None,
) -> Report:
    """How the job got to RUNNING, or what holds it.

    Args:
        discovery: what `parsers.sources.discover` found.
        session: waits for Spark and returns its session.
        wishes: of the user.
        means: with what to read and measure.
        say: told the name of each stage, for progress.

    Raises:
        FlowdiagError: the selection fits nothing in the input, or Spark cannot start.
    """
    facts, splits = measure(discovery.sources, session, means=means, tz=wishes.tz, say=say)
    say("judging")
    facts = select(facts, wishes.selection)
    excerpts = wishes.privacy.excerpts
    data = Data(
        attempts=start_attempts(facts, wishes.max_rows, excerpts=excerpts),
        cluster=cluster_steps(facts),
        workers=start_workers(facts, wishes.max_rows, excerpts=excerpts),
        scheduling=job_scheduling(facts, wishes.max_rows),
    )
    return report_of(
        "startup",
        data,
        wishes,
        sources=discovery.sources,
        splits=splits,
        processes=facts.processes,
        outcomes=apply(
            STARTUP_RULES,
            facts,
            tuple(JobStarting.of(job, facts) for job in facts.jobs),
            wishes.thresholds,
        ),
        names={job.job.key: job.job.name for job in facts.jobs},
        assessed=any(job.starts for job in facts.jobs)
        or bool(facts.cluster_steps)
        or bool(facts.troubles),
        notes=(*discovery.errors, *discovery.warnings),
        say=say,
    )


def measure(
    sources: Sequence[Source],
    session: Callable[[], SparkSession],
    *,
    means: Means = ORDINARY,
    tz: str | None = None,
    say: Say = lambda stage: None,
) -> tuple[StartupFacts, tuple[Mapping[str, object], ...]]:
    """Parse, settle the clocks, measure: everything that happens before judging."""
    from flowdiag.analyses.startup import measure as startup_measure

    wanted = startup_measure.METRICS
    settled = settled_events(sources, session, means=means, tz=tz, say=say, metrics=wanted)
    say("measuring starts")
    rows = rows_of(startup_measure.facts_frame(settled.events, settled.metrics()))
    facts = assemble_startup(rows, assemble(rows, [], settled.writers))
    return facts, settled.splits


def select(facts: StartupFacts, selection: Selection) -> StartupFacts:
    """Keep the jobs and the time that are judged; workers and the cluster's steps stay, since they join.

    A start belongs to the time if any of it lies within; troubles and incidents by when they were logged.

    Raises:
        FlowdiagError: no job matches.
    """
    selection.require((job.job.key.job_id or None, job.job.name) for job in facts.jobs)
    jobs = tuple(
        job for job in facts.jobs if selection.wants(job.job.key.job_id or None, job.job.name)
    )
    if selection.since is None and selection.until is None:
        return replace(facts, jobs=jobs)
    zones = [p.zone_offset_ms for p in facts.processes if p.role in ("jobmanager", "mixed")]
    zones += [p.zone_offset_ms for p in facts.processes]
    zone = next((zone for zone in zones if zone is not None), 0)
    end = facts.last_us or 0

    def instant(moment: Moment | None, otherwise: int) -> int:
        if moment is None:
            return otherwise
        return moment.at(end_us=end, zone_offset_ms=zone)

    low, high = instant(selection.since, -_ALWAYS), instant(selection.until, _ALWAYS)

    def inside(time_us: int | None) -> bool:
        return time_us is None or low <= time_us <= high

    return replace(
        facts,
        jobs=tuple(_between(job, low, high) for job in jobs),
        troubles=tuple(
            t
            for t in facts.troubles
            if (t.last_us is None or t.last_us >= low)
            and (t.first_us is None or t.first_us <= high)
        ),
        common=replace(
            facts.common,
            incidents=tuple(i for i in facts.common.incidents if inside(i.time_us)),
        ),
        last_us=min(end, high) if facts.last_us is not None else None,
    )


_ALWAYS = 1 << 62


def _between(job: JobStarts, low: int, high: int) -> JobStarts:
    """What of a job's starts lies between two instants."""
    ended = job.ended_us is None or low <= job.ended_us <= high
    return replace(
        job,
        job=replace(
            job.job,
            incidents=tuple(
                i for i in job.job.incidents if i.time_us is None or low <= i.time_us <= high
            ),
            checkpoints=tuple(
                c
                for c in job.job.checkpoints
                if low <= (c.triggered_us or c.ended_us or low) <= high
            ),
            last_us=None if job.job.last_us is None else min(job.job.last_us, high),
        ),
        starts=tuple(
            start
            for start in job.starts
            if start.started_us <= high and (start.ended_us is None or start.ended_us >= low)
        ),
        ended=job.ended if ended else None,
        ended_cause=job.ended_cause if ended else None,
        cancelled=any(
            i.kind == "cancelled" and (i.time_us is None or i.time_us <= high)
            for i in job.job.incidents
        ),
    )
