"""How long a growing delay can go on: until memory is full, or until a topic deletes what waits.

Receivers keep the blocks of waiting batches in the memory of executors; what a direct stream has not
read yet lies in the topic, until the retention ends. Both follow from the slope of the delay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from flowdiag.analyses.model import fmt
from flowdiag.analyses.rate.facts import ApplicationFacts
from flowdiag.analyses.rate.stability import Trend

RETENTION_MS: Final = (
    7 * 86_400_000
)  # log.retention.hours of a Kafka broker, where nobody says more


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """What ends it.

    Args:
        kind: `memory`, `retention`, or `source` (files, and others that wait where they are).
        left_ms: until then at the present slope; None where the input does not tell.
        text: the same in a sentence.
    """

    kind: str
    left_ms: float | None
    text: str


def kind_of(app: ApplicationFacts) -> str | None:
    """Where the waiting records are; None where nothing tells."""
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
    """The limit of an application whose delay grows; None where it does not.

    Args:
        app: what it is fed by, and what its receivers store.
        slope: of the delay, milliseconds per millisecond.
        delay_ms: now.
        retention_ms: of the topics, if the user says so; Kafka's default otherwise.
    """
    if slope is None or not slope.rises:
        return None
    kind = kind_of(app)
    if kind is None:
        return None
    # The slope is per second of batch times; a batch is processed by its wait later.
    grows = slope.slope / (1 + slope.slope)
    if kind == "memory":
        left = _memory_left(app, grows)
        text = "Receivers keep the blocks of waiting batches in memory"
        text += (
            f": at this slope it is full in {fmt.duration(left)}; then blocks go to disk, or are lost."
            if left is not None
            else ", until it is full."
        )
        return Limit(kind=kind, left_ms=left, text=text)
    if kind == "retention":
        kept = retention_ms or RETENTION_MS
        left = max(0.0, kept - (delay_ms or 0.0)) / grows
        assumed = "" if retention_ms else ", Kafka's default"
        text = (
            f"The topic keeps its records for {fmt.duration(kept)}{assumed}: at this slope the delay "
            f"reaches that in {fmt.duration(left)}, and what is deleted then is lost."
        )
        return Limit(kind=kind, left_ms=left, text=text)
    return Limit(kind=kind, left_ms=None, text="What is not read yet waits in the source.")


def _memory_left(app: ApplicationFacts, grows: float) -> float | None:
    """Until the first memory is full: of what comes in, the part that the delay grows by stays."""
    left = [
        one.free_bytes / (grows * one.bytes_per_s / 1000)
        for one in app.memory
        if one.free_bytes is not None and one.bytes_per_s
    ]
    return min(left, default=None)
