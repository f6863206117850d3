"""The one flow: inputs → facts of each topic → rules → one report. `diagnose` is the function to read first.

| step | by whom |
|---|---|
| look: what of the inputs is read by the scan, and what a topic reads by itself | here |
| measure: one scan, one settling of clocks, one collect for the small rows of all topics | the topics' engine |
| judge: the span and the jobs that were asked for, every rule, case by case | here, with `rule.apply` |
| report: evidence, inputs, verdicts | `report.build` |

A topic is what a command adds to it: `flowdiag checkpoints` is the flow over one topic, and several
topics of one engine are the same flow, which reads and measures once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from flowdiag.analyses.engine.reading import ORDINARY, Resources, Say
from flowdiag.analyses.model.choice import without
from flowdiag.analyses.model.finding import Inconclusive, RuleOutcome, Understood
from flowdiag.analyses.model.keys import JobKey, Process
from flowdiag.analyses.model.names import with_names
from flowdiag.analyses.model.options import Options
from flowdiag.analyses.model.rule import Rule, apply, not_assessed
from flowdiag.analyses.model.span import Selection, Span, zone_of
from flowdiag.analyses.report.build import report_of, topic_of, unfed
from flowdiag.analyses.report.faults import Faults, faults_in, faults_of
from flowdiag.analyses.report.wire import Data, Fault, Report, Where, iso
from flowdiag.analyses.report.wire import Topic as WireTopic
from flowdiag.analyses.topics import ENGINES, EVERYTHING
from flowdiag.parsers.catalogue import plugins_left_out
from flowdiag.parsers.remarks import Kind, Remark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flowdiag.analyses.model.columns import Keeper, Rows
    from flowdiag.parsers.sources.discover import Discovery
    from flowdiag.parsers.sources.open import Source

Session = Callable[[], "SparkSession"]
"""Waits for Spark and returns its session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A job or an application that a selection may name.

    Args:
        key: as findings carry it.
        id: what people call it by, or None where nothing tells.
        name: of the job, or None.
        selectable: whether `--job` may mean it.
    """

    key: JobKey
    id: str | None
    name: str | None
    selectable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Aside:
    """Inputs that a topic reads by itself.

    Args:
        said: what they say.
        kinds: what kind each of them is, by index.
        unread: why one that is meant for the topic is not read, by index.
    """

    said: Any = None
    kinds: Mapping[int, str] = field(default_factory=dict)
    unread: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What came out of measuring.

    Args:
        facts: of each topic, by its name.
        splits: the `split` rows, for the list of inputs.
        processes: who wrote what.
        understood: kinds of records, whichever topic they are for.
        notes: warnings about single inputs, by index of the source.
        faults: what went wrong; a topic whose facts are missing is one of them.
    """

    facts: Mapping[str, Any]
    splits: Sequence[Mapping[str, Any]] = ()
    processes: Sequence[Process] = ()
    understood: Sequence[Understood] = ()
    notes: Sequence[tuple[int, Remark]] = ()
    faults: Sequence[Fault] = ()


class Engine(Protocol):
    """How the inputs of Flink, or of Spark, become facts."""

    name: str
    """As sources name whose they are: `flink` or `spark`."""

    def measure(
        self,
        topics: Sequence[Any],
        sources: Sequence[Source],
        session: Session,
        options: Options,
        *,
        asides: Mapping[str, Any],
        resources: Resources,
        say: Say,
    ) -> Measured:
        """Parse, settle, measure once for all topics: everything that happens before judging.

        Args:
            topics: of this engine.
            sources: what is to be scanned; others are marked `not-read`, and none may be left.
            session: asked only where something is to be scanned; small inputs are parsed before it is.
            options: of the user.
            asides: what topics read by themselves, by name.
            resources: with what to read and measure.
            say: told the name of each stage, for progress.
        """


