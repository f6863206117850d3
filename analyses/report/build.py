"""From outcomes to a report: the last step that all commands have in common."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from flowdiag.analyses.flink.clocks.settle import DRIFT_MS
from flowdiag.analyses.model import finding as f
from flowdiag.analyses.model.finding import RuleOutcome
from flowdiag.analyses.model.keys import JobKey, Process
from flowdiag.analyses.model.options import Options
from flowdiag.analyses.report.advice import action_of, each_once, first_action
from flowdiag.analyses.report.evidence import Key, Located
from flowdiag.analyses.report.faults import Faults
from flowdiag.analyses.report.fingerprints import fingerprints
from flowdiag.analyses.report.fitting import typed
from flowdiag.analyses.report.privacy import LOCAL_USE, Privacy
from flowdiag.analyses.report.redact import clean, printable
from flowdiag.analyses.report.stories import stories_of
from flowdiag.analyses.report.version import tool_version
from flowdiag.analyses.report.wire import (
    DOCUMENTS,
    SCHEMA,
    Culprit,
    Data,
    Evidence,
    Fault,
    Finding,
    FirstAction,
    Input,
    Measurement,
    Note,
    Report,
    Rule,
    Story,
    Subject,
    Suggestion,
    Summary,
    Tool,
    Topic,
    TopicStatus,
    Understood,
    Vote,
    Where,
    iso,
    redacted,
    without_credentials,
)
from flowdiag.analyses.stories import Story as Told
from flowdiag.analyses.stories import tell
from flowdiag.analyses.topics import ENGINES, EVERYTHING
from flowdiag.parsers.notes import InputNote

if TYPE_CHECKING:
    from flowdiag.parsers.sources.open import Source


def report_of(
    command: str,
    data: Data,
    options: Options,
    *,
    sources: Sequence[Source],
    splits: Iterable[Mapping[str, Any]] = (),
    processes: Sequence[Process] = (),
    outcomes: Sequence[RuleOutcome] = (),
    names: Mapping[JobKey, str | None] | None = None,
    assessed: bool,
    calculated: bool = False,
    understood: Sequence[f.Understood] = (),
    topics: Sequence[Topic] = (),
    notes: Iterable[InputNote] = (),
    input_notes: Iterable[tuple[int, InputNote]] = (),
    faults: Faults | None = None,
    progress: Callable[[str], None] = lambda stage: None,
) -> Report:
    """Cite the evidence, describe the inputs, put the document together.

    Args:
        command: without `flowdiag`.
        data, options: the command's own tables; of the user.
        sources, splits: everything that was found, also what is not read; what was read of each.
        processes: who wrote what, after the clocks were settled.
        outcomes, names: of all rules of the command; of the jobs that findings are about.
        assessed: whether the input held anything that the command judges.
        calculated: whether everything is arithmetic about what somebody wants to configure.
        understood, topics: kinds of records, whichever command they are for; what came of each topic.
        notes, input_notes: warnings about the input as a whole, and about single inputs, by index.
        faults: what went wrong before; takes what does here.
        progress: called with the name of the stage.
    """
    from flowdiag.analyses.report.inputs import describe_inputs

    untold, named = _untold(outcomes, assessed=assessed), options.named
    faults = faults or Faults()
    progress("citing the evidence")
    examples = understood if untold else ()
    located, problems = _quoted(faults, outcomes, examples, sources, processes)
    inputs = describe_inputs(sources, splits, processes, excerpts=options.privacy.excerpts)
    return build_report(
        command=command,
        inputs=inputs,
        outcomes=outcomes,
        names=names or {},
        data=data,
        located=located,
        assessed=assessed,
        calculated=calculated,
        understood=understood,
        suggestions=_suggestions(faults, command, sources, named) if untold else (),
        doubts=[f"{name}: nothing in it was understood" for name in unrecognised(inputs, named)],
        topics=topics,
        warnings=_said(faults, inputs, processes, notes, [*input_notes, *problems]),
        errors=faults.found,
        paths=typed(() if options.privacy.redact else named),
        privacy=options.privacy,
    )


_Quoted = tuple[dict[Key, Located], list[tuple[int, InputNote]]]


def _quoted(
    faults: Faults,
    outcomes: Iterable[RuleOutcome],
    examples: Iterable[f.Understood],
    sources: Sequence[Source],
    processes: Iterable[Process],
) -> _Quoted:
    nothing: _Quoted = {}, []
    locate = partial(_located, outcomes, examples, sources, processes)
    return faults.run_or_default(locate, nothing, about="quotations")


def _suggestions(
    faults: Faults, command: str, sources: Sequence[Source], named: Sequence[str]
) -> list[Suggestion]:
    return faults.run_or_default(
        partial(_commands, command, sources, named), [], about="suggestions"
    )


def _said(
    faults: Faults,
    inputs: Sequence[Input],
    processes: Sequence[Process],
    notes: Iterable[InputNote],
    input_notes: Iterable[tuple[int, InputNote]],
) -> list[Note]:
    return faults.run_or_default(
        partial(_warnings, inputs, processes, notes, input_notes), [], about="warnings"
    )


def _located(
    outcomes: Iterable[RuleOutcome],
    examples: Iterable[f.Understood],
    sources: Sequence[Source],
    processes: Iterable[Process],
) -> _Quoted:
    """The records that findings cite, and an example of each kind where that is all there is to show."""
    from flowdiag.analyses.report.evidence import locate
    from flowdiag.parsers.sources.open import open_source

    cited = [item for outcome in outcomes for found in outcome.findings for item in found.shown]
    cited += [f.Evidence(*kind.ref) for kind in examples if kind.ref is not None]
    return locate(
        cited,
        lambda source: open_source(sources[source]),
        clocks_ahead(processes),
        {source: sources[source].kind for source in {item.source for item in cited}},
    )


def _commands(command: str, sources: Sequence[Source], named: Sequence[str]) -> list[Suggestion]:
    """The commands that fit these inputs better."""
    from flowdiag.analyses.report.fitting import suggested

    return [
        Suggestion(text=text, command=line, wants=None)
        for text, line in suggested(command, sources, named)
    ]


def _warnings(
    inputs: Sequence[Input],
    processes: Sequence[Process],
    notes: Iterable[InputNote],
    input_notes: Iterable[tuple[int, InputNote]],
) -> list[Note]:
    """Warnings about the input as a whole, then about single inputs, by index."""
    from flowdiag.analyses.report.inputs import input_problems, missing_parts, unknown_days

    return [
        *[_note(remark, remark.source) for remark in notes],
        *[*input_problems(inputs), *missing_parts(inputs), *unknown_days(inputs, processes)],
        *[_note(remark, inputs[source].source) for source, remark in input_notes],
    ]


def _note(remark: InputNote, source: str | None) -> Note:
    return Note(
        kind=remark.kind,
        text=clean(remark.text),
        source=printable(source) if source is not None else None,
        since=iso(remark.first_us),
        until=iso(remark.last_us),
    )


def _untold(outcomes: Sequence[RuleOutcome], *, assessed: bool) -> bool:
    """Whether the report has to say what it did understand, since it says nothing else that counts."""
    serious = any(
        found.severity is not f.Severity.INFO for outcome in outcomes for found in outcome.findings
    )
    unsure = any(o.core and o.inconclusive for o in outcomes if o.ignored is None)
    # Beside the time that was asked for no other command finds more.
    elsewhere = any(
        (o.not_assessed_reason or "").startswith("the requested time range") for o in outcomes
    )
    return not serious and not elsewhere and (unsure or not assessed)


# Kinds that are read aside and counted as a whole, not by records.
_WHOLE: Final = ("configuration", "kubectl", "gc-log")


def unrecognised(inputs: Sequence[Input], named: Iterable[str]) -> list[str]:
    """What a user named and nothing of which was recognised; an empty file says nothing, and is none.

    >>> unrecognised([], ["logs/"])
    []
    """
    known = [item.source for item in inputs if item.recognised or item.kind in _WHOLE]
    filled = [item.source for item in inputs if item.bytes]

    def inside(source: str, name: str) -> bool:
        return source == name or source.startswith((name.rstrip("/") + "/", name + "!"))

    return [
        name
        for name in dict.fromkeys(named)
        if any(inside(source, name) for source in filled)
        and not any(inside(source, name) for source in known)
    ]


def clocks_ahead(processes: Iterable[Process]) -> dict[int, int]:
    """By source what its clock is ahead of UTC, in milliseconds, where one number holds for all of it.

    A drift counts only where the transitions of tasks gave the clock, as in `settle`.
    """
    found: dict[int, set[int | None]] = {}
    for one in processes:
        ahead = None if one.zone_changes else one.zone_offset_ms
        drift = one.clock_offset_ms or 0
        if ahead is not None and one.zone_from == "transitions" and abs(drift) >= DRIFT_MS:
            ahead += drift
        found.setdefault(one.source, set()).add(ahead)
    return {
        source: ahead
        for source, values in found.items()
        if len(values) == 1 and (ahead := next(iter(values))) is not None
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What the findings of one job, or of all, come to."""

    verdict: f.Verdict
    cause: str | None
    culprits: tuple[Culprit, ...]


