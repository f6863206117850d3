"""The way of `flowdiag memory` from options, files and logs to a report: `diagnose` is the one to read first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from flowdiag.analyses import options as shared
from flowdiag.analyses.engine.reading import ORDINARY, Means, Say
from flowdiag.analyses.flink.assemble import assemble
from flowdiag.analyses.flink.job import ClusterFacts
from flowdiag.analyses.flink.options import version_of
from flowdiag.analyses.flink.settled import rows_of, settled_events
from flowdiag.analyses.memory.assemble import assemble_memory
from flowdiag.analyses.memory.data import memory_buffers, memory_processes
from flowdiag.analyses.memory.facts import MemoryFacts
from flowdiag.analyses.memory.inputs import OtherInputs, read_others
from flowdiag.analyses.memory.rules import MEMORY_RULES
from flowdiag.analyses.report.build import report_of
from flowdiag.analyses.report.wire import Data, Report
from flowdiag.analyses.rule import apply
from flowdiag.analyses.span import Moment, Selection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flowdiag.parsers.sources.discover import Discovery, Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes(shared.Wishes):
    """What the user asked for.

    Args:
        options: memory options of the command line, by key; they win over files.
        version: of Flink.
        container: whether the processes run in containers; None: as the input says.
    """

    options: Mapping[str, str] = field(default_factory=dict)
    version: str | None = None
    container: bool | None = None


def calculate(wishes: Wishes) -> Report:
    """What Flink makes of the options alone: no input, no Spark."""
    facts = assemble_memory(
        [],
        ClusterFacts(jobs=(), processes=()),
        given=wishes.options,
        version=wishes.version,
        container=wishes.container,
    )
    return _report(facts, wishes, sources=(), splits=())


def needs_spark(sources: Sequence[Source], others: OtherInputs) -> bool:
    """Whether anything is left that only the common way reads."""
    return any(s.kind != "not-read" and s.index not in others.kinds for s in sources)


def look_at(discovery: Discovery, wishes: Wishes) -> OtherInputs:
    """Read configurations, kubectl's texts and logs of the garbage collector."""
    return read_others(discovery.sources, version_of(wishes.version))


def diagnose(
    discovery: Discovery,
    others: OtherInputs,
    session: Callable[[], SparkSession] | None,
    wishes: Wishes,
    *,
    means: Means = ORDINARY,
    say: Say = lambda stage: None,
) -> Report:
    """Whether memory and buffers can carry the job, and what to change.

    Args:
        discovery: what `parsers.sources.discover` found.
        others: what `look_at` read.
        session: waits for Spark and returns its session; None where `needs_spark` says no.
        wishes: of the user.
        means: with what to read and measure.
        say: told the name of each stage, for progress.

    Raises:
        FlowdiagError: Spark cannot start.
    """
    rows: list[dict[str, Any]] = []
    splits: tuple[dict[str, Any], ...] = ()
    common = ClusterFacts(jobs=(), processes=())
    if session is not None:
        from flowdiag.analyses.memory import measure as memory_measure

        logs = [
            replace(source, kind="not-read") if source.index in others.kinds else source
            for source in discovery.sources
        ]
        settled = settled_events(logs, session, means=means, tz=wishes.tz, say=say)
        say("measuring memory")
        rows = rows_of(memory_measure.facts_frame(settled.events))
        common = assemble(rows, [], settled.writers)
        splits = settled.splits
    say("judging")
    facts = assemble_memory(
        rows,
        common,
        files=others.files,
        kills=others.kills,
        usages=others.usages,
        given=wishes.options,
        version=wishes.version,
        container=wishes.container,
    )
    return _report(
        _within(facts, wishes.selection),
        wishes,
        sources=others.applied(discovery.sources),
        splits=splits,
        notes=(*discovery.errors, *discovery.warnings),
    )


def _within(facts: MemoryFacts, selection: Selection) -> MemoryFacts:
    """Failures of the time that is judged; sizes and configurations have no time of their own."""
    if selection.since is None and selection.until is None:
        return facts
    ends = [job.last_us for job in facts.jobs if job.last_us is not None]
    ends += [writer.last_us for writer in facts.writers if writer.last_us is not None]
    zone = next((w.zone_offset_ms for w in facts.writers if w.zone_offset_ms is not None), 0)
    end = max(ends, default=0)

    def instant(moment: Moment | None, otherwise: int) -> int:
        return otherwise if moment is None else moment.at(end_us=end, zone_offset_ms=zone)

    low, high = instant(selection.since, -(1 << 62)), instant(selection.until, 1 << 62)
    return replace(
        facts,
        jobs=tuple(
            replace(
                job,
                incidents=tuple(
                    i for i in job.incidents if i.time_us is None or low <= i.time_us <= high
                ),
            )
            for job in facts.jobs
        ),
    )


def _report(
    facts: MemoryFacts,
    wishes: Wishes,
    *,
    sources: Sequence[Source],
    splits: Sequence[Mapping[str, Any]],
    notes: Sequence[str] = (),
) -> Report:
    data = Data(
        processes=memory_processes(facts, [s.name for s in sources], wishes.max_rows),
        buffers=memory_buffers(facts, wishes.max_rows),
    )
    return report_of(
        "memory",
        data,
        wishes,
        sources=sources,
        splits=splits,
        processes=facts.writers,
        outcomes=apply(MEMORY_RULES, facts, (), wishes.thresholds),
        names={job.key: job.name for job in facts.jobs},
        assessed=bool(facts.processes or facts.buffers or facts.kills or facts.files),
        notes=notes,
    )