class Topic:
    """What a command adds to the flow; a subclass per topic, one object of it.

    Facts are a topic's own type: `measure` of its engine makes them, and nobody else looks into them.
    """

    name: str
    """Of the command, and of the topic in reports."""
    engine: Engine
    rules: tuple[Rule, ...]

    def aside(self, sources: Sequence[Source], options: Options) -> Aside:
        """Read the inputs that no scan reads; most topics have none."""
        return Aside()

    def jobs(self, facts: Any) -> Iterable[Named]:
        """The jobs or applications, in order."""
        raise NotImplementedError

    def first_us(self, facts: Any) -> int | None:
        """When the input begins, as far as the facts tell."""
        return None

    def last_us(self, facts: Any) -> int | None:
        """When the input ends, as far as the facts tell."""
        raise NotImplementedError

    def of_jobs(self, facts: Any, wanted: Callable[[Any], bool]) -> Any:
        """The facts of some jobs; what joins (attempts, settings, workers) stays.

        Args:
            wanted: tells of a job's facts, as `jobs` names them, whether it is judged.
        """
        raise NotImplementedError

    def within(self, facts: Any, span: Span) -> Any:
        """The facts of a span of time; what joins (attempts, settings, workers) stays."""
        raise NotImplementedError

    def judged(self, facts: Any, options: Options) -> Any:
        """What the rules see: the facts, or what follows from them."""
        return facts

    def cases(self, facts: Any) -> Sequence[Any]:
        """What rules judge one by one: jobs, applications, processes."""
        return ()

    def doubted(self, outcomes: Sequence[RuleOutcome], facts: Any) -> Sequence[RuleOutcome]:
        """The outcomes, with less confidence where the inputs are damaged or tell too little."""
        return outcomes

    def lacking(self, rule: Rule, facts: Any) -> str | None:
        """What a rule would have judged, where the facts hold nothing of it: one clause.

        Args:
            rule: of the topic.
            facts: that were judged.
        """
        return None

    def data(
        self,
        facts: Any,
        outcomes: Sequence[RuleOutcome],
        options: Options,
        sources: Sequence[Source],
    ) -> Data:
        """The topic's own tables.

        Args:
            facts: that were judged; None: nothing could be read.
            outcomes: of the topic's rules.
            options: of the user.
            sources: everything that was found, by index.
        """
        raise NotImplementedError

    def tables(self, facts: Any, options: Options) -> Rows:
        """The lists of `data`, whole, for `--data-dir`; most topics of short lists have none.

        Args:
            facts: that were judged.
            options: of the user.
        """
        return ()

    wanted: str
    """What the topic judges, in a few words: a checkpoint event."""

    def assessed(self, facts: Any) -> bool:
        """Whether the input held anything that the topic judges."""
        raise NotImplementedError

    def calculated(self, facts: Any) -> bool:
        """Whether all that was judged is arithmetic about what somebody wants to configure."""
        return False

    def notes(self, measured: Any, facts: Any, options: Options) -> Iterable[Remark]:
        """Warnings about the input as a whole.

        Args:
            measured: everything that was measured.
            facts: the part of it that was judged.
            options: of the user.
        """
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """The inputs after a first look.

    Args:
        sources: with the kinds that topics gave to those that they read by themselves: for the report.
        to_scan: the same, those of the others marked as not read.
        asides: what topics read by themselves, by name.
        notes: warnings and errors about what was found.
        faults: what went wrong where they were looked at.
    """

    sources: tuple[Source, ...]
    to_scan: tuple[Source, ...]
    asides: Mapping[str, Any]
    notes: tuple[Remark, ...]
    faults: Sequence[Fault] = ()

    @property
    def needs_spark(self) -> bool:
        """Whether anything is left that only the scan reads."""
        return any(source.kind != "not-read" for source in self.to_scan)

    @property
    def empty(self) -> bool:
        """Whether nothing at all can be read."""
        return all(source.kind == "not-read" for source in self.sources)