def build_report(
    *,
    command: str,
    inputs: Sequence[Input],
    outcomes: Sequence[f.RuleOutcome],
    names: Mapping[JobKey, str | None],
    data: Data,
    located: Mapping[Key, Located],
    assessed: bool,
    calculated: bool = False,
    doubts: Sequence[str] = (),
    understood: Sequence[f.Understood] = (),
    suggestions: Sequence[Suggestion] = (),
    topics: Sequence[Topic] = (),
    warnings: Sequence[Note] = (),
    errors: Sequence[Fault] = (),
    paths: str = "PATH…",
    privacy: Privacy = LOCAL_USE,
) -> Report:
    """Put everything that a run found into one document.

    Args:
        command, inputs: without `flowdiag`; in the order of the sources, into which evidence has an index.
        outcomes, names, data: what each rule said; the name of each job; the command's own tables.
        located: lines and excerpts of the cited records (`evidence.locate`).
        assessed, calculated: whether an input held what the command judges; whether all is arithmetic.
        doubts: why it cannot be called healthy, though no rule found anything: what was not read.
        understood, suggestions: kinds of records; what would tell more, where the verdict needs it.
        topics, warnings, errors: what came of each topic; of the inputs; what went wrong, so that nothing is healthy.
        paths, privacy: the inputs, as one types them; what log text to keep.
    """
    ordered = sorted(_pairs(outcomes), key=_report_order)
    marks = fingerprints(ordered, names)
    faults = Faults(found=list(errors))
    told, stories = _narrated(ordered, marks, faults)
    findings = _findings(ordered, marks, inputs, located, privacy, faults)
    first = _first(told, command, paths, faults)
    report = Report(
        schema=SCHEMA,
        tool=Tool(version=tool_version(), command=command),
        inputs=list(inputs),
        summary=_summary(
            outcomes,
            [*doubts, *(fault.message for fault in faults.found)],
            told if command == EVERYTHING else None,
            assessed=assessed,
            calculated=calculated,
            stories=stories,
            understood=[_understood(kind, located, privacy) for kind in understood],
            suggestions=suggestions,
            first=first,
        ),
        topics=list(topics),
        rules=list(map(_rule, outcomes)),
        findings=findings,
        data=data,
        warnings=list(warnings),
        errors=faults.found,
    )
    return _private(report, privacy)


