"""The user's options for a diagnosis, as used by the analyses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from flowdiag.analyses.selection.choice import Choice
from flowdiag.analyses.selection.span import Selection

if TYPE_CHECKING:
    from flowdiag.analyses.model.rule import Thresholds

MAX_ROWS: Final = 10_000  # a week of checkpoints, one a minute


@dataclass(frozen=True, slots=True, kw_only=True)
class Privacy:
    """How much log text a report may contain, and whether names are replaced."""

    excerpts: bool = True
    redact: bool = False


LOCAL_USE: Final = Privacy()  # secrets are always masked


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOptions:
    """Options of the topic `queues`.

    Args:
        what_if: whether to simulate the usual remedies in the credit model.
    """

    what_if: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryOptions:
    """Options of the topic `memory`.

    Args:
        given: memory options of the command line, by key. They override files.
        version: the version of Flink.
        container: whether the processes run in containers. None: determine it from the input.
    """

    given: Mapping[str, str] = field(default_factory=dict)
    version: str | None = None
    container: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RateOptions:
    """Options of the topic `rate`.

    Args:
        trigger_interval_ms: the trigger interval of the queries, which Spark does not record.
        real_time: whether the queries run in real-time mode. None: determine it from the input.
        configuration: options of the application.
        retention_ms: the retention of the Kafka topics.
    """

    trigger_interval_ms: int | None = None
    real_time: bool | None = None
    configuration: Mapping[str, str] = field(default_factory=dict)
    retention_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of all topics, including those of single topics.

    Args:
        selection: which jobs (or applications) and which time range to judge. Joins always use all data.
        tz: the name of a time zone that overrides every inferred zone.
        thresholds: values by rule code and threshold name.
        choice: the selected and ignored rules.
        privacy: how much log text the report may contain.
        max_rows: the longest list in the report's data.
        named: the inputs as given by the user: files, folders, `-`.
        everything: whether to run all topics for which there are inputs, even if that is only one.
    """

    selection: Selection = field(default_factory=Selection)
    tz: str | None = None
    thresholds: Mapping[str, Thresholds] = field(default_factory=dict)
    choice: Choice = field(default_factory=Choice)
    privacy: Privacy = field(default_factory=Privacy)
    max_rows: int = MAX_ROWS
    named: tuple[str, ...] = ()
    everything: bool = False
    queues: QueueOptions = field(default_factory=QueueOptions)
    memory: MemoryOptions = field(default_factory=MemoryOptions)
    rate: RateOptions = field(default_factory=RateOptions)
