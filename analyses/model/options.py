"""What the user asked of a diagnosis, in the terms of the analyses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flowdiag.analyses.model.choice import Choice
from flowdiag.analyses.model.span import Selection
from flowdiag.analyses.report.privacy import Privacy

if TYPE_CHECKING:
    from flowdiag.analyses.model.rule import Thresholds


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOptions:
    """What only the topic `queues` takes.

    Args:
        what_if: whether to play the usual remedies in the credit model.
    """

    what_if: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryOptions:
    """What only the topic `memory` takes.

    Args:
        given: memory options of the command line, by key; they win over files.
        version: of Flink.
        container: whether the processes run in containers; None: as the input says.
    """

    given: Mapping[str, str] = field(default_factory=dict)
    version: str | None = None
    container: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RateOptions:
    """What only the topic `rate` takes.

    Args:
        trigger_interval_ms: of the queries' triggers, which Spark records nowhere.
        real_time: whether the queries run in real-time mode; None: take it from the input.
        configuration: options of the application, as given.
        retention_ms: of the topics that are read.
    """

    trigger_interval_ms: int | None = None
    real_time: bool | None = None
    configuration: Mapping[str, str] = field(default_factory=dict)
    retention_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What every topic takes, and what single ones do.

    Args:
        selection: which jobs (or applications) and which time are judged; joins always see everything.
        tz: name of a zone that overrides every inferred one.
        thresholds: values by rule code and threshold name.
        choice: which rules the user wants to hear.
        privacy: how much log text the report may carry.
        max_rows: longest list in the report's data.
        named: the inputs as the user named them: files, folders, `-`.
        everything: whether all topics were asked for that the inputs can feed, even if that is one.
    """

    selection: Selection = field(default_factory=Selection)
    tz: str | None = None
    thresholds: Mapping[str, Thresholds] = field(default_factory=dict)
    choice: Choice = field(default_factory=Choice)
    privacy: Privacy = field(default_factory=Privacy)
    max_rows: int = 10_000
    named: tuple[str, ...] = ()
    everything: bool = False
    queues: QueueOptions = field(default_factory=QueueOptions)
    memory: MemoryOptions = field(default_factory=MemoryOptions)
    rate: RateOptions = field(default_factory=RateOptions)
