"""The part of the flow that depends on the command: a topic, the engine that measures for it, and its jobs.

`diagnosis` runs topics. Each topic is an object in `<topic>/topic.py`, and `topics` imports it by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from flowdiag.analyses.contract.report import Data, Fault
from flowdiag.analyses.engine.reading import ProgressCallback, Resources
from flowdiag.analyses.model.finding import RecognizedRecords, RuleOutcome
from flowdiag.analyses.model.keys import JobKey, Process
from flowdiag.analyses.model.rule import Rule
from flowdiag.analyses.selection.options import Options
from flowdiag.analyses.selection.span import Span
from flowdiag.parsers.notes import InputNote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flowdiag.analyses.model.columns import Rows
    from flowdiag.parsers.source import Source

Session = Callable[[], "SparkSession"]
"""Waits for Spark, and returns its session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectableJob:
    """A job or an application that the user can select.

    Args:
        key: the key that identifies it in findings.
        id: the job or application ID; None if unknown.
        name: the job's name; None if unknown.
        selectable: whether `--job` may select it.
    """

    key: JobKey
    id: str | None
    name: str | None
    selectable: bool = True

    @property
    def label(self) -> str:
        return self.name or self.id or self.key.job_id


@dataclass(frozen=True, slots=True, kw_only=True)
class SideInputs:
    """Inputs that a topic reads on its own, outside the scan.

    Args:
        content: the parsed content, in the topic's own type.
        kinds: the kind of each input, by index.
        unread: why an input for the topic was not read, by index.
    """

    content: Any = None
    kinds: Mapping[int, str] = field(default_factory=dict)
    unread: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The measured facts and errors.

    Args:
        facts: the facts of each topic, by its name.
        splits: the `split` rows, for the list of inputs.
        processes: the processes that wrote the inputs.
        understood: the kinds of recognized records, regardless of the topic.
        notes: warnings about single inputs, by index of the source.
        faults: the errors so far, at least one for each topic without facts.
    """

    facts: Mapping[str, Any]
    splits: Sequence[Mapping[str, Any]] = ()
    processes: Sequence[Process] = ()
    understood: Sequence[RecognizedRecords] = ()
    notes: Sequence[tuple[int, InputNote]] = ()
    faults: Sequence[Fault] = ()


class Engine(Protocol):
    """Turns the inputs of Flink, or of Spark, into facts."""

    name: str
    """The name of the engine in sources: `flink` or `spark`."""

    def measure(
        self,
        topics: Sequence[Any],
        sources: Sequence[Source],
        session: Session,
        options: Options,
        *,
        side_inputs: Mapping[str, Any],
        resources: Resources,
        progress: ProgressCallback,
    ) -> Measured:
        """Parse, determine clocks and measure once for all topics. These are all steps before judging.

        Args:
            topics: topics of this engine.
            sources: all sources. Those that must not be scanned (possibly all) are marked `not-read`.
            session: called only if Spark is needed. Small inputs are parsed before that.
            options: the user's options.
            side_inputs: the content that topics read on their own, by topic name.
            resources: memory, cores and folders for reading and measuring.
            progress: called with the name of each stage.
        """


class Topic:
    """The part of the flow that depends on the command. Each topic is one object of its own subclass.

    Each topic has its own type of facts. The `measure` of its engine creates them, and no other code reads them.
    """

    name: str
    """The name of the command, and of the topic in reports."""
    engine: Engine
    rules: tuple[Rule, ...]
    required_data: str
    """The data that the topic judges, in a few words: "a checkpoint event"."""
    required: Mapping[str, tuple[Callable[[Any], bool], str]] = {}
    """For each `Rule.needs`, a check whether the facts contain the required data, and a clause if they do not."""

    def side_inputs(self, sources: Sequence[Source], options: Options) -> SideInputs:
        """Read the inputs that the scan skips. Most topics have none."""
        return SideInputs()

    def jobs(self, facts: Any) -> Iterable[SelectableJob]:
        """Return the jobs or applications, in order."""
        raise NotImplementedError

    def first_us(self, facts: Any) -> int | None:
        """Return the time of the first record that the facts know, or None."""
        return None

    def last_us(self, facts: Any) -> int | None:
        """Return the time of the last record that the facts know, or None."""
        raise NotImplementedError

    def select_jobs(self, facts: Any, is_selected: Callable[[Any], bool]) -> Any:
        """Keep the facts of the selected jobs, and the common facts (attempts, settings, workers).

        Args:
            facts: all facts.
            is_selected: decides by the job's key, which `jobs` returns.
        """
        raise NotImplementedError

    def select_span(self, facts: Any, span: Span) -> Any:
        """Keep the facts of a time span, and the common facts (attempts, settings, workers)."""
        raise NotImplementedError

    def derive(self, facts: Any, options: Options) -> Any:
        """Return the input of the rules: the facts, or values calculated from them."""
        return facts

    def subjects(self, facts: Any) -> Sequence[Any]:
        """Return the jobs, applications or processes that rules judge one at a time."""
        return ()

    def review_outcomes(self, outcomes: Sequence[RuleOutcome], facts: Any) -> Sequence[RuleOutcome]:
        """Lower the confidence, or add inconclusive results, if the inputs are damaged or incomplete."""
        return outcomes

    def why_not_assessed(self, rule: Rule, facts: Any) -> str | None:
        """Return a clause about the facts that a rule needs and the input lacks, or None if it has all of them."""
        holds, clause = self.required.get(rule.needs or "", (None, ""))
        return None if holds is None or holds(facts) else clause

    def data(
        self,
        facts: Any,
        outcomes: Sequence[RuleOutcome],
        options: Options,
        sources: Sequence[Source],
    ) -> Data:
        """Return the topic's own tables.

        Args:
            facts: the input of the rules; None if no input could be read.
            outcomes: outcomes of the topic's rules.
            options: the user's options.
            sources: all discovered sources, by index.
        """
        raise NotImplementedError

    def tables(self, facts: Any, options: Options) -> Rows:
        """Return the complete lists of `data`, for `--data-dir`. Topics with short lists have none."""
        return ()

    def population(self, facts: Any, job: JobKey | None, kind: str) -> int | None:
        """Return how many subjects of a kind (`Subject.kind`) a job has, or None if unknown."""
        return None

    def is_assessed(self, facts: Any) -> bool:
        """Return whether the input contains anything that the topic judges."""
        raise NotImplementedError

    def missing_input(self, facts: Any) -> str:
        """Return why the topic cannot judge an input that it does not assess."""
        return f"no input contains {self.required_data}"

    def is_fed(self, facts: Any) -> bool:
        """Return whether the input could show a problem of this topic.

        If not, `diagnose` reaches its verdict without the topic, and lists it as a topic without input.
        """
        return self.is_assessed(facts)

    def is_calculated(self, facts: Any) -> bool:
        """Return whether all facts are calculated from a planned configuration."""
        return False

    def notes(self, measured: Any, facts: Any, options: Options) -> Iterable[InputNote]:
        """Return warnings about the input as a whole.

        Args:
            measured: all facts of the topic.
            facts: the selected facts.
            options: the user's options.
        """
        return ()
