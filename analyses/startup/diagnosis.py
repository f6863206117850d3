"""The way of `flowdiag startup` from inputs to a report: `diagnose` is the one function to read first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from flowdiag.analyses.assemble import assemble
from flowdiag.analyses.measuring import Say, rows_of, settled_events
from flowdiag.analyses.report import Data, Report
from flowdiag.analyses.reporting import report_of
from flowdiag.analyses.rules.base import apply
from flowdiag.analyses.rules.startup import STARTUP_RULES
from flowdiag.analyses.selection import Selection
from flowdiag.analyses.startup.assemble import assemble_startup
from flowdiag.analyses.startup.data import cluster_steps, start_attempts, start_workers
from flowdiag.analyses.startup.facts import StartupFacts
from flowdiag.analyses.wishes import Wishes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flowdiag.parsers.sources import Discovery, Source


def diagnose(
    discovery: Discovery,
    session: Callable[[], SparkSession],
    wishes: Wishes,
    *,
    tune: Callable[[bool], None] = lambda small: None,
    say: Say = lambda stage: None,
) -> Report:
    """How the job got to RUNNING, or what holds it.

    Args:
        discovery: what `parsers.sources.discover` found.
        session: waits for Spark and returns its session.
        wishes: of the user.
        tune: told whether the input is small, before the first query.
        say: told the name of each stage, for progress.

    Raises:
        FlowdiagError: the selection fits nothing in the input, or Spark cannot start.
    """
    facts, splits = measure(discovery.sources, session, tune=tune, tz=wishes.tz, say=say)
    say("judging")
    facts = select(facts, wishes.selection)
    excerpts = wishes.privacy.excerpts
    data = Data(
        attempts=start_attempts(facts, wishes.max_rows, excerpts=excerpts),
        cluster=cluster_steps(facts),
        workers=start_workers(facts, wishes.max_rows, excerpts=excerpts),
    )
    return report_of(
        "startup",
        data,
        wishes,
        sources=discovery.sources,
        splits=splits,
        processes=facts.processes,
        outcomes=apply(STARTUP_RULES, facts, wishes.thresholds),
        names={job.job.key: job.job.name for job in facts.jobs},
        assessed=any(job.starts for job in facts.jobs) or bool(facts.cluster_steps),
        notes=(*discovery.errors, *discovery.warnings),
        say=say,
    )


def measure(
    sources: Sequence[Source],
    session: Callable[[], SparkSession],
    *,
    tune: Callable[[bool], None] = lambda small: None,
    tz: str | None = None,
    say: Say = lambda stage: None,
) -> tuple[StartupFacts, tuple[Mapping[str, object], ...]]:
    """Parse, settle the clocks, measure: everything that happens before judging."""
    from flowdiag.analyses.startup import measure as startup_measure

    settled = settled_events(sources, session, tune=tune, tz=tz, say=say)
    say("measuring starts")
    rows = rows_of(startup_measure.facts_frame(settled.events))
    facts = assemble_startup(rows, assemble(rows, [], settled.writers))
    return facts, settled.splits


def select(facts: StartupFacts, selection: Selection) -> StartupFacts:
    """Keep the jobs that are judged.

    Raises:
        FlowdiagError: no job matches.
    """
    selection.require((job.job.key.job_id or None, job.job.name) for job in facts.jobs)
    return replace(
        facts,
        jobs=tuple(
            job for job in facts.jobs if selection.wants(job.job.key.job_id or None, job.job.name)
        ),
    )
