"""The main flow: inputs → facts of each topic → rules → one report. Start with `diagnose`.

| step | where |
|---|---|
| inspect: separate the inputs of the scan from those that a topic reads on its own | `inspect_inputs` |
| measure: scan once, determine clocks once, and collect the small rows of all topics once | the topics' engine |
| judge: apply every rule to the requested jobs and time range, one subject at a time | here, with `rule.apply` |
| report: add evidence, inputs and verdicts | `report.build` |

A topic is the part that a command adds to this flow. `flowdiag checkpoints` runs the flow for one topic. Several topics
of one engine share one scan and one measurement.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from flowdiag.analyses.contract.report import Data, Fault, Report, Where, iso
from flowdiag.analyses.contract.report import Topic as WireTopic
from flowdiag.analyses.engine.reading import ORDINARY, ProgressCallback, Resources
from flowdiag.analyses.faults import Faults, faults_in, faults_of
from flowdiag.analyses.fleets import merge_fleets
from flowdiag.analyses.model.finding import Inconclusive, RuleOutcome
from flowdiag.analyses.model.keys import JobKey, Process
from flowdiag.analyses.model.names import with_names
from flowdiag.analyses.model.rule import Rule, apply, not_assessed
from flowdiag.analyses.model.shared_rules import merge_outcomes
from flowdiag.analyses.report.build import report_of
from flowdiag.analyses.report.verdicts import topic_of, topic_without_input
from flowdiag.analyses.selection.choice import without
from flowdiag.analyses.selection.options import Options
from flowdiag.analyses.selection.span import Span, zone_of
from flowdiag.analyses.topic import Measured, SelectableJob, Session, SideInputs, Topic
from flowdiag.analyses.topic_names import ENGINES, EVERYTHING
from flowdiag.parsers.catalogue import unusable_plugins
from flowdiag.parsers.notes import InputNote, Kind

if TYPE_CHECKING:
    from flowdiag.analyses.model.columns import Keeper
    from flowdiag.parsers.discover import Discovery
    from flowdiag.parsers.source import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectedInputs:
    """The inputs after `inspect_inputs`.

    Args:
        sources: all sources for the report. Side inputs have the kind that their topic assigned.
        to_scan: the same sources, with side inputs marked `not-read`.
        side_inputs: the content that topics read on their own, by topic name.
        notes: warnings and errors about the inputs.
        faults: errors during the inspection.
    """

    sources: tuple[Source, ...]
    to_scan: tuple[Source, ...]
    side_inputs: Mapping[str, Any]
    notes: tuple[InputNote, ...]
    faults: Sequence[Fault] = ()

    @property
    def needs_spark(self) -> bool:
        """Whether any source has to be scanned."""
        return any(source.kind != "not-read" for source in self.to_scan)

    @property
    def empty(self) -> bool:
        """Whether no source is readable."""
        return all(source.kind == "not-read" for source in self.sources)


def inspect_inputs(
    topics: Sequence[Topic], discovery: Discovery, options: Options
) -> InspectedInputs:
    """Read the inputs that the scan skips, such as configurations. They are small, and may be the only inputs."""
    faults = Faults(found=faults_of(discovery.faults, discovery.sources))
    side_inputs = {
        topic.name: faults.run_or_default(
            partial(topic.side_inputs, discovery.sources, options),
            SideInputs(),
            Where.PARSER,
            about=topic.name,
        )
        for topic in topics
    }
    kinds = {index: kind for each in side_inputs.values() for index, kind in each.kinds.items()}
    reasons = {index: why for each in side_inputs.values() for index, why in each.unread.items()}
    return InspectedInputs(
        sources=tuple(
            replace(s, kind=kinds.get(s.index, s.kind), reason=reasons.get(s.index))
            if s.index in kinds.keys() | reasons.keys()
            else s
            for s in discovery.sources
        ),
        to_scan=tuple(
            replace(s, kind="not-read") if s.index in kinds else s for s in discovery.sources
        ),
        side_inputs={name: each.content for name, each in side_inputs.items()},
        notes=(
            *discovery.errors,
            *discovery.warnings,
            *(
                InputNote(Kind.NOT_READ, f"none of its {len(indexes)} files was read", folder)
                for folder, indexes in discovery.unread
                if not any(index in kinds for index in indexes)
            ),
            *(InputNote(Kind.PLUG_IN, text) for text in unusable_plugins()),
        ),
        faults=faults.found,
    )


def diagnose(
    topics: Sequence[Topic],
    inputs: Discovery | InspectedInputs,
    session: Session,
    options: Options | None = None,
    *,
    resources: Resources = ORDINARY,
    progress: ProgressCallback = lambda stage: None,
) -> Report:
    """Find the culprit and the evidence, and return one report about all topics.

    Args:
        topics: the topics in the order of the report. Topics of one engine share one scan.
        inputs: the result of `parsers.discover.discover` or of `inspect_inputs`.
        session: waits for Spark and returns its session. It is only called if Spark is needed.
        options: the user's options.
        resources: memory, cores and folders for reading and measuring.
        progress: called with the name of each stage.

    Raises:
        FlowdiagError: the selection matches no job in the input, or Spark cannot start.
    """
    options = options or Options()
    inspected = (
        inputs if isinstance(inputs, InspectedInputs) else inspect_inputs(topics, inputs, options)
    )
    if inspected.empty and inspected.sources:
        return _report_without_input(topics, inspected, options)
    measured = measure(topics, inspected, session, options, resources=resources, progress=progress)
    return report_on(topics, inspected, measured, options, progress=progress, keep=resources.keep)


def command_name(topics: Sequence[Topic], options: Options) -> str:
    one = len(topics) == 1 and not options.everything
    return topics[0].name if one else EVERYTHING


def report_on(
    topics: Sequence[Topic],
    inspected: InspectedInputs,
    measured: Measured,
    options: Options | None = None,
    *,
    progress: ProgressCallback = lambda stage: None,
    keep: Keeper | None = None,
) -> Report:
    """Judge the measured facts and build the report, without Spark. This is the second half of `diagnose`.

    Args:
        topics: the topics to judge. Other topics may have been measured with them.
        inspected: the inputs.
        measured: the facts of these inputs.
        options: the user's options.
        progress: called with the name of each stage.
        keep: receives the complete tables of the selected facts.

    Raises:
        FlowdiagError: the selection matches no job in the input, or a table cannot be written.
    """
    options = options or Options()
    progress("judging")
    options.selection.require(_selectable_jobs(topics, measured))
    faults = Faults(found=[*inspected.faults, *measured.faults])
    faults.found += faults_in(measured.splits, inspected.sources)
    results = [
        judge_topic_safely(topic, measured, options, inspected.sources, faults, keep)
        for topic in topics
    ]
    results = _with_last_resort(results)
    return report_of(
        command_name(topics, options),
        merge_data(result.data for result in results),
        options,
        sources=inspected.sources,
        splits=measured.splits,
        processes=measured.processes,
        outcomes=merge_outcomes(_combined_outcomes(results)),
        names={job.key: job.name for result in results for job in result.jobs},
        assessed=any(result.assessed for result in results),
        calculated=all(result.calculated for result in results if result.assessed),
        understood=measured.understood,
        topics=_with_topics_without_input(
            (
                topic_of(
                    result.name,
                    result.outcomes,
                    assessed=result.fed if options.everything else result.assessed,
                    calculated=result.calculated,
                    failed=result.failed,
                )
                for result in results
            ),
            options,
        ),
        input_notes=measured.notes,
        faults=faults,
        notes=(*inspected.notes, *dict.fromkeys(note for each in results for note in each.notes)),
        progress=progress,
    )


def _selectable_jobs(
    topics: Sequence[Topic], measured: Measured
) -> Iterator[tuple[str | None, str | None]]:
    for topic in topics:
        if topic.name in measured.facts:
            jobs = topic.jobs(measured.facts[topic.name])
            yield from ((job.id, job.name) for job in jobs if job.selectable)


def _with_last_resort(results: Sequence[TopicResult]) -> list[TopicResult]:
    """Add last-resort findings from the first topic that has any, if no rule found anything."""
    if any(outcome.findings for result in results for outcome in result.outcomes):
        return [*results]
    found = next((result for result in results if result.last_resort), None)
    return [
        replace(result, outcomes=result.last_resort) if result is found else result
        for result in results
    ]


def _combined_outcomes(results: Sequence[TopicResult]) -> list[RuleOutcome]:
    """Return the outcomes of all topics. If any topic has input, topics without input cannot make the verdict inconclusive."""
    fed = any(result.fed for result in results)
    return [
        outcome if result.fed or not fed else replace(outcome, core=False)
        for result in results
        for outcome in result.outcomes
    ]


def _with_topics_without_input(topics: Iterable[WireTopic], options: Options) -> list[WireTopic]:
    """Add the topics that have no input, if the user requested all topics."""
    by_name = {topic.topic: topic for topic in topics}
    return [
        by_name.get(name) or topic_without_input(name)
        for name in (ENGINES if options.everything else by_name)
    ]


def _report_without_input(
    topics: Sequence[Topic], inspected: InspectedInputs, options: Options
) -> Report:
    """Return a report about unreadable inputs, with the reason for each input."""
    outcomes = [
        without(
            topic.rules,
            [
                not_assessed(rule, f"no input contains {topic.required_data}")
                for rule in topic.rules
            ],
            options.choice,
        )
        for topic in topics
    ]
    return report_of(
        command_name(topics, options),
        merge_data(topic.data(None, (), options, inspected.sources) for topic in topics),
        options,
        sources=inspected.sources,
        outcomes=merge_outcomes(outcome for each in outcomes for outcome in each),
        assessed=False,
        topics=_with_topics_without_input(
            (
                topic_of(topic.name, each, assessed=False, calculated=False)
                for topic, each in zip(topics, outcomes, strict=True)
            ),
            options,
        ),
        notes=inspected.notes,
        faults=Faults(found=list(inspected.faults)),
    )


def measure(
    topics: Sequence[Topic],
    inputs: Discovery | InspectedInputs,
    session: Session,
    options: Options | None = None,
    *,
    resources: Resources = ORDINARY,
    progress: ProgressCallback = lambda stage: None,
) -> Measured:
    """Run every step before judging, and return the facts of each topic; takes the same arguments as `diagnose`."""
    options = options or Options()
    inspected = (
        inputs if isinstance(inputs, InspectedInputs) else inspect_inputs(topics, inputs, options)
    )
    engines = {topic.engine.name: topic.engine for topic in topics}
    faults = Faults(resources.explained)
    parts = []
    for name, engine in engines.items():
        # If one engine fails, the topics of the other engine are still measured.
        with faults.catch(Where.MEASURE):
            parts.append(
                engine.measure(
                    [topic for topic in topics if topic.engine.name == name],
                    inspected.to_scan
                    if len(engines) == 1
                    else sources_for_engine(name, inspected.to_scan),
                    session,
                    options,
                    side_inputs=inspected.side_inputs,
                    resources=resources,
                    progress=progress,
                )
            )
    if faults.found or len(parts) != 1:
        parts.append(Measured(facts={}, faults=faults.found))
    return parts[0] if len(parts) == 1 else _merge_measured(parts)


def _merge_measured(parts: Sequence[Measured]) -> Measured:
    return Measured(
        facts={name: facts for part in parts for name, facts in part.facts.items()},
        splits=[row for part in parts for row in part.splits],
        processes=[process for part in parts for process in part.processes],
        understood=[kind for part in parts for kind in part.understood],
        notes=[note for part in parts for note in part.notes],
        faults=[fault for part in parts for fault in part.faults],
    )


def sources_for_engine(engine: str, sources: Iterable[Source]) -> tuple[Source, ...]:
    """Mark the sources of all other engines as not read."""
    return tuple(
        source if source.engine == engine else replace(source, kind="not-read")
        for source in sources
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicResult:
    """The outcomes and data of one topic."""

    name: str
    outcomes: Sequence[RuleOutcome]
    data: Data
    jobs: tuple[SelectableJob, ...] = ()
    assessed: bool = False
    fed: bool = False
    calculated: bool = False
    notes: tuple[InputNote, ...] = ()
    failed: bool = False
    last_resort: Sequence[RuleOutcome] = ()


def judge_topic_safely(
    topic: Topic,
    measured: Measured,
    options: Options,
    sources: Sequence[Source],
    faults: Faults,
    keep: Keeper | None,
) -> TopicResult:
    """Judge a topic. If that fails, its rules become inconclusive; other topics are not affected."""
    before = len(faults.found)
    if topic.name in measured.facts:
        with faults.catch(Where.MEASURE, topic.name):
            result = judge_topic(topic, measured, options, sources, faults, keep)
            return replace(result, failed=len(faults.found) > before)
    why = Inconclusive(reason=f"{_BUG_KEPT} the {topic.name} from being measured")
    outcomes = [
        replace(not_assessed(rule, why.reason), inconclusive=(why,)) for rule in topic.rules
    ]
    return TopicResult(
        name=topic.name,
        outcomes=without(topic.rules, outcomes, options.choice),
        data=topic.data(None, (), options, sources),
        failed=True,
    )


# The beginning of every reason that is a fault. `errors` contains the fault itself.
_BUG_KEPT: Final = "a bug in flowdiag kept"


def judge_topic(
    topic: Topic,
    measured: Measured,
    options: Options,
    sources: Sequence[Source] = (),
    faults: Faults | None = None,
    keep: Keeper | None = None,
) -> TopicResult:
    """Run a topic's rules on the selected facts.

    Args:
        topic: the topic to judge.
        measured: contains the topic's facts.
        options: the user's options.
        sources: all discovered sources, by index.
        faults: collects the faults of single rules and jobs.
        keep: receives the uncut tables.
    """
    faults = faults or Faults()
    everything = measured.facts[topic.name]
    if options.privacy.redact:
        everything = with_names(everything)
    facts, derived = _derive(
        topic, select_facts(topic, everything, measured.processes, options), options, faults
    )
    mismatch = time_range_mismatch(topic, everything, measured.processes, options)
    if mismatch is not None:
        outcomes: Sequence[RuleOutcome] = [not_assessed(rule, mismatch) for rule in topic.rules]
    else:
        outcomes = _outcomes(topic, facts, derived, options, faults)
    outcomes = without(topic.rules, outcomes, options.choice)
    last_resort = () if mismatch is not None else _last_resort(topic, derived, outcomes, options)
    if keep is not None:
        for name, rows in topic.tables(derived, options):
            keep.rows(name, rows)
    notes: tuple[InputNote, ...] = faults.run_or_default(
        lambda: tuple(topic.notes(everything, facts, options)),
        (),
        Where.RULE,
        about=f"warnings of {topic.name}",
    )
    return TopicResult(
        name=topic.name,
        outcomes=merge_fleets(outcomes, partial(topic.population, derived)),
        data=faults.run_or_default(
            lambda: topic.data(derived, outcomes, options, sources),
            topic.data(None, (), options, sources),
            Where.RENDER,
            about=f"data of {topic.name}",
        ),
        jobs=tuple(topic.jobs(facts)),
        assessed=mismatch is None and topic.is_assessed(facts),
        fed=mismatch is None and topic.is_fed(facts),
        calculated=mismatch is None and topic.is_calculated(facts),
        notes=notes if mismatch is None or notes else (InputNote(Kind.OUTSIDE, mismatch),),
        last_resort=last_resort,
    )


def _last_resort(
    topic: Topic, derived: Any, outcomes: Sequence[RuleOutcome], options: Options
) -> Sequence[RuleOutcome]:
    """Return the outcomes of `Rule.last_resort`, or nothing if it finds nothing or another rule found something."""
    if any(outcome.findings for outcome in outcomes):
        return ()
    rules = [replace(r, judge=r.last_resort) for r in topic.rules if r.last_resort is not None]
    again = apply(rules, derived, topic.subjects(derived), options.thresholds, lambda *_: _NOTHING)
    found = {outcome.code: outcome for outcome in without(rules, again, options.choice)}
    if not any(outcome.findings for outcome in found.values()):
        return ()
    return [found.get(outcome.code, outcome) for outcome in outcomes]


_NOTHING: Final = Inconclusive(reason="the input does not contain enough data")


def _derive(topic: Topic, facts: Any, options: Options, faults: Faults) -> tuple[Any, Any]:
    """Return the facts and the derived input of the rules. Jobs whose input cannot be derived are left out of both."""
    jobs = tuple(topic.jobs(facts))

    def derive(some: Sequence[SelectableJob]) -> tuple[Any, Any]:
        keys = {job.key for job in some}
        part = facts if len(some) == len(jobs) else topic.select_jobs(facts, keys.__contains__)
        return part, topic.derive(part, options)

    return faults.run_skipping_failures(jobs, derive, Where.MEASURE, about=lambda job: job.label)[0]


def _job_key(subject: Any) -> JobKey | None:
    """Return the key of the job that a subject belongs to or is."""
    while subject is not None and not hasattr(subject, "key"):
        subject = getattr(subject, "job", None)
    return getattr(subject, "key", None)


def _outcomes(
    topic: Topic, facts: Any, derived: Any, options: Options, faults: Faults
) -> Sequence[RuleOutcome]:
    """Run every rule. Rules that had nothing to judge are marked as not assessed."""
    nothing = None if topic.is_assessed(facts) else topic.missing_input(facts)
    labels = {job.key: job.label for job in topic.jobs(facts)}

    def failed(rule: Rule, subject: Any, error: Exception) -> Inconclusive:
        key = None if rule.whole else _job_key(subject)
        label = "" if key is None else labels.get(key, "")
        faults.add(error, Where.RULE, about=f"{rule.code} on {label}" if label else rule.code)
        return Inconclusive(reason=f"{_BUG_KEPT} it from judging {label}".rstrip(), job=key)

    outcomes = apply(topic.rules, derived, topic.subjects(derived), options.thresholds, failed)
    reasons = [nothing or topic.why_not_assessed(rule, derived) for rule in topic.rules]
    outcomes = tuple(
        outcome if why is None else replace(outcome, not_assessed_reason=why)
        for outcome, why in zip(outcomes, reasons, strict=True)
    )
    return faults.run_or_default(
        lambda: topic.review_outcomes(outcomes, derived),
        outcomes,
        Where.RULE,
        about=f"doubts of {topic.name}",
    )


def time_range_mismatch(
    topic: Topic, facts: Any, processes: Iterable[Process], options: Options
) -> str | None:
    """Return why the requested time range misses the input, or None if it does not."""
    processes = tuple(processes)
    span = span_of(topic, facts, processes, options)
    if span is None:
        return None
    times = [us for p in processes for us in (p.first_us, p.last_us)]
    times += [topic.first_us(facts), topic.last_us(facts)]
    known = [us for us in times if us is not None]
    if span.low_us > span.high_us:
        return "the requested time range ends before it begins"
    if not known or span.overlaps(min(known), max(known)):
        return None
    return (
        "the requested time range contains none of the input, which covers"
        f" {iso(min(known))} to {iso(max(known))}"
    )


def select_facts(topic: Topic, facts: Any, processes: Iterable[Process], options: Options) -> Any:
    """Return the facts of the requested jobs and time range."""
    selection = options.selection
    if selection.job is not None:
        keys = {job.key for job in topic.jobs(facts) if selection.selects(job.id, job.name)}
        facts = topic.select_jobs(facts, keys.__contains__)
    span = span_of(topic, facts, processes, options)
    return facts if span is None else topic.select_span(facts, span)


def span_of(
    topic: Topic, facts: Any, processes: Iterable[Process], options: Options
) -> Span | None:
    """Return the time span to judge, or None for the whole input."""
    processes = tuple(processes)
    ends = [p.last_us for p in processes if p.last_us is not None]
    last = topic.last_us(facts)
    return Span.of(
        options.selection,
        end_us=max([*ends, *([] if last is None else [last])], default=0),
        zone=zone_of(processes, options.tz),
    )


def merge_data(parts: Iterable[Data]) -> Data:
    """Combine the tables of several topics. Table names are unique across topics."""
    tables = {
        name: table
        for part in parts
        for name in Data.__struct_fields__
        if (table := getattr(part, name)) is not None
    }
    return Data(**tables)
