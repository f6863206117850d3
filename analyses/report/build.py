"""Builds a report from outcomes, the last step that all commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from flowdiag.analyses.contract import report as w
from flowdiag.analyses.contract.redact import clean, printable, with_clean_text
from flowdiag.analyses.faults import Faults
from flowdiag.analyses.fleets import affected_subjects
from flowdiag.analyses.flink.clocks.settle import DRIFT_MS
from flowdiag.analyses.knowledge.causes import CHECKS
from flowdiag.analyses.model import finding as f
from flowdiag.analyses.model.keys import JobKey, Process
from flowdiag.analyses.report import verdicts as v
from flowdiag.analyses.report.advice import action_of, first_action, without_repeated_remedies
from flowdiag.analyses.report.evidence import Key, LocatedRecord
from flowdiag.analyses.report.fingerprints import fingerprints
from flowdiag.analyses.report.origins import codes_of, component_in
from flowdiag.analyses.report.stories import LinkedFindings, Pair
from flowdiag.analyses.report.suggestions import Inputs, phrase_of, suggestions_for
from flowdiag.analyses.report.transform import redacted, without_credentials
from flowdiag.analyses.report.version import tool_version
from flowdiag.analyses.selection.options import LOCAL_USE, Options, Privacy
from flowdiag.parsers.neighbours.kinds import NeighbourKind
from flowdiag.parsers.notes import InputNote

if TYPE_CHECKING:
    from flowdiag.parsers.source import Source

_NARRATIVE: Final = 2000  # characters
_WORST: Final = 10  # subjects to list for a finding that many share
# Kinds of side inputs that are counted as a whole, not by record.
_WHOLE: Final = (
    "configuration",
    "kubectl",
    "gc-log",
    "consumer-groups",
    "database-sessions",
    "replication-slots",
    "database-log",
    "broker-log",
)
_OTHER_SYSTEMS: Final = frozenset(kind.reason for kind in NeighbourKind)


def report_of(
    command: str,
    data: w.Data,
    options: Options,
    *,
    sources: Sequence[Source],
    splits: Iterable[Mapping[str, Any]] = (),
    processes: Sequence[Process] = (),
    outcomes: Sequence[f.RuleOutcome] = (),
    names: Mapping[JobKey, str | None] | None = None,
    assessed: bool,
    calculated: bool = False,
    understood: Sequence[f.RecognizedRecords] = (),
    topics: Sequence[w.Topic] = (),
    notes: Iterable[InputNote] = (),
    input_notes: Iterable[tuple[int, InputNote]] = (),
    faults: Faults | None = None,
    progress: Callable[[str], None] = lambda stage: None,
) -> w.Report:
    """Cite the evidence, describe the inputs and build the document.

    Args:
        command: the command, without `flowdiag`.
        data, options: the command's own tables; the user's options.
        sources, splits: all discovered sources; the `split` rows of the scan.
        processes: the processes that wrote the inputs, after their clocks were settled.
        outcomes, names: outcomes of all rules of the command; the names of the jobs.
        assessed: whether the input held anything that the command judges.
        calculated: whether all facts are derived from a planned configuration.
        understood, topics: kinds of records, for any command; the status of each topic.
        notes, input_notes: warnings about the input as a whole; about single inputs, by index.
        faults: faults so far. New ones are added.
        progress: called with the name of each step.
    """
    from flowdiag.analyses.report.fitting import suggested_commands
    from flowdiag.analyses.report.inputs import (
        describe_inputs,
        input_problems,
        missing_parts,
        unknown_days,
    )

    explain_inputs = _needs_input_summary(outcomes, assessed=assessed)
    faults = faults or Faults()
    progress("citing the evidence")
    nothing: _Quotations = {}, []
    located, problems = faults.run_or_default(
        lambda: _quote(outcomes, understood if explain_inputs else (), sources, processes),
        nothing,
        about="quotations",
    )
    inputs = describe_inputs(sources, splits, processes, excerpts=options.privacy.excerpts)

    def warnings() -> list[w.Note]:
        return [
            *[_note(note, note.source) for note in notes],
            *[*input_problems(inputs), *missing_parts(inputs), *unknown_days(inputs, processes)],
            *[_note(note, inputs[source].source) for source, note in (*input_notes, *problems)],
        ]

    suggestions: list[tuple[str, str]] = []
    if explain_inputs:
        suggestions = faults.run_or_default(
            lambda: suggested_commands(command, sources, options.named),
            suggestions,
            w.Where.RENDER,
            about="suggestions",
        )
    doubtful = unrecognized(inputs, options.named, logs=_uneventful(inputs, sources))
    return ReportBuilder(
        command=command,
        inputs=inputs,
        outcomes=outcomes,
        names=names or {},
        data=data,
        located=located,
        assessed=assessed,
        calculated=calculated,
        understood=understood,
        suggestions=[w.Suggestion(text=text, command=run, wants=None) for text, run in suggestions],
        engine_known=not any(source.guessed for source in sources),
        doubts=[f"{name}: flowdiag recognized none of its lines" for name in doubtful],
        topics=topics,
        warnings=faults.run_or_default(warnings, [], w.Where.RENDER, about="warnings"),
        errors=faults.found,
        privacy=options.privacy,
    ).build()


_Quotations = tuple[dict[Key, LocatedRecord], list[tuple[int, InputNote]]]


def _quote(
    outcomes: Iterable[f.RuleOutcome],
    examples: Iterable[f.RecognizedRecords],
    sources: Sequence[Source],
    processes: Iterable[Process],
) -> _Quotations:
    """Locate the records that findings cite, and one example per kind of recognized record."""
    from flowdiag.analyses.report.evidence import locate
    from flowdiag.parsers.source import open_source

    cited = [item for o in outcomes for found in o.findings for item in found.reported_evidence]
    cited += [f.Evidence(*kind.ref) for kind in examples if kind.ref is not None]
    return locate(
        cited,
        lambda source: open_source(sources[source]),
        clocks_ahead(processes),
        {source: sources[source].kind for source in {item.source for item in cited}},
    )


def _note(note: InputNote, source: str | None) -> w.Note:
    return w.Note(
        kind=note.kind,
        text=clean(note.text),
        source=printable(source) if source is not None else None,
        since=w.iso(note.first_us),
        until=w.iso(note.last_us),
    )


def _needs_input_summary(outcomes: Sequence[f.RuleOutcome], *, assessed: bool) -> bool:
    """Return whether to list what the inputs contain: no finding counts, and the verdict is in doubt."""
    if v.serious_findings(v.pairs_of(outcomes)):
        return False
    # Outside the requested time range, other commands do not find anything either.
    if any((o.not_assessed_reason or "").startswith("the requested time range") for o in outcomes):
        return False
    return not assessed or any(o.core and o.inconclusive for o in outcomes if o.ignored is None)


def _uneventful(inputs: Sequence[w.Input], sources: Sequence[Source]) -> list[str]:
    """Return the logs that are certainly Spark's or another system's: healthy ones may contain no known message."""
    return [
        item.source
        for item, source in zip(inputs, sources, strict=False)
        if source.reason in _OTHER_SYSTEMS
        or (source.kind == "log" and source.engine == "spark" and not source.guessed)
    ]


def unrecognized(
    inputs: Sequence[w.Input], named: Iterable[str], *, logs: Iterable[str] = ()
) -> list[str]:
    """Return the user's paths without any recognized record. Empty files and certain `logs` do not count.

    >>> unrecognized([], ["logs/"])
    []
    """
    known = [item.source for item in inputs if item.recognised or item.kind in _WHOLE]
    known += logs
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
    """Return how many milliseconds the clock of each source is ahead of UTC, if the offset never changes.

    A drift counts only if the clock was derived from state transitions of tasks (see `settle`).
    """
    found: dict[int, set[int | None]] = {}
    for process in processes:
        ahead = None if process.zone_changes else process.zone_offset_ms
        drift = process.clock_offset_ms or 0
        if ahead is not None and process.zone_from == "transitions" and abs(drift) >= DRIFT_MS:
            ahead += drift
        found.setdefault(process.source, set()).add(ahead)
    return {
        source: ahead
        for source, values in found.items()
        if len(values) == 1 and (ahead := next(iter(values))) is not None
    }


def failed_report(command: str, error: w.Fault) -> w.Report:
    """Return the document of a run that diagnosed nothing, so that `| jq` always gets a document."""
    return ReportBuilder(
        command=command,
        inputs=(),
        outcomes=(),
        names={},
        data=w.Data(),
        located={},
        assessed=False,
        errors=[error],
    ).build()


@dataclass(frozen=True, kw_only=True)
class ReportBuilder:
    """Assembles the results of a run into one document.

    Args:
        command, inputs: the command, without `flowdiag`; the inputs, in the order of the sources.
        outcomes, names, data: outcomes of the rules; the name of each job; the command's own tables.
        located: lines and excerpts of the cited records (`evidence.locate`).
        assessed, calculated: whether an input held what the command judges; whether all facts are calculated.
        doubts: reasons why the verdict is not healthy even without findings, such as inputs that were not recognized.
        understood, suggestions: kinds of records; commands that fit the inputs better.
        engine_known: whether an input shows the engine. If not, no suggestion is specific to one engine.
        topics, warnings, errors: the status of each topic; warnings about inputs; faults, which rule out healthy.
        privacy: how much log text to keep.
    """

    command: str
    inputs: Sequence[w.Input]
    outcomes: Sequence[f.RuleOutcome]
    names: Mapping[JobKey, str | None]
    data: w.Data
    located: Mapping[Key, LocatedRecord]
    assessed: bool
    calculated: bool = False
    doubts: Sequence[str] = ()
    understood: Sequence[f.RecognizedRecords] = ()
    suggestions: Sequence[w.Suggestion] = ()
    engine_known: bool = True
    topics: Sequence[w.Topic] = ()
    warnings: Sequence[w.Note] = ()
    errors: Sequence[w.Fault] = ()
    privacy: Privacy = LOCAL_USE
    _faults: Faults = field(default_factory=Faults, init=False)

    def build(self) -> w.Report:
        """Build the document, with secrets masked and, if requested, names replaced."""
        self._faults.found += self.errors
        linked: list[LinkedFindings] = self._faults.run_or_default(
            self._link, [], w.Where.RENDER, about="stories"
        )
        stories: list[w.Story] = self._faults.run_or_default(
            lambda: [self._story(each) for each in linked], [], w.Where.RENDER, about="stories"
        )
        findings = self._findings()
        first = self._faults.run_or_default(
            lambda: first_action([p for each in linked for p in each.pairs], self.command),
            None,
            w.Where.RENDER,
            about="the first step",
        )
        report = w.Report(
            schema=w.SCHEMA,
            tool=w.Tool(version=tool_version(), command=self.command),
            inputs=list(self.inputs),
            summary=self._summary(linked, stories, first),
            topics=list(self.topics),
            rules=[self._rule(outcome) for outcome in self.outcomes],
            findings=findings,
            data=self.data,
            warnings=list(self.warnings),
            errors=self._faults.found,
        )
        report = without_credentials(report)
        return redacted(report) if self.privacy.redact else report

    @cached_property
    def _ordered(self) -> list[Pair]:
        return sorted(v.pairs_of(self.outcomes), key=v.report_order)

    @cached_property
    def _fingerprints(self) -> list[str]:
        return fingerprints(self._ordered, self.names)

    # -- stories --------------------------------------------------------------------------------------

    def _link(self) -> list[LinkedFindings]:
        return v.stories_of(self._ordered)

    @cached_property
    def _fingerprint_of(self) -> dict[int, str]:
        pairs = zip(self._ordered, self._fingerprints, strict=True)
        return {id(finding): fingerprint for (_, finding), fingerprint in pairs}

    def _story(self, linked: LinkedFindings) -> w.Story:
        fingerprint = self._fingerprint_of
        head = (linked.culprit or linked.root)[1]
        return w.Story(
            title=clean(linked.root[1].title),
            cause=linked.cause,
            culprit=v.culprit_of(*linked.culprit) if linked.culprit else None,
            subject=head.subject,
            severity=linked.severity,
            state=linked.state,
            confidence=head.confidence,
            first_seen=w.iso(linked.first_us),
            last_seen=w.iso(linked.last_us),
            narrative=clean(linked.narrative, _NARRATIVE),
            findings=[fingerprint[id(finding)] for _, finding in linked.pairs],
            because=[
                w.Because(
                    fingerprint=fingerprint[id(each.pair[1])],
                    relation=each.relation.name,
                    of=fingerprint[id(each.of[1])],
                    text=each.relation.clause,
                )
                for each in linked.consequences
            ],
            competing=[fingerprint[id(finding)] for _, finding in linked.competing],
        )

    # -- summary --------------------------------------------------------------------------------------

    def _summary(
        self,
        linked: Sequence[LinkedFindings],
        stories: list[w.Story],
        first: w.FirstAction | None,
    ) -> w.Summary:
        """Summarize the results. Healthy requires an assessed input and no fault or doubt."""
        judgement = v.judge(self.outcomes)
        doubts = [*self.doubts, *(fault.message for fault in self._faults.found)]
        verdict = v.final_verdict(
            judgement.verdict,
            doubted=bool(doubts) or not self.assessed,
            calculated=self.calculated,
        )
        inconclusive = verdict is f.Verdict.INCONCLUSIVE
        reasons, gaps = [*doubts], [*doubts]
        if self.engine_known:
            reasons += v.reasons_for_doubt(self.outcomes, assessed=self.assessed)
            gaps += self._gaps()
        return w.Summary(
            verdict=verdict,
            first_action=first,
            cause=judgement.cause,
            culprits=list(judgement.culprits),
            assessed=self.assessed or any(outcome.findings for outcome in self.outcomes),
            reason=clean(reasons[0]) if inconclusive and reasons else None,
            stories=stories,
            not_assessed=clean(gaps[0]) if gaps and not inconclusive else None,
            understood=[self._recognized(kind) for kind in self.understood],
            suggestions=[*self.suggestions, *self._next_checks(linked, undecided=inconclusive)],
        )

    def _gaps(self) -> Iterator[str]:
        """Yield the reasons why core rules are inconclusive for jobs without a serious finding, and the
        rules that were not assessed.

        If a job has a serious finding that is still ongoing, its inconclusive rules are left out.
        """
        serious = [finding for _, finding in v.serious_findings(v.pairs_of(self.outcomes))]
        failing_jobs = {finding.job for finding in serious if finding.state is f.State.ONGOING}
        settled = {*failing_jobs, None} if failing_jobs else set()
        for outcome in self.outcomes:
            for item in outcome.inconclusive if outcome.core else ():
                if item.job not in settled:
                    yield item.reason
        if not self.assessed:
            yield from filter(None, (outcome.not_assessed_reason for outcome in self.outcomes))
        status = {each.topic: each.status for each in self.topics}
        if (
            not serious
            and status.get("queues") is w.TopicStatus.NOTHING
            and status.get("checkpoints") is w.TopicStatus.ASSESSED
        ):
            yield "whether tasks keep up and records reach the sinks: no input contains task metrics"

    def _recognized(self, kind: f.RecognizedRecords) -> w.Understood:
        place = self.located.get((*kind.ref, None)) if kind.ref is not None else None
        return w.Understood(
            kind=kind.kind,
            count=kind.count,
            first=w.iso(kind.first_us),
            last=w.iso(kind.last_us),
            example=place.excerpt if place is not None and self.privacy.excerpts else None,
        )

    @cached_property
    def _check_inputs(self) -> Inputs:
        assessed = {each.topic for each in self.topics if each.status is w.TopicStatus.ASSESSED}
        return Inputs(inputs=self.inputs, topics=frozenset(assessed), data=self.data)

    def _next_checks(
        self, linked: Sequence[LinkedFindings], *, undecided: bool
    ) -> list[w.Suggestion]:
        found: list[w.Suggestion] = self._faults.run_or_default(
            lambda: suggestions_for(
                linked,
                self.outcomes if self.engine_known else (),
                self._check_inputs,
                self._fingerprint_of,
                undecided=undecided,
            ),
            [],
            w.Where.RENDER,
            about="suggestions",
        )
        if self.engine_known:
            return found
        return [each for each in found if each.check is None or CHECKS[each.check].engine is None]

    def _reason(self, item: f.Inconclusive) -> str:
        """Return why a rule is inconclusive, and the evidence or option that it needs."""
        missing = [n for n in item.checks if not self._check_inputs.answer(CHECKS[n], None)]
        needs = f"add {' or '.join(map(phrase_of, missing))}" if missing else item.remedy
        return f"{item.reason}; {needs}" if needs else item.reason

    def _rule(self, outcome: f.RuleOutcome) -> w.Rule:
        reasons = dict.fromkeys(
            map(self._reason, outcome.inconclusive if self.engine_known else ())
        )
        missing = outcome.not_assessed_reason if not outcome.findings else None
        if outcome.inconclusive and not self.engine_known:
            missing = "no input shows whether Flink or Spark wrote it"
        return w.Rule(
            code=outcome.code,
            name=outcome.name,
            title=outcome.title,
            status=outcome.status,
            reason=outcome.ignored
            or " · ".join(map(clean, reasons))
            or (clean(missing) if missing else None),
        )

    # -- findings -------------------------------------------------------------------------------------

    def _findings(self) -> list[w.Finding]:
        """Return the findings, with each remedy only in the first finding that has it. Findings that raise errors are
        omitted.
        """
        found = []
        pairs = zip(without_repeated_remedies(self._ordered), self._fingerprints, strict=True)
        for ((outcome, finding), elsewhere), fingerprint in pairs:
            with self._faults.catch(w.Where.RENDER, outcome.code):
                found.append(self._finding(outcome, finding, fingerprint, elsewhere))
        return found

    def _finding(
        self, outcome: f.RuleOutcome, finding: f.Finding, fingerprint: str, elsewhere: list[str]
    ) -> w.Finding:
        evidence = [self._evidence(item) for item in finding.reported_evidence]
        texts = [finding.why or "", *(one.excerpt or "" for one in evidence)]
        return w.Finding(
            code=outcome.code,
            name=outcome.name,
            fingerprint=fingerprint,
            severity=finding.severity,
            state=finding.state,
            confidence=finding.confidence,
            votes=[with_clean_text(vote, "text") for vote in finding.votes],
            subject=finding.subject,
            cause=finding.cause,
            title=clean(finding.title),
            why=clean(finding.why) if finding.why else None,
            explain=clean(finding.explain, 2000),
            first_seen=w.iso(finding.first_us),
            last_seen=w.iso(finding.last_us),
            count=finding.count,
            measurements=[
                with_clean_text(each, "value", "population") for each in finding.measurements
            ],
            evidence=evidence,
            evidence_total=finding.evidence_count,
            actions=[action_of(action) for action in finding.actions],
            see=elsewhere,
            component=component_in(texts),
            codes=codes_of(texts),
            stacks=list(finding.stacks),
            subjects_total=len(affected_subjects(finding)),
            subjects=list(finding.subjects[:_WORST]),
        )

    def _evidence(self, item: f.Evidence) -> w.Evidence:
        source = self.inputs[item.source]
        place = self.located.get((item.source, item.offset, item.focus))
        line, excerpt = (place.line, place.excerpt) if place else (None, None)
        time_us = item.time_us
        if source.kind in w.DOCUMENTS:
            line = None  # the whole document is one line
        elif place is not None and place.time_us is not None and (time_us is None or item.focus):
            time_us = place.time_us
        return w.Evidence(
            source=source.source,
            line=line,
            offset=item.offset,
            timestamp=w.iso(time_us),
            excerpt=excerpt if self.privacy.excerpts else None,
        )