def _private(report: Report, privacy: Privacy) -> Report:
    clean_report = without_credentials(report)
    return redacted(clean_report) if privacy.redact else clean_report


def _narrated(
    ordered: Sequence[Pair], marks: Sequence[str], faults: Faults
) -> tuple[list[Told], list[Story]]:
    """What belongs together, inside and in the report."""
    told: list[Told] = faults.run_or_default(partial(_told, ordered), [], about="stories")
    stories: list[Story] = faults.run_or_default(
        partial(_stories, told, ordered, marks), [], about="stories"
    )
    return told, stories


def _first(told: Sequence[Told], command: str, paths: str, faults: Faults) -> FirstAction | None:
    return faults.run_or_default(
        lambda: first_action(_nearest(told, command), command, paths), None, about="the first step"
    )


def _told(pairs: Iterable[Pair]) -> list[Told]:
    """What belongs together; of a culprit that moved the latest first."""
    ranked = _ranked(pairs)
    places = {id(finding): place for place, (_, finding) in enumerate(ranked)}
    stories = tell(ranked, lambda pair: places[id(pair[1])])
    return _latest_first(stories, lambda story: story.culprit)


def _stories(told: Sequence[Told], ordered: Sequence[Pair], marks: Sequence[str]) -> list[Story]:
    by_id = {id(finding): mark for (_, finding), mark in zip(ordered, marks, strict=True)}
    return stories_of(told, by_id, subject_of, _culprit)


