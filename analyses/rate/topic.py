"""The topic `rate`: why a Spark streaming application cannot keep up, or what limits it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from flowdiag.analyses.contract.report import Data, Where, iso
from flowdiag.analyses.engine.frames import cached_frame
from flowdiag.analyses.engine.reading import ProgressCallback, Resources
from flowdiag.analyses.engine.views import keep_read
from flowdiag.analyses.faults import Faults
from flowdiag.analyses.flink.clocks.settle import zone_of
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.finding import Confidence, RecognizedRecords, RuleOutcome
from flowdiag.analyses.model.keys import JobKey, Process
from flowdiag.analyses.neighbours.facts import DATABASES, Neighbours, read_neighbours
from flowdiag.analyses.rate.assemble import UserSettings, assemble
from flowdiag.analyses.rate.assemble.rows import JSON
from flowdiag.analyses.rate.assessment import AssessedApplication, Assessment, assess
from flowdiag.analyses.rate.assessment.batches import failed_tasks, split_at_gaps
from flowdiag.analyses.rate.assessment.endings import without_effects_of_stop
from flowdiag.analyses.rate.data import rate_data
from flowdiag.analyses.rate.facts import ApplicationFacts, RateFacts, Record
from flowdiag.analyses.rate.owned import owned_events
from flowdiag.analyses.rate.rules import RULES
from flowdiag.analyses.selection.options import Options
from flowdiag.analyses.selection.span import Span
from flowdiag.analyses.topic import Measured, SelectableJob, Session, SideInputs, Topic
from flowdiag.parsers.lines.failure_lines import KNOWN_RECORD
from flowdiag.parsers.notes import InputNote, Kind

if TYPE_CHECKING:
    from flowdiag.analyses.model.columns import Rows
    from flowdiag.analyses.rate.measure import Owner
    from flowdiag.parsers.source import Source


# Event logs only contain batches with jobs, and so may a driver's log next to them.
_SHOW_EMPTY_BATCHES: Final = frozenset({"listener", "rest"})


class Spark:
    """The engine of topics about Spark streaming, which identifies applications and then measures them."""

    name = "spark"

    def measure(
        self,
        topics: Sequence[Topic],
        sources: Sequence[Source],
        session: Session,
        options: Options,
        *,
        side_inputs: Mapping[str, Any],
        resources: Resources,
        progress: ProgressCallback,
    ) -> Measured:
        """Parse, identify applications, and measure (see `topic.Engine`)."""
        from flowdiag.analyses.rate import measure as rate_measure

        names = [topic.name for topic in topics]
        if all(source.kind == "not-read" for source in sources):
            return Measured(facts=dict.fromkeys(names, RateFacts(applications=())))
        faults = Faults(resources.explained)
        owned = owned_events(
            sources, session, resources=resources, tz=options.tz, progress=progress, faults=faults
        )
        owners = owned.owners
        progress("measuring batches")
        table = rate_measure.facts_frame(
            cached_frame(owned.events), owned.present or None
        ).toArrow()
        keep_read(resources.keep, self.name, sources, owned.events)
        cut = {row["source"] for row in owned.splits if (row["fields"] or {}).get("error")}
        facts = _assembled(
            list(zip(table.column(0).to_pylist(), table.column(1).to_pylist(), strict=True)),
            [owner.application for owner in owners if owner.source in cut],
            options,
            sorted({owner.application for owner in owners}),
            faults,
            _input_spans(owned.splits, owners),
        )
        found = {
            name: replace(facts, neighbours=side_inputs.get(name) or Neighbours()) for name in names
        }
        return Measured(
            facts=found,
            splits=owned.splits,
            processes=_processes(facts, owners, sources),
            understood=understood_kinds(facts),
            faults=faults.found,
        )


def _assembled(
    rows: Sequence[tuple[str, str]],
    damaged: Sequence[str],
    options: Options,
    applications: Sequence[str],
    faults: Faults,
    spans_us: Mapping[str, tuple[int, int]],
) -> RateFacts:
    """Return the facts of all applications. Applications that trigger a bug are left out."""
    user = UserSettings(
        trigger_interval_ms=options.rate.trigger_interval_ms,
        real_time=options.rate.real_time,
        configuration=options.rate.configuration,
    )

    def of_some(some: Sequence[str]) -> RateFacts:
        whole = len(some) == len(applications)
        return assemble(
            rows if whole else [row for row in rows if JSON.decode(row[1]).get("app", "") in some],
            damaged=damaged,
            user=user,
            spans_us=spans_us,
        )

    return faults.run_skipping_failures(
        applications, of_some, Where.MEASURE, about=lambda name: f"application {name}"
    )[0]


def _input_spans(
    splits: Sequence[Mapping[str, Any]], owners: Sequence[Owner]
) -> dict[str, tuple[int, int]]:
    """Return the first and last time in each application's inputs, including lines that flowdiag skips."""
    last_parts = {owner.source: owner for owner in owners}
    spans: dict[str, tuple[int, int]] = {}
    for split in splits:
        owner, fields = last_parts.get(split["source"]), split["fields"] or {}
        first, last = fields.get("first_us", ""), fields.get("last_us", "")
        if owner is not None and first.isdecimal() and last.isdecimal():
            shift = owner.shift_ms * 1000 if owner.shift_from is not None else 0
            span = spans.get(owner.application, (2**62, 0))
            spans[owner.application] = (
                min(int(first) - shift, span[0]),
                max(int(last) - shift, span[1]),
            )
    return spans