def look(topics: Sequence[Topic], discovery: Discovery, options: Options) -> Looked:
    """Read what the scan does not: configurations and the like are small, and may be all there is.

    Args:
        topics: of one engine or of several.
        discovery: what `parsers.sources.discover` found.
        options: of the user.
    """
    faults = Faults(found=faults_of(discovery.faults, discovery.sources))

    def aside(topic: Topic) -> Aside:
        read = partial(topic.aside, discovery.sources, options)
        return faults.or_else(read, Aside(), Where.PARSER, about=topic.name)

    asides = {topic.name: aside(topic) for topic in topics}
    kinds = {index: kind for aside in asides.values() for index, kind in aside.kinds.items()}
    reasons = {index: why for aside in asides.values() for index, why in aside.unread.items()}
    return Looked(
        sources=tuple(
            replace(s, kind=kinds.get(s.index, s.kind), reason=reasons.get(s.index))
            if s.index in kinds or s.index in reasons
            else s
            for s in discovery.sources
        ),
        to_scan=tuple(
            replace(s, kind="not-read") if s.index in kinds else s for s in discovery.sources
        ),
        asides={name: aside.said for name, aside in asides.items()},
        notes=(
            *discovery.errors,
            *discovery.warnings,
            *(
                Remark(Kind.NOT_READ, f"none of its {len(indexes)} files is read", folder)
                for folder, indexes in discovery.unread
                if not any(index in kinds for index in indexes)
            ),
            *(Remark(Kind.PLUG_IN, text) for text in plugins_left_out()),
        ),
        faults=faults.found,
    )


def diagnose(
    topics: Sequence[Topic],
    inputs: Discovery | Looked,
    session: Session,
    options: Options | None = None,
    *,
    resources: Resources = ORDINARY,
    say: Say = lambda stage: None,
) -> Report:
    """Who is the culprit, and what proves it: one report about all topics.

    Args:
        topics: in the order of the report; those of one engine share one scan.
        inputs: what `parsers.sources.discover` found, or what `look` made of it.
        session: waits for Spark and returns its session; not asked where nothing needs it.
        options: of the user.
        resources: with what to read and measure.
        say: told the name of each stage, for progress.

    Raises:
        FlowdiagError: the selection fits nothing in the input, or Spark cannot start.
    """
    options = options or Options()
    looked = inputs if isinstance(inputs, Looked) else look(topics, inputs, options)
    if looked.empty and looked.sources:
        return _nothing_read(command_of(topics, options), topics, looked, options)
    measured = measure(topics, looked, session, options, resources=resources, say=say)
    return judged(topics, looked, measured, options, say=say, keep=resources.keep)


def command_of(topics: Sequence[Topic], options: Options) -> str:
    """The command that a report names."""
    one = len(topics) == 1 and not options.everything
    return topics[0].name if one else EVERYTHING


def judged(
    topics: Sequence[Topic],
    looked: Looked,
    measured: Measured,
    options: Options | None = None,
    *,
    say: Say = lambda stage: None,
    keep: Keeper | None = None,
) -> Report:
    """The second half of `diagnose`: a report on what was measured, which needs no Spark.

    Args:
        topics: those to judge; others may have been measured with them.
        looked: the inputs.
        measured: of these inputs.
        options: of the user.
        say: told the name of each stage, for progress.
        keep: gets the complete tables of what was judged.

    Raises:
        FlowdiagError: the selection fits nothing in the input, or a table cannot be written.
    """
    options = options or Options()
    say("judging")
    options.selection.require(
        (job.id, job.name)
        for topic in topics
        if topic.name in measured.facts
        for job in topic.jobs(measured.facts[topic.name])
        if job.selectable
    )
    faults = Faults(found=[*looked.faults, *measured.faults])
    faults.found += faults_in(measured.splits, looked.sources)
    parts = [_judged(topic, measured, options, looked.sources, faults, keep) for topic in topics]
    return report_of(
        command_of(topics, options),
        merged(part.data for part in parts),
        options,
        sources=looked.sources,
        splits=measured.splits,
        processes=measured.processes,
        outcomes=_together(parts),
        names={named.key: named.name for part in parts for named in part.jobs},
        assessed=any(part.assessed for part in parts),
        calculated=all(part.calculated for part in parts if part.assessed),
        understood=measured.understood,
        topics=_of_all(
            map(_came_of, parts),
            options,
        ),
        asides=measured.notes,
        faults=faults,
        notes=(*looked.notes, *dict.fromkeys(note for part in parts for note in part.notes)),
        say=say,
    )