def _summary(
    outcomes: Sequence[f.RuleOutcome],
    doubts: Sequence[str],
    told: Sequence[Told] | None,
    *,
    assessed: bool,
    calculated: bool,
    stories: list[Story],
    understood: list[Understood],
    suggestions: Sequence[Suggestion],
    first: FirstAction | None,
) -> Summary:
    """The answer: healthy only what was assessed, runs, and leaves no doubt.

    With what is told the cause is that of the first one, and each has one culprit.
    """
    whole = judge(outcomes)
    if told is not None:
        accused = [story.culprit for story in told if story.culprit is not None]
        whole = replace(
            whole,
            cause=next((story.cause for story in told if story.cause), None),
            culprits=_culprits(accused),
        )
    reasons = [*doubts, *_reasons(outcomes, assessed=assessed)]
    verdict = _settled(whole.verdict, doubted=bool(doubts) or not assessed, calculated=calculated)
    inconclusive = verdict is f.Verdict.INCONCLUSIVE
    lacking = [
        outcome.not_assessed_reason
        for outcome in outcomes
        if outcome.not_assessed_reason and not assessed
    ]
    beside = [*doubts, *_beside_findings(outcomes), *lacking]
    return Summary(
        verdict=verdict,
        first_action=first,
        cause=whole.cause,
        culprits=list(whole.culprits),
        assessed=assessed or any(outcome.findings for outcome in outcomes),
        reason=clean(reasons[0]) if inconclusive and reasons else None,
        stories=stories,
        not_assessed=clean(beside[0]) if beside and not inconclusive else None,
        understood=understood,
        suggestions=[*suggestions, *(_wanted(outcomes) if inconclusive else ())],
    )


def _settled(verdict: f.Verdict, *, doubted: bool, calculated: bool) -> f.Verdict:
    """The verdict on the findings, where nothing was found as much as can be said of that."""
    if verdict is not f.Verdict.HEALTHY:
        return verdict
    if doubted:
        return f.Verdict.INCONCLUSIVE
    return f.Verdict.CALCULATED if calculated else verdict


def _reasons(outcomes: Sequence[f.RuleOutcome], *, assessed: bool) -> list[str]:
    """Why rules cannot tell, what the core rules say first."""
    heard = [outcome for outcome in outcomes if outcome.ignored is None]
    untold = [item.reason for o in heard if o.core for item in o.inconclusive]
    lacking = [outcome.not_assessed_reason for outcome in outcomes if outcome.not_assessed_reason]
    ignored = [item.reason for o in outcomes if o.ignored for item in o.inconclusive]
    return [*untold, *(() if assessed else lacking), *ignored]


def topic_of(
    name: str,
    outcomes: Sequence[f.RuleOutcome],
    *,
    assessed: bool,
    calculated: bool,
    failed: bool = False,
) -> Topic:
    """What came of one topic.

    Args:
        name: of the topic.
        outcomes: of its rules.
        assessed: whether the input held anything that it judges.
        calculated: whether everything is arithmetic about what somebody wants to configure.
        failed: whether a fault kept anything of it from being judged.
    """
    reasons = _reasons(outcomes, assessed=assessed)
    if failed:
        reasons = [item.reason for o in outcomes for item in o.inconclusive] or reasons
    nothing = not failed and not assessed and not any(outcome.findings for outcome in outcomes)
    doubted = failed or not assessed
    verdict = _settled(judge(outcomes).verdict, doubted=doubted, calculated=calculated)
    unsure = nothing or verdict is f.Verdict.INCONCLUSIVE
    status = TopicStatus.INCONCLUSIVE if unsure else TopicStatus.ASSESSED
    return Topic(
        topic=name,
        status=TopicStatus.NOTHING if nothing else status,
        verdict=f.Verdict.INCONCLUSIVE if nothing else verdict,
        reason=clean(reasons[0]) if unsure and reasons else None,
    )