SPARK: Final = Spark()


def _has_batches(facts: Assessment) -> bool:
    return any(each.app.batches for each in facts.applications)


def _has_triggers(facts: Assessment) -> bool:
    return any(query.triggers for each in facts.applications for query in each.app.queries)


def _has_work(facts: Assessment) -> bool:
    return _has_batches(facts) or _has_triggers(facts)


def _has_receivers(facts: Assessment) -> bool:
    return any(each.app.batches and each.app.origins - {"event-log"} for each in facts.applications)


_REQUIRED: Final = {
    "batches": (_has_batches, "the input contains no batches of a DStream"),
    "receivers": (
        _has_receivers,
        "receiver restarts are in the driver's log, in the listener's output and in REST responses",
    ),
    "triggers": (_has_triggers, "the input contains no query triggers"),
    "work": (_has_work, "the input contains neither batches nor query triggers"),
}


class Rate(Topic):
    """The topic. Its facts are `RateFacts`, and its rules judge an `Assessment`."""

    name = "rate"
    required_data = "a batch or a trigger"
    engine = SPARK
    rules = RULES
    required = _REQUIRED

    def side_inputs(self, sources: Sequence[Source], options: Options) -> SideInputs:
        """Read the sessions and the logs of databases."""
        found = read_neighbours(sources, DATABASES)
        return SideInputs(content=found, kinds=found.kinds)

    def jobs(self, facts: RateFacts) -> Iterable[SelectableJob]:
        return [
            SelectableJob(
                key=app.key, id=app.application, name=app.name, selectable=app.kind != "other"
            )
            for app in facts.applications
        ]

    def first_us(self, facts: RateFacts) -> int | None:
        times = [batch.time_ms * 1000 for app in facts.applications for batch in app.batches]
        times += [
            trigger.time_us
            for app in facts.applications
            for query in app.queries
            for trigger in query.triggers
            if trigger.time_us is not None
        ]
        return min(times, default=None)

    def last_us(self, facts: RateFacts) -> int | None:
        ends = (app.last_us for app in facts.applications if app.last_us is not None)
        return max(ends, default=None)

    def select_jobs(self, facts: RateFacts, is_selected: Callable[[JobKey], bool]) -> RateFacts:
        kept_apps = (app for app in facts.applications if is_selected(app.key))
        return replace(facts, applications=tuple(kept_apps))

    def select_span(self, facts: RateFacts, span: Span) -> RateFacts:
        """Return the facts reduced to the batches and triggers of the span. The time of a batch is its batch time."""
        return replace(
            facts,
            applications=tuple(
                replace(
                    app,
                    batches=tuple(b for b in app.batches if span.has(b.time_ms * 1000)),
                    outputs=tuple(o for o in app.outputs if span.has(o.batch_ms * 1000)),
                    queries=tuple(
                        replace(q, triggers=tuple(t for t in q.triggers if span.has(t.time_us)))
                        for q in app.queries
                    ),
                )
                for app in facts.applications
            ),
        )

    def derive(self, facts: RateFacts, options: Options) -> Assessment:
        """Replay the estimators, and judge the current state of every application."""
        return assess(facts, retention_ms=options.rate.retention_ms)

    def subjects(self, facts: Assessment) -> Sequence[AssessedApplication]:
        return facts.applications

    def review_outcomes(
        self, outcomes: Sequence[RuleOutcome], facts: Assessment
    ) -> tuple[RuleOutcome, ...]:
        """Lower the confidence of findings about applications with lost events or a truncated input."""
        doubtful = {one.key for one in facts.applications if one.app.lost or one.app.damaged}
        lower = {Confidence.HIGH: Confidence.MEDIUM}
        return tuple(
            replace(
                outcome,
                findings=tuple(
                    replace(found, confidence=lower.get(found.confidence, Confidence.LOW))
                    # A truncated log supports the finding about a dead driver, and makes all others less certain.
                    if found.job in doubtful and found.cause != "driver-killed"
                    else found
                    for found in outcome.findings
                ),
            )
            for outcome in outcomes
        )

    def notes(self, measured: RateFacts, facts: RateFacts, options: Options) -> Iterable[InputNote]:
        """Yield warnings about times without a batch if every batch should be in the input, and about stopped runs."""
        for app in facts.applications:
            if app.interval_ms and app.origins & _SHOW_EMPTY_BATCHES:
                yield from gap_notes(app)
            yield from replaced_runs(app)
            if app.origins == {"event-log"} and (note := end_note(app)) is not None:
                yield note

    def data(
        self,
        facts: Assessment | None,
        outcomes: Sequence[RuleOutcome],
        options: Options,
        sources: Sequence[Source],
    ) -> Data:
        if facts is None:
            return Data(applications=[])
        excerpts = options.privacy.excerpts
        return Data(
            applications=rate_data(facts, outcomes, max_rows=options.max_rows, excerpts=excerpts)
        )

    def tables(self, facts: Assessment, options: Options) -> Rows:
        from flowdiag.analyses.rate.data import rate_tables

        return rate_tables(facts, excerpts=options.privacy.excerpts)

    def missing_input(self, facts: RateFacts) -> str:
        """Return why the topic cannot judge an input. Late triggers may be too few to prove an overload."""
        late = sum(app.late_count for app in facts.applications)
        if not late:
            return super().missing_input(facts)
        return (
            f"the input has {fmt.plural(late, 'late trigger')} and no other trigger, which does not "
            "show whether the query keeps up"
        )

    def is_assessed(self, facts: RateFacts) -> bool:
        """Return whether the input has a batch, a query, their exceptions, or their tasks.

        Effects of a stop show nothing about the time before it.
        """
        return any(
            app.batches
            or app.queries
            or any(one.fields.get("origin") == "paste" for one in app.incidents)
            or settled.failures
            or any(one.template == KNOWN_RECORD for one in settled.incidents)
            or failed_tasks(settled)
            for app in facts.applications
            for settled in (without_effects_of_stop(app),)
        )