def _came_of(part: Judged) -> WireTopic:
    return topic_of(
        part.name,
        part.outcomes,
        assessed=part.assessed,
        calculated=part.calculated,
        failed=part.failed,
    )


def _of_all(came: Iterable[WireTopic], options: Options) -> list[WireTopic]:
    """What came of each topic; where everything was asked for, also of those without any input."""
    by_name = {each.topic: each for each in came}
    return [
        by_name.get(name) or unfed(name) for name in (ENGINES if options.everything else by_name)
    ]


def _together(parts: Sequence[Judged]) -> list[RuleOutcome]:
    """The outcomes of all topics; one that had nothing to judge does not doubt what another one assessed."""
    assessed = any(part.assessed for part in parts)
    return [
        outcome if part.assessed or not assessed else replace(outcome, core=False)
        for part in parts
        for outcome in part.outcomes
    ]


def _nothing_read(
    command: str, topics: Sequence[Topic], looked: Looked, options: Options
) -> Report:
    """The report of inputs none of which can be read; it still says why, for each."""
    outcomes = [_unjudged(topic, options) for topic in topics]
    return report_of(
        command,
        merged(topic.data(None, (), options, looked.sources) for topic in topics),
        options,
        sources=looked.sources,
        outcomes=[outcome for each in outcomes for outcome in each],
        assessed=False,
        topics=_of_all(
            (
                topic_of(topic.name, each, assessed=False, calculated=False)
                for topic, each in zip(topics, outcomes, strict=True)
            ),
            options,
        ),
        notes=looked.notes,
        faults=Faults(found=list(looked.faults)),
    )


def _unjudged(topic: Topic, options: Options) -> Sequence[RuleOutcome]:
    outcomes = [not_assessed(rule, f"no input holds {topic.wanted}") for rule in topic.rules]
    return without(topic.rules, outcomes, options.choice)


def measure(
    topics: Sequence[Topic],
    inputs: Discovery | Looked,
    session: Session,
    options: Options | None = None,
    *,
    resources: Resources = ORDINARY,
    say: Say = lambda stage: None,
) -> Measured:
    """Everything that happens before judging: the facts of each topic. Arguments as of `diagnose`."""
    options = options or Options()
    looked = inputs if isinstance(inputs, Looked) else look(topics, inputs, options)
    engines = {topic.engine.name: topic.engine for topic in topics}
    faults = Faults(resources.explained)
    parts = []
    for name, engine in engines.items():
        # What all topics of an engine share may fail: then those of the other one are left.
        with faults.kept(Where.MEASURE):
            parts.append(
                engine.measure(
                    [topic for topic in topics if topic.engine.name == name],
                    looked.to_scan if len(engines) == 1 else wanted_by(name, looked.to_scan),
                    session,
                    options,
                    asides=looked.asides,
                    resources=resources,
                    say=say,
                )
            )
    if faults.found or len(parts) != 1:
        parts.append(Measured(facts={}, faults=faults.found))
    return parts[0] if len(parts) == 1 else _joined(parts)


def wanted_by(engine: str, sources: Iterable[Source]) -> tuple[Source, ...]:
    """The sources as one of several engines scans them: those of the others are not read."""
    return tuple(
        source if source.engine == engine else replace(source, kind="not-read")
        for source in sources
    )


