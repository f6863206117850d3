"""Calculates when a growing delay fills the memory, or exceeds the retention of a topic.

Receivers keep the blocks of queued batches in the memory of executors. Unread records of a direct stream
remain in the topic until its retention ends. Both times follow from the slope of the delay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from flowdiag.analyses.model import fmt
from flowdiag.analyses.rate.facts import ApplicationFacts
from flowdiag.analyses.rate.stability import Trend

RETENTION_MS: Final = 7 * 86_400_000  # the default of log.retention.hours of a Kafka broker


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The capacity that a growing delay will exceed, and when.

    Args:
        kind: `memory`, `retention`, or `source` (files and similar).
        left_ms: time left at the current slope; None if unknown.
        text: the same as sentences.
    """

    kind: str
    left_ms: float | None
    text: str


def kind_of(app: ApplicationFacts) -> str | None:
    """Return the kind of limit for the waiting records: `memory`, `retention` or `source`, or None if unknown."""
    if app.receivers or app.blocks or app.limits:
        return "memory"
    streams = [s for b in app.batches for s in b.streams]
    if any("offsets:" in (s.description or "") for s in streams):
        return "retention"
    return "source" if streams else None


def limit_of(
    app: ApplicationFacts,
    slope: Trend | None,
    delay_ms: float | None,
    retention_ms: int | None = None,
) -> Limit | None:
    """Return the limit that the growing delay of an application will reach, or None.

    Args:
        app: the application, with its streams and the blocks of its receivers.
        slope: slope of the delay, in milliseconds per millisecond.
        delay_ms: the current delay.
        retention_ms: retention time of the topics; None for Kafka's default.
    """
    if slope is None or not slope.is_rising:
        return None
    kind = kind_of(app)
    if kind is None:
        return None
    # The slope refers to batch times, but a batch is processed after its wait.
    grows = slope.slope / (1 + slope.slope)
    if kind == "memory":
        # Time until the first host is full. The share of the new blocks by which the delay grows remains in memory.
        left = min(
            (
                one.free_bytes / (grows * one.bytes_per_s / 1000)
                for one in app.memory
                if one.free_bytes is not None and one.bytes_per_s
            ),
            default=None,
        )
        text = "Receivers keep the blocks of queued batches in memory"
        text += (
            f": at this rate it is full in {fmt.duration(left)}. Then blocks are spilled to disk or lost."
            if left is not None
            else ", until it is full."
        )
        return Limit(kind=kind, left_ms=left, text=text)
    if kind == "retention":
        kept = retention_ms or RETENTION_MS
        left = max(0.0, kept - (delay_ms or 0.0)) / grows
        assumed = "" if retention_ms else ", Kafka's default"
        text = (
            f"The topic keeps its records for {fmt.duration(kept)}{assumed}. At this rate, the "
            f"delay reaches this retention in {fmt.duration(left)}, and Kafka then deletes "
            "unread records."
        )
        return Limit(kind=kind, left_ms=left, text=text)
    return Limit(kind=kind, left_ms=None, text="Unread records wait in the source.")