RATE: Final = Rate()


def gap_notes(app: ApplicationFacts) -> Iterator[InputNote]:
    """Yield a warning for each gap in which batches were due."""
    for before, after in pairwise(split_at_gaps(app.batches)):
        last = before[-1]
        begun, ended = (last.end_ms or last.time_ms) * 1000, after[0].time_ms * 1000
        yield InputNote(
            Kind.GAP,
            f"no batch of {app.name or app.application or 'the application'} from {iso(begun)} to {iso(ended)}"
            f" ({fmt.duration((ended - begun) / 1000)}), with batches before and after: lines are missing, or the"
            " driver stalled or was not running. flowdiag does not count that time as waiting",
            first_us=begun,
            last_us=ended,
        )


def replaced_runs(app: ApplicationFacts) -> Iterator[InputNote]:
    """Yield a warning for each query whose active run a second start has stopped."""
    by_query: dict[str, list[Record]] = {}
    for record in app.incidents_of("run-replaced"):
        by_query.setdefault(record.fields["id"], []).append(record)
    for query, records in by_query.items():
        yield InputNote(
            Kind.OTHER,
            f"a second start stopped the active run of query {query} ({fmt.plural(len(records), 'time')}). If these"
            " are two queries, they share a checkpoint location, and each needs its own",
            first_us=records[0].time_us,
            last_us=records[-1].time_us,
        )