def topic_without_input(name: str) -> Topic:
    """What came of a topic that none of the inputs is for."""
    return Topic(
        topic=name,
        status=TopicStatus.NOTHING,
        verdict=f.Verdict.INCONCLUSIVE,
        reason=f"no input is one of {ENGINES[name].capitalize()}",
    )


def _beside_findings(outcomes: Sequence[f.RuleOutcome]) -> list[str]:
    """What core rules cannot tell of other jobs than those that are known to be sick.

    Of a sick job they say that it is not proven to be well, which the findings tell better.
    """
    sick = {finding.job for _, finding in _serious(_pairs(outcomes))}
    return [
        item.reason
        for outcome in outcomes
        if outcome.core
        for item in outcome.inconclusive
        if item.job not in sick and not (sick and item.job is None)
    ]


def _understood(kind: f.Understood, located: Mapping[Key, Located], privacy: Privacy) -> Understood:
    place = located.get((*kind.ref, None)) if kind.ref is not None else None
    return Understood(
        kind=kind.kind,
        count=kind.count,
        first=iso(kind.first_us),
        last=iso(kind.last_us),
        example=place.excerpt if place is not None and privacy.excerpts else None,
    )


def _wanted(outcomes: Iterable[f.RuleOutcome]) -> list[Suggestion]:
    """The files that rules miss, each once; core rules first."""
    missing = [
        item
        for outcome in sorted(outcomes, key=lambda outcome: not outcome.core)
        for item in outcome.inconclusive
        if item.remedy
    ]
    return [
        Suggestion(text=clean(reason), command=None, wants=clean(wants))
        for wants, reason in dict.fromkeys((item.remedy or "", item.reason) for item in missing)
    ][:3]


def failed_report(command: str, error: Fault) -> Report:
    """The document of a run that diagnosed nothing, so that `| jq` always has something to read."""
    return build_report(
        command=command,
        inputs=(),
        outcomes=(),
        names={},
        data=Data(),
        located={},
        assessed=False,
        errors=[error],
    )


def judge(outcomes: Iterable[f.RuleOutcome], job: JobKey | None = None) -> Judgement:
    """Verdict, cause and culprits, over all jobs or (with `job`) over one.

    Failing is an ongoing critical finding, degraded any other at warning or above. A core rule
    that could not tell makes the rest inconclusive: not assessed is never healthy.
    """
    outcomes = tuple(outcomes)
    pairs = [(o, x) for o, x in _pairs(outcomes) if job is None or x.job is None or x.job == job]
    return _judgement(pairs, any(_cannot_tell(outcome, job) for outcome in outcomes))


def judge_each(
    outcomes: Iterable[f.RuleOutcome], jobs: Iterable[JobKey]
) -> dict[JobKey, Judgement]:
    """`judge` for each of many jobs, with one look at what was found."""
    outcomes = tuple(outcomes)
    found: defaultdict[JobKey | None, list[tuple[int, Pair]]] = defaultdict(list)
    for number, pair in enumerate(_pairs(outcomes)):
        found[pair[1].job].append((number, pair))
    untold = {item.job for o in outcomes if o.core for item in o.inconclusive}
    return {
        job: _judgement(
            [pair for _, pair in sorted([*found[job], *found[None]], key=itemgetter(0))],
            job in untold or None in untold,
        )
        for job in jobs
    }


def _judgement(pairs: Iterable[Pair], cannot_tell: bool) -> Judgement:
    ranked = _ranked(pairs)
    if any(x.severity is f.Severity.CRITICAL and x.state is f.State.ONGOING for _, x in ranked):
        verdict = f.Verdict.FAILING
    elif ranked:
        verdict = f.Verdict.DEGRADED
    elif cannot_tell:
        verdict = f.Verdict.INCONCLUSIVE
    else:
        verdict = f.Verdict.HEALTHY
    return Judgement(
        verdict=verdict,
        cause=next((x.cause for _, x in ranked if x.cause), None),
        culprits=_culprits(ranked),
    )


