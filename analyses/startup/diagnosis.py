"""The way of `flowdiag startup` from inputs to a report: `diagnose` is the one function to read first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from flowdiag.analyses.assemble import assemble
from flowdiag.analyses.measuring import Say, rows_of, settled_events
from flowdiag.analyses.redact import clean
from flowdiag.analyses.report import Data, Note, Privacy, Report, build_report
from flowdiag.analyses.rules.base import Thresholds, apply
from flowdiag.analyses.rules.startup import STARTUP_RULES
from flowdiag.analyses.selection import Selection
from flowdiag.analyses.startup.assemble import assemble_startup
from flowdiag.analyses.startup.data import cluster_steps, start_attempts, start_workers
from flowdiag.analyses.startup.facts import StartupFacts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flowdiag.parsers.sources import Discovery, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the user asked for.

    Args:
        selection: which jobs are judged.
        tz: name of a zone that overrides every inferred one.
        thresholds: values by rule code and threshold name.
        privacy: how much log text the report may carry.
        max_rows: longest list in the report's data.
    """

    selection: Selection = field(default_factory=Selection)
    tz: str | None = None
    thresholds: Mapping[str, Thresholds] = field(default_factory=dict)
    privacy: Privacy = field(default_factory=Privacy)
    max_rows: int = 10_000


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
    from flowdiag.analyses.evidence import locate
    from flowdiag.analyses.inputs import describe_inputs, input_problems
    from flowdiag.parsers.sources import open_source

    facts, splits = measure(discovery.sources, session, tune=tune, tz=wishes.tz, say=say)
    say("judging")
    facts = select(facts, wishes.selection)
    outcomes = apply(STARTUP_RULES, facts, wishes.thresholds)
    cited = [item for outcome in outcomes for found in outcome.findings for item in found.evidence]
    say("citing the evidence")
    located, problems = locate(cited, lambda source: open_source(discovery.sources[source]))
    excerpts = wishes.privacy.excerpts
    inputs = describe_inputs(discovery.sources, splits, facts.processes, excerpts=excerpts)
    return build_report(
        command="startup",
        inputs=inputs,
        outcomes=outcomes,
        names={job.job.key: job.job.name for job in facts.jobs},
        data=Data(
            attempts=start_attempts(facts, wishes.max_rows, excerpts=excerpts),
            cluster=cluster_steps(facts),
            workers=start_workers(facts, wishes.max_rows, excerpts=excerpts),
        ),
        located=located,
        assessed=any(job.starts for job in facts.jobs)
        or bool(facts.cluster_steps)
        or any(outcome.findings for outcome in outcomes),
        warnings=[
            *[Note(message=clean(text)) for text in (*discovery.errors, *discovery.warnings)],
            *input_problems(inputs),
            *[Note(message=clean(text), source=inputs[source].source) for source, text in problems],
        ],
        privacy=wishes.privacy,
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


def nothing_read(discovery: Discovery, privacy: Privacy) -> Report:
    """The document where no input is of a kind that can be read: it still says why, for each."""
    from flowdiag.analyses.inputs import describe_inputs

    return build_report(
        command="startup",
        inputs=describe_inputs(discovery.sources, ()),
        outcomes=(),
        names={},
        data=Data(attempts=[]),
        located={},
        assessed=False,
        warnings=[Note(message=clean(text)) for text in discovery.errors],
        privacy=privacy,
    )