def end_note(app: ApplicationFacts) -> InputNote | None:
    """Return a warning if an application ended while a query was active, otherwise None.

    A stop, a signal and an exception of the script look the same in an event log: `ExitCode` is 0 for all of them.
    """
    ended = {one.fields.get("run_id") for q in app.queries for one in q.events_of("terminated")}
    active = [q for q in app.queries if q.triggers and q.triggers[-1].run_id not in ended]
    if app.ended_us is None or not active:
        return None
    return InputNote(
        Kind.OTHER,
        f"{app.name or app.application or 'the application'} ended while {active[0].label} was active: the event log"
        " does not show whether a stop or an exception of the script ended it, but the driver's log does",
        last_us=app.ended_us,
    )


def understood_kinds(facts: RateFacts) -> tuple[RecognizedRecords, ...]:
    """Return the kinds of recognized records in Spark's inputs."""
    found: dict[str, list[int]] = {}
    for app in facts.applications:
        for kind, times in _times_by_kind(app):
            found.setdefault(kind, []).extend(times)
    return tuple(
        RecognizedRecords(
            kind=kind,
            count=len(times),
            first_us=min((us for us in times if us), default=None),
            last_us=max((us for us in times if us), default=None),
        )
        for kind, times in found.items()
        if times
    )


def _times_by_kind(app: ApplicationFacts) -> Iterator[tuple[str, list[int]]]:
    """Yield each kind of record with sample times in microseconds, or 0 if unknown."""
    for batch in app.batches:
        yield f"batches {batch.state}", [batch.time_ms * 1000]
    for query in app.queries:
        first = query.events[:1]
        yield "streaming queries", [r.time_us for r in first if r.time_us is not None]
        yield "triggers of queries", [t.time_us or 0 for t in query.triggers]
    for kind, records in (
        ("receiver messages", app.receivers),
        ("rate limits", app.limits),
        ("rate estimator steps", app.traces),
        ("executor and job incidents", app.incidents),
    ):
        yield kind, [record.time_us or 0 for record in records]


def _processes(
    facts: RateFacts, owners: Iterable[Owner], sources: Sequence[Source]
) -> tuple[Process, ...]:
    """Return the process that wrote each input, for the list of inputs."""
    apps = {app.key: app for app in facts.applications}
    result = []
    for owner in owners:
        app = apps.get(JobKey("", owner.application))
        result.append(
            Process(
                source=owner.source,
                label=None if app is None else app.application,
                role=sources[owner.source].role,
                cluster="",
                version=None if app is None else app.version,
                zone_offset_ms=zone_of(owner.shift_ms),
                zone_from=owner.shift_from,
                first_us=owner.first_us,
                last_us=owner.last_us,
            )
        )
    return tuple(result)