def _ranked(pairs: Iterable[Pair]) -> list[Pair]:
    """The findings that count, the nearest to the root first; of a culprit that moved the latest first.

    Of two who are accused at once, neither because of the other, who cost more checkpoints stands first.
    """
    ranked = _latest_first(sorted(_serious(pairs), key=_culprit_order), lambda pair: pair)
    places = {id(finding): place for place, (_, finding) in enumerate(ranked)}
    stories = tell(ranked, lambda pair: places[id(pair[1])])
    harm = {id(story.root[1]): story.checkpoints for story in stories if story.root[1].why}
    groups: defaultdict[tuple[Any, ...], list[int]] = defaultdict(list)
    for place, (_, x) in enumerate(ranked):
        if harm.get(id(x)) and x.job is not None and not _over(x):
            groups[x.job, x.severity, x.confidence].append(place)
    result = [*ranked]
    for group in groups.values():
        most = sorted((ranked[place] for place in group), key=lambda pair: -harm[id(pair[1])])
        for place, pair in zip(group, most, strict=True):
            result[place] = pair
    return result


Item = TypeVar("Item")


def _latest_first(items: Sequence[Item], accused: Callable[[Item], Pair | None]) -> list[Item]:
    """The same order, but where one culprit was followed by another the latest stands first.

    That is so where one rule accuses several of a kind, in one job and task, of the same. A weak vote for another one
    proves no move.

    Args:
        items: findings or stories, ranked.
        accused: who is accused in one of them; None: nobody.
    """
    moves: defaultdict[tuple[Any, ...], list[tuple[int, f.Finding]]] = defaultdict(list)
    for place, item in enumerate(items):
        outcome, x = accused(item) or (None, None)
        if outcome and x and x.why and x.last_us and x.confidence is not f.Confidence.LOW:
            about = x.subject
            key = (outcome.code, x.job, x.cause, about.kind, about.task, about.query)
            moves[key].append((place, x))
    ordered = list(items)
    for followed in moves.values():
        latest = sorted(followed, key=lambda one: (_over(one[1]), -(one[1].last_us or 0)))
        for (place, _), (other, _) in zip(followed, latest, strict=True):
            ordered[place] = items[other]
    return ordered


def _over(finding: f.Finding) -> bool:
    return finding.state is not f.State.ONGOING


def _cannot_tell(outcome: f.RuleOutcome, job: JobKey | None) -> bool:
    return outcome.core and any(
        job is None or item.job is None or item.job == job for item in outcome.inconclusive
    )


Pair = tuple[f.RuleOutcome, f.Finding]


def _pairs(outcomes: Iterable[f.RuleOutcome]) -> list[Pair]:
    return [(outcome, finding) for outcome in outcomes for finding in outcome.findings]


def _serious(pairs: Iterable[Pair]) -> list[Pair]:
    return [(o, x) for o, x in pairs if x.severity is not f.Severity.INFO]


def _nearest(told: Iterable[Told], command: str) -> list[Pair]:
    """The findings that count, the nearest to the root first; with several topics story by story."""
    pairs = [pair for story in told for pair in story.pairs]
    return pairs if command == EVERYTHING else _ranked(pairs)


def _culprits(ranked: Iterable[Pair]) -> tuple[Culprit, ...]:
    """The accused, nearest to the root first, each once."""
    culprits: dict[Subject, Culprit] = {}
    for outcome, finding in ranked:
        subject = subject_of(finding.subject)
        if finding.why:
            culprits.setdefault(
                subject,
                _culprit(outcome, finding),
            )
    return tuple(culprits.values())


def _culprit(outcome: f.RuleOutcome, finding: f.Finding) -> Culprit:
    subject = subject_of(finding.subject)
    return Culprit(
        subject=subject,
        job_id=subject.job_id,
        job_name=subject.job_name,
        code=outcome.code,
        cause=finding.cause,
        why=clean(finding.why or ""),
        confidence=finding.confidence,
        state=finding.state,
        first_seen=iso(finding.first_us),
        last_seen=iso(finding.last_us),
    )


def _culprit_order(pair: Pair) -> tuple[Any, ...]:
    """What still lasts before what is over; then root before consequence; then how bad, how sure.

    A weak vote outranks nobody who is proven, however bad it would be.
    """
    outcome, x = pair
    return (
        _over(x),
        x.rank,
        x.confidence is f.Confidence.LOW,
        -x.severity.weight,
        -x.confidence.weight,
        x.cause is None,
        -x.count,
        *_tie(outcome, x),
    )


