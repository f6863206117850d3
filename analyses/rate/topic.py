"""The way of `flowdiag rate` from inputs to a report: `diagnose` is the one function to read first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow.compute as pc

from flowdiag.analyses import options as shared
from flowdiag.analyses.engine.frames import kept
from flowdiag.analyses.engine.reading import ORDINARY, Means, Say, frame_of, read
from flowdiag.analyses.finding import Confidence, RuleOutcome
from flowdiag.analyses.keys import JobKey
from flowdiag.analyses.rate.assemble import Told, assemble
from flowdiag.analyses.rate.data import rate_data
from flowdiag.analyses.rate.facts import ApplicationFacts, RateFacts
from flowdiag.analyses.rate.rules import RATE_RULES
from flowdiag.analyses.rate.state import Assessment, assess
from flowdiag.analyses.rate.survey import survey, survey_table
from flowdiag.analyses.report.build import report_of
from flowdiag.analyses.report.wire import Data, Report
from flowdiag.analyses.rule import apply
from flowdiag.analyses.span import Moment, Selection
from flowdiag.parsers.rows import Event

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flowdiag.analyses.keys import Process
    from flowdiag.analyses.rate.measure import Owner
    from flowdiag.parsers.sources.discover import Discovery, Source

COMMAND: Final = "rate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What came out of measuring: facts, the `split` rows, and which source belongs to whom."""

    facts: RateFacts
    splits: tuple[dict[str, Any], ...]
    owners: tuple[Owner, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes(shared.Wishes):
    """What the user asked for.

    Args:
        trigger_interval_ms: of the queries' triggers, which Spark records nowhere.
        real_time: whether the queries run in real-time mode; None: take it from the input.
        configuration: options of the application, as given.
        retention_ms: of the topics that are read.
    """

    trigger_interval_ms: int | None = None
    real_time: bool | None = None
    configuration: Mapping[str, str] = field(default_factory=dict)
    retention_ms: int | None = None


def diagnose(
    discovery: Discovery,
    session: Callable[[], SparkSession],
    wishes: Wishes,
    *,
    means: Means = ORDINARY,
    say: Say = lambda stage: None,
) -> Report:
    """Why a streaming application cannot keep up, or is held back.

    Args:
        discovery: what `parsers.sources.discover` found, without the inputs of other engines.
        session: waits for Spark and returns its session.
        wishes: of the user.
        means: with what to read and measure.
        say: told the name of each stage, for progress.

    Raises:
        FlowdiagError: the selection fits nothing in the input, or Spark cannot start.
    """
    measured = measure(
        discovery.sources,
        session,
        means=means,
        tz=wishes.tz,
        told=Told(
            trigger_interval_ms=wishes.trigger_interval_ms,
            real_time=wishes.real_time,
            configuration=wishes.configuration,
        ),
        say=say,
    )
    say("judging")
    facts = assess(select(measured.facts, wishes.selection), retention_ms=wishes.retention_ms)
    outcomes = doubted(apply(RATE_RULES, facts, facts.applications, wishes.thresholds), facts)
    applications = rate_data(
        facts, outcomes, max_rows=wishes.max_rows, excerpts=wishes.privacy.excerpts
    )
    return report_of(
        COMMAND,
        Data(applications=applications),
        wishes,
        sources=discovery.sources,
        splits=measured.splits,
        processes=processes(measured, discovery.sources),
        outcomes=outcomes,
        names={one.key: one.app.name for one in facts.applications},
        assessed=any(one.app.batches or one.app.queries for one in facts.applications),
        notes=(*discovery.errors, *discovery.warnings),
        say=say,
    )


def doubted(outcomes: Sequence[RuleOutcome], facts: Assessment) -> tuple[RuleOutcome, ...]:
    """The same findings with less confidence where events were lost or an input is cut."""
    doubtful = {one.key for one in facts.applications if one.app.lost or one.app.damaged}
    lower = {Confidence.HIGH: Confidence.MEDIUM}
    return tuple(
        replace(
            outcome,
            findings=tuple(
                replace(found, confidence=lower.get(found.confidence, Confidence.LOW))
                if found.job in doubtful
                else found
                for found in outcome.findings
            ),
        )
        for outcome in outcomes
    )


def measure(
    sources: Sequence[Source],
    session: Callable[[], SparkSession],
    *,
    means: Means = ORDINARY,
    tz: str | None = None,
    told: Told | None = None,
    say: Say = lambda stage: None,
) -> Measured:
    """Parse, tell applications apart, measure: everything that happens before judging.

    Args:
        sources: what `parsers.sources.discover` found.
        session: waits for Spark and returns its session; small inputs are parsed before it is asked.
        means: with what to read and measure.
        tz: name of a zone that overrides every inferred one.
        told: what the user says about the applications.
        say: told the name of each stage, for progress.
    """
    from flowdiag.analyses.rate import measure as rate_measure

    if all(source.kind == "not-read" for source in sources):
        return Measured(facts=RateFacts(applications=()), splits=(), owners=())
    found = read(sources, means, say=say)
    surveyed: list[dict[str, Any]] = []
    present: set[str] = set()
    if found.table is not None:
        surveyed = survey_table(found.table)
        present.update(pc.unique(found.table["event"]).to_pylist())
    say("starting Spark")
    spark = session()
    means.tune(found.rows)
    say("telling applications apart" if found.tasks is None else "reading")
    events = frame_of(found, spark)
    if found.table is None:
        surveyed = survey(events)
        # Tasks were added up while they were read: what is left of a large log is small, and to compile
        # the plan of the next query would take longer than to run it.
        means.tune(sum(row["rows"] or 0 for row in surveyed))
    owners = rate_measure.own(surveyed, sources, tz)
    splits = tuple(row for row in surveyed if row["event"] == Event.SPLIT)
    say("measuring batches")
    frame = rate_measure.facts_frame(kept(rate_measure.owned(events, owners)), present or None)
    table = frame.toArrow()
    cut = {row["source"] for row in splits if (row["fields"] or {}).get("error")}
    facts = assemble(
        zip(table.column(0).to_pylist(), table.column(1).to_pylist(), strict=True),
        damaged=[owner.application for owner in owners if owner.source in cut],
        told=told,
    )
    return Measured(facts=facts, splits=splits, owners=owners)


def select(facts: RateFacts, selection: Selection) -> RateFacts:
    """Keep the applications and the time that are judged.

    Raises:
        FlowdiagError: no application matches.
    """
    known = [app for app in facts.applications if app.kind != "other"]
    selection.require((app.application, app.name) for app in known)
    kept = [app for app in facts.applications if selection.wants(app.application, app.name)]
    if selection.since is None and selection.until is None:
        return replace(facts, applications=tuple(kept))
    end = max((app.last_us for app in facts.applications if app.last_us is not None), default=0)

    def instant(moment: Moment | None, otherwise: int) -> int:
        return otherwise if moment is None else moment.at(end_us=end, zone_offset_ms=0)

    low, high = instant(selection.since, -(2**62)), instant(selection.until, 2**62)
    return replace(facts, applications=tuple(_between(app, low, high) for app in kept))


def _between(app: ApplicationFacts, low: int, high: int) -> ApplicationFacts:
    """An application's batches and triggers from `low` to `high`; a batch belongs to its batch time."""
    return replace(
        app,
        batches=tuple(b for b in app.batches if low <= b.time_ms * 1000 <= high),
        outputs=tuple(o for o in app.outputs if low <= o.batch_ms * 1000 <= high),
        queries=tuple(
            replace(query, triggers=tuple(t for t in query.triggers if low <= t.time_us <= high))
            for query in app.queries
        ),
    )


def processes(measured: Measured, sources: Sequence[Source]) -> list[Process]:
    """Who wrote which input: for the list of inputs."""
    from flowdiag.analyses.keys import Process

    apps = {app.key: app for app in measured.facts.applications}
    result = []
    for owner in measured.owners:
        app = apps.get(JobKey("", owner.application))
        result.append(
            Process(
                source=owner.source,
                label=None if app is None else app.application,
                role=sources[owner.source].role,
                cluster="",
                version=None if app is None else app.version,
                zone_offset_ms=owner.shift_ms,
                zone_from=owner.shift_from,
                first_us=owner.first_us,
                last_us=owner.last_us,
            )
        )
    return result
