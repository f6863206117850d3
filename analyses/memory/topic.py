"""The topic `memory`: the memory pools of Flink's processes, and which pool ran out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from flowdiag.analyses.contract.report import Data
from flowdiag.analyses.flink.job import ClusterFacts
from flowdiag.analyses.flink.settled import Settled
from flowdiag.analyses.flink.topic import FLINK, UNDATED, FlinkTopic, Row, named_jobs
from flowdiag.analyses.memory.assemble import assemble_memory
from flowdiag.analyses.memory.facts import MemoryFacts
from flowdiag.analyses.memory.inputs import OtherInputs, read_others
from flowdiag.analyses.memory.options import KNOWN_VERSIONS, nearest_key, nearest_version
from flowdiag.analyses.memory.rules import RULES
from flowdiag.analyses.model.finding import RuleOutcome
from flowdiag.analyses.model.keys import JobKey
from flowdiag.analyses.selection.options import Options
from flowdiag.analyses.selection.span import Span
from flowdiag.analyses.topic import SelectableJob, SideInputs
from flowdiag.parsers.notes import InputNote, Kind
from flowdiag.parsers.units import version_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from flowdiag.analyses.engine.sql import Part
    from flowdiag.analyses.flink.clocks.settle import Writer
    from flowdiag.parsers.source import Source


def _is_dated(facts: MemoryFacts) -> bool:
    return any(job.last_us is not None for job in facts.jobs)


def _has_options(facts: MemoryFacts) -> bool:
    return bool(facts.files) or any(process.configured for process in facts.processes)


def _has_sizes(facts: MemoryFacts) -> bool:
    sizes = (process.observed or process.container_limit for process in facts.processes)
    return any(sizes) or any(kill.limit for kill in facts.kills)


def _has_buffers(facts: MemoryFacts) -> bool:
    return bool(facts.buffers) or _is_dated(facts)


def _has_backends(facts: MemoryFacts) -> bool:
    return bool(facts.backends)


def _has_usage(facts: MemoryFacts) -> bool:
    return any(process.usage is not None for process in facts.processes)


def _has_pods(facts: MemoryFacts) -> bool:
    return bool(facts.kills) or _is_dated(facts)


_REQUIRED: Final = {
    "dated-records": (_is_dated, UNDATED),
    "options": (_has_options, "the input has no memory options"),
    "sizes": (_has_sizes, "the input has no memory sizes of a process or its container"),
    "buffers": (_has_buffers, "the input does not show how many network buffers the tasks require"),
    "backends": (_has_backends, "the input does not show the state backend"),
    "usage": (_has_usage, "the input does not show how much heap is used"),
    "pods": (_has_pods, "the input has neither a log nor the status of a pod or container"),
}


class Memory(FlinkTopic):
    """Measures `MemoryFacts`."""

    name = "memory"
    required_data = "a memory option or size"
    engine = FLINK
    rules = RULES
    required = _REQUIRED
    checkpoints = False

    def metrics(self) -> Collection[str]:
        """Return a metric that reveals TaskManagers without tasks. No metric is measured."""
        return ("Status.JVM.CPU.Load",)

    def side_inputs(self, sources: Sequence[Source], options: Options) -> SideInputs:
        """Read configurations, kubectl output and GC logs."""
        others = read_others(sources, version_of(options.memory.version))
        return SideInputs(content=others, kinds=others.kinds, unread=others.unread)

    def queries(self, settled: Settled, unique: DataFrame) -> Sequence[Part]:
        """Return the memory records of processes."""
        from flowdiag.analyses.memory.measure import queries

        return queries(settled.events)

    def facts(
        self,
        rows: Sequence[Row],
        more: Sequence[Row],
        common: ClusterFacts,
        writers: Sequence[Writer],
        side_inputs: OtherInputs,
        options: Options,
    ) -> MemoryFacts:
        """Return the processes with their configured, derived and observed sizes."""
        return assemble_memory(
            rows,
            common,
            files=side_inputs.files,
            kills=side_inputs.kills,
            usages=side_inputs.usages,
            names=side_inputs.names,
            given=options.memory.given,
            version=options.memory.version or side_inputs.version,
            container=options.memory.container,
            engine=side_inputs.engine,
        )

    def jobs(self, facts: MemoryFacts) -> Iterable[SelectableJob]:
        return named_jobs(facts.jobs)

    def first_us(self, facts: MemoryFacts) -> int | None:
        return min((job.first_us for job in facts.jobs if job.first_us is not None), default=None)

    def last_us(self, facts: MemoryFacts) -> int | None:
        return max((job.last_us for job in facts.jobs if job.last_us is not None), default=None)

    def select_jobs(self, facts: MemoryFacts, is_selected: Callable[[JobKey], bool]) -> MemoryFacts:
        """Keep the selected jobs, but all processes, because each may serve any job."""
        return replace(facts, jobs=tuple(job for job in facts.jobs if is_selected(job.key)))

    def select_span(self, facts: MemoryFacts, span: Span) -> MemoryFacts:
        """Select the failures in the span. Sizes and configurations have no time."""
        jobs = (
            replace(job, incidents=tuple(i for i in job.incidents if span.has(i.time_us)))
            for job in facts.jobs
        )
        return replace(facts, jobs=tuple(jobs))

    def data(
        self,
        facts: MemoryFacts | None,
        outcomes: Sequence[RuleOutcome],
        options: Options,
        sources: Sequence[Source],
    ) -> Data:
        """Return `processes` and `buffers`."""
        from flowdiag.analyses.memory.data import memory_buffers, memory_processes

        if facts is None:
            return Data(processes=[], buffers=[])
        return Data(
            processes=memory_processes(facts, [s.name for s in sources], options.max_rows),
            buffers=memory_buffers(facts, options.max_rows),
        )

    def is_assessed(self, facts: MemoryFacts) -> bool:
        """Return whether at least one process or buffer is known."""
        killed = any(kill.is_for_memory or kill.waits for kill in facts.kills)
        seen = facts.buffers or any(p.observed or p.usage for p in facts.processes)
        if not (seen or killed) and any(file.read.trouble for file in facts.files):
            return False  # options do not explain the problem in the status
        return bool(facts.processes or facts.buffers or killed or facts.files)

    def is_fed(self, facts: MemoryFacts) -> bool:
        """Return whether the input shows a job, a stopped process or a plan. Idle processes show no healthy job."""
        shown = facts.jobs or facts.kills or self.is_calculated(facts)
        return bool(shown) and self.is_assessed(facts)

    def is_calculated(self, facts: MemoryFacts) -> bool:
        """Return whether the input contains only options, so that sizes are calculated, not observed."""
        return not (facts.buffers or facts.kills or facts.jobs or facts.writers) and not any(
            process.observed or process.usage for process in facts.processes
        )

    def notes(
        self, measured: MemoryFacts, facts: MemoryFacts, options: Options
    ) -> Iterable[InputNote]:
        """Yield notes about unknown versions and options, and about resources whose status shows a problem."""
        for file in facts.files:
            if file.read.trouble is not None:
                yield InputNote(
                    Kind.OTHER,
                    f"its status reports {file.read.trouble}; see the logs of the operator and the JobManager",
                    source=file.name,
                )
        versions = dict.fromkeys(p.version for p in facts.processes if p.version)
        if options.memory.version is not None:
            versions.setdefault(options.memory.version)
        for version in versions:
            seen = version_of(version)
            if seen is not None and seen not in KNOWN_VERSIONS:
                major, minor = nearest_version(seen)
                yield InputNote(
                    Kind.UNKNOWN_VERSION,
                    f"flowdiag does not know Flink {version}: sizes are calculated as for the nearest"
                    f" version, {major}.{minor}",
                )
        keys = {*options.memory.given, *(key for file in facts.files for key in file.read.options)}
        for key in sorted(keys):
            known = nearest_key(key)
            if known is not None:
                text = f"Flink has no option {key}: did you mean {known}?"
                yield InputNote(Kind.UNKNOWN_OPTION, text)


MEMORY: Final = Memory()