def _report_order(pair: Pair) -> tuple[Any, ...]:
    outcome, x = pair
    return (-x.severity.weight, _over(x), x.rank, *_tie(outcome, x))


def _tie(outcome: f.RuleOutcome, finding: f.Finding) -> tuple[Any, ...]:
    return (
        outcome.code,
        finding.job or ("", ""),
        finding.first_us if finding.first_us is not None else -1,
        msgspec.json.encode(subject_of(finding.subject)),
        finding.title,
    )


def _rule(outcome: f.RuleOutcome) -> Rule:
    reasons = dict.fromkeys(
        f"{item.reason}; {item.remedy}" if item.remedy else item.reason
        for item in outcome.inconclusive
    )
    return Rule(
        code=outcome.code,
        name=outcome.name,
        title=outcome.title,
        status=outcome.status,
        reason=outcome.ignored
        or " · ".join(map(clean, reasons))
        or (
            clean(outcome.not_assessed_reason)
            if outcome.not_assessed_reason and not outcome.findings
            else None
        ),
    )


def _findings(
    ordered: Sequence[Pair],
    marks: Sequence[str],
    inputs: Sequence[Input],
    located: Mapping[Key, Located],
    privacy: Privacy,
    faults: Faults,
) -> list[Finding]:
    """The findings, each remedy at the first that has it; one that cannot be told is a fault, and missing."""
    told = []
    for ((outcome, finding), elsewhere), mark in zip(each_once(ordered), marks, strict=True):
        with faults.catch(Where.RENDER, outcome.code):
            told.append(_finding(outcome, finding, mark, elsewhere, inputs, located, privacy))
    return told


def _finding(
    outcome: f.RuleOutcome,
    finding: f.Finding,
    mark: str,
    elsewhere: list[str],
    inputs: Sequence[Input],
    located: Mapping[Key, Located],
    privacy: Privacy,
) -> Finding:
    return Finding(
        code=outcome.code,
        name=outcome.name,
        fingerprint=mark,
        severity=finding.severity,
        state=finding.state,
        confidence=finding.confidence,
        votes=[
            Vote(signal=vote.signal, text=clean(vote.text), weight=vote.weight)
            for vote in finding.votes
        ],
        subject=subject_of(finding.subject),
        cause=finding.cause,
        title=clean(finding.title),
        why=clean(finding.why) if finding.why else None,
        explain=clean(finding.explain, 2000),
        first_seen=iso(finding.first_us),
        last_seen=iso(finding.last_us),
        count=finding.count,
        measurements=[
            Measurement(
                name=m.name,
                value=clean(m.value) if isinstance(m.value, str) else m.value,
                unit=m.unit,
                threshold=m.threshold,
                population=clean(m.population) if m.population else None,
            )
            for m in finding.measurements
        ],
        evidence=[_evidence(item, inputs, located, privacy) for item in finding.shown],
        evidence_total=finding.cited,
        actions=[action_of(action) for action in finding.actions],
        see=elsewhere,
    )


def _evidence(
    item: f.Evidence,
    inputs: Sequence[Input],
    located: Mapping[Key, Located],
    privacy: Privacy,
) -> Evidence:
    place = located.get((item.source, item.offset, item.focus))
    line, excerpt = (place.line, place.excerpt) if place else (None, None)
    time_us = item.time_us
    if inputs[item.source].kind in DOCUMENTS:
        line = None  # one line that holds everything
    elif place is not None and place.time_us is not None and (time_us is None or item.focus):
        time_us = place.time_us
    return Evidence(
        source=inputs[item.source].source,
        line=line,
        offset=item.offset,
        timestamp=iso(time_us),
        excerpt=excerpt if privacy.excerpts else None,
    )


def subject_of(subject: f.Subject) -> Subject:
    """A subject as documents have it."""
    values: dict[str, Any] = {name: getattr(subject, name) for name in Subject.__struct_fields__}
    plain: dict[str, Any] = {k: str(v) if isinstance(v, str) else v for k, v in values.items()}
    return Subject(**plain)
