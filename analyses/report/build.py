"""From outcomes to a report: the last step that all commands have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from flowdiag.analyses.finding import Evidence, RuleOutcome, Severity, Understood
from flowdiag.analyses.flink.clocks.settle import DRIFT_MS
from flowdiag.analyses.keys import JobKey, Process
from flowdiag.analyses.options import Options
from flowdiag.analyses.report.redact import clean
from flowdiag.analyses.report.wire import Data, Input, Note, Report, Suggestion, build_report

if TYPE_CHECKING:
    from flowdiag.parsers.sources.open import Source


def report_of(
    command: str,
    data: Data,
    options: Options,
    *,
    sources: Sequence[Source],
    splits: Iterable[Mapping[str, Any]] = (),
    processes: Iterable[Process] = (),
    outcomes: Sequence[RuleOutcome] = (),
    names: Mapping[JobKey, str | None] | None = None,
    assessed: bool,
    calculated: bool = False,
    understood: Sequence[Understood] = (),
    named: Sequence[str] = (),
    notes: Iterable[str] = (),
    asides: Iterable[tuple[int, str]] = (),
    say: Callable[[str], None] = lambda stage: None,
) -> Report:
    """Cite the evidence, describe the inputs, put the document together.

    Args:
        command: without `flowdiag`.
        data: the command's own tables.
        options: of the user.
        sources: everything that was found, also what is not read.
        splits: the `split` rows, for what was read of each source.
        processes: who wrote what, after the clocks were settled.
        outcomes: of all rules of the command.
        names: of the jobs that findings are about.
        assessed: whether the input held anything that the command judges.
        calculated: whether everything is arithmetic about what somebody wants to configure.
        understood: kinds of records, whichever command they are for.
        named: the inputs as the user named them: files, folders, `-`.
        notes: warnings about the input as a whole.
        asides: warnings about single inputs, by index.
        say: told the name of the stage, for progress.
    """
    from flowdiag.analyses.report.evidence import locate
    from flowdiag.analyses.report.fitting import suggested
    from flowdiag.analyses.report.inputs import describe_inputs, input_problems
    from flowdiag.parsers.sources.open import open_source

    cited = [item for outcome in outcomes for found in outcome.findings for item in found.shown]
    silent = not any(
        found.severity is not Severity.INFO for outcome in outcomes for found in outcome.findings
    )
    untold = silent and (
        not assessed or any(outcome.core and outcome.inconclusive for outcome in outcomes)
    )
    if untold:  # an example of each kind is all that there is to show
        cited += [Evidence(*kind.ref) for kind in understood if kind.ref is not None]
    say("citing the evidence")
    processes = tuple(processes)
    located, problems = locate(
        cited, lambda source: open_source(sources[source]), clocks_ahead(processes)
    )
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
        suggestions=[
            Suggestion(text=text, command=line, wants=None)
            for text, line in (suggested(command, sources, named) if untold else ())
        ],
        doubts=[f"{name}: nothing in it was understood" for name in unrecognised(inputs, named)],
        warnings=[
            *[Note(message=clean(text)) for text in notes],
            *[Note(message=clean(text), source=inputs[source].source) for source, text in asides],
            *input_problems(inputs),
            *[Note(message=clean(text), source=inputs[source].source) for source, text in problems],
        ],
        privacy=options.privacy,
    )


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