def _joined(parts: Sequence[Measured]) -> Measured:
    """What several engines measured of the inputs that are theirs."""
    return Measured(
        facts={name: facts for part in parts for name, facts in part.facts.items()},
        splits=[row for part in parts for row in part.splits],
        processes=[process for part in parts for process in part.processes],
        understood=[kind for part in parts for kind in part.understood],
        notes=[note for part in parts for note in part.notes],
        faults=[fault for part in parts for fault in part.faults],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What came of one topic."""

    name: str
    outcomes: Sequence[RuleOutcome]
    data: Data
    jobs: tuple[Named, ...]
    assessed: bool
    calculated: bool
    notes: tuple[Remark, ...]
    failed: bool = False


def _judged(
    topic: Topic,
    measured: Measured,
    options: Options,
    sources: Sequence[Source],
    faults: Faults,
    keep: Keeper | None,
) -> Judged:
    """What came of a topic, whatever goes wrong with it."""
    before = len(faults.found)
    if topic.name in measured.facts:
        with faults.kept(Where.MEASURE, topic.name):
            part = judge(topic, measured, options, sources, faults, keep)
            return replace(part, failed=len(faults.found) > before)
    why = Inconclusive(reason=f"{_IN_THE_WAY} the {topic.name} from being measured")
    unjudged = [not_assessed(rule, why.reason) for rule in topic.rules]
    return Judged(
        name=topic.name,
        outcomes=without(
            topic.rules,
            [replace(outcome, inconclusive=(why,)) for outcome in unjudged],
            options.choice,
        ),
        data=topic.data(None, (), options, sources),
        jobs=(),
        assessed=False,
        calculated=False,
        notes=(),
        failed=True,
    )


# How every reason begins that a fault is: `errors` says what it was.
_IN_THE_WAY: Final = "a bug in flowdiag kept"


def judge(
    topic: Topic,
    measured: Measured,
    options: Options,
    sources: Sequence[Source] = (),
    faults: Faults | None = None,
    keep: Keeper | None = None,
) -> Judged:
    """Let a topic's rules judge what was selected of its facts.

    Args:
        topic: whose rules judge.
        measured: with the topic's facts.
        options: of the user.
        sources: everything that was found, by index.
        faults: takes what goes wrong with one rule or job.
        keep: gets the complete tables.
    """
    faults = faults or Faults()
    everything = measured.facts[topic.name]
    if options.privacy.redact:
        everything = with_names(everything)
    facts = selected(topic, everything, measured.processes, options)
    facts, seen = _seen(topic, facts, options, faults)
    elsewhere = outside(topic, everything, measured.processes, options)
    if elsewhere is not None:
        outcomes: Sequence[RuleOutcome] = [not_assessed(rule, elsewhere) for rule in topic.rules]
    else:
        outcomes = _outcomes(topic, facts, seen, options, faults)
    outcomes = without(topic.rules, outcomes, options.choice)
    if keep is not None:
        for name, rows in topic.tables(seen, options):
            keep.rows(name, rows)
    notes: tuple[Remark, ...] = faults.or_else(
        lambda: tuple(topic.notes(everything, facts, options)),
        (),
        Where.RULE,
        about=f"warnings of {topic.name}",
    )
    return Judged(
        name=topic.name,
        outcomes=outcomes,
        data=faults.or_else(
            lambda: topic.data(seen, outcomes, options, sources),
            topic.data(None, (), options, sources),
            Where.RENDER,
            about=f"data of {topic.name}",
        ),
        jobs=tuple(topic.jobs(facts)),
        assessed=elsewhere is None and topic.assessed(facts),
        calculated=elsewhere is None and topic.calculated(facts),
        notes=notes if elsewhere is None or notes else (Remark(Kind.OUTSIDE, elsewhere),),
    )


def _seen(topic: Topic, facts: Any, options: Options, faults: Faults) -> tuple[Any, Any]:
    """The facts, and what the rules see of them; without the jobs of which they cannot be had."""
    jobs = tuple(topic.jobs(facts))

    def of_some(some: Sequence[Named]) -> tuple[Any, Any]:
        keys = {job.key for job in some}
        part = facts if len(some) == len(jobs) else topic.of_jobs(facts, lambda key: key in keys)
        return part, topic.judged(part, options)

    return faults.spared(jobs, of_some, Where.MEASURE, about=_called)[0]


def _called(job: Named) -> str:
    return job.name or job.id or job.key.job_id


def _key_of(case: Any) -> JobKey | None:
    """The job of a case: cases are jobs, or have one."""
    while case is not None and not hasattr(case, "key"):
        case = getattr(case, "job", None)
    return getattr(case, "key", None)


def _outcomes(
    topic: Topic, facts: Any, seen: Any, options: Options, faults: Faults
) -> Sequence[RuleOutcome]:
    """What every rule says; what found nothing because there was nothing says so."""
    nothing = None if topic.assessed(facts) else f"no input holds {topic.wanted}"
    named = {job.key: job for job in topic.jobs(facts)}

    def failed(rule: Rule, case: Any, error: Exception) -> Inconclusive:
        key = None if rule.whole else _key_of(case)
        whom = _called(named[key]) if key in named else ""
        faults.add(error, Where.RULE, about=f"{rule.code} on {whom}" if whom else rule.code)
        return Inconclusive(reason=f"{_IN_THE_WAY} it from judging {whom}".rstrip(), job=key)

    judged = apply(topic.rules, seen, topic.cases(seen), options.thresholds, failed)
    lacking = [nothing or topic.lacking(rule, seen) for rule in topic.rules]
    outcomes = [
        outcome if why is None else replace(outcome, lacking=why)
        for outcome, why in zip(judged, lacking, strict=True)
    ]
    about = f"doubts of {topic.name}"
    return faults.or_else(lambda: topic.doubted(outcomes, seen), outcomes, Where.RULE, about=about)


def outside(topic: Topic, facts: Any, processes: Iterable[Process], options: Options) -> str | None:
    """Why nothing is judged where the time that was asked for lies beside the input; else None."""
    processes = tuple(processes)
    span = span_of(topic, facts, processes, options)
    if span is None:
        return None
    times = [us for p in processes for us in (p.first_us, p.last_us)]
    times += [topic.first_us(facts), topic.last_us(facts)]
    known = [us for us in times if us is not None]
    if span.low_us > span.high_us:
        return "the time asked for ends before it begins"
    if not known or span.meets(min(known), max(known)):
        return None
    return (
        "nothing of the input lies in the time asked for: it is from"
        f" {iso(min(known))} to {iso(max(known))}"
    )


def selected(topic: Topic, facts: Any, processes: Iterable[Process], options: Options) -> Any:
    """The facts of the jobs and of the span that were asked for."""
    selection = options.selection
    if selection.job is not None:
        wanted = {job.key for job in topic.jobs(facts) if _wants(selection, job)}
        facts = topic.of_jobs(facts, lambda key: key in wanted)
    span = span_of(topic, facts, processes, options)
    return facts if span is None else topic.within(facts, span)


def _wants(selection: Selection, job: Named) -> bool:
    return selection.wants(job.id, job.name)


def span_of(
    topic: Topic, facts: Any, processes: Iterable[Process], options: Options
) -> Span | None:
    """The time that is judged; None: all of it."""
    processes = tuple(processes)
    ends = [p.last_us for p in processes if p.last_us is not None]
    last = topic.last_us(facts)
    return Span.of(
        options.selection,
        end_us=max([*ends, *([] if last is None else [last])], default=0),
        zone=zone_of(processes, options.tz),
    )


def merged(parts: Iterable[Data]) -> Data:
    """The tables of several topics as one; no two topics have a table of the same name."""
    tables = {
        name: table
        for part in parts
        for name in Data.__struct_fields__
        if (table := getattr(part, name)) is not None
    }
    return Data(**tables)
