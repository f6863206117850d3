"""The autoscaler options that the formula uses, with their defaults."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from flowdiag.parsers.units import duration_ms

PREFIX: Final = "job.autoscaler."
# Before version 1.6, the operator added this prefix to every option.
_OLD_PREFIX: Final = "kubernetes.operator."


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Options by name, with durations in seconds. The defaults apply to versions 1.7 to 1.15."""

    target_utilization: float = 0.7
    utilization_boundary: float = 0.3
    utilization_max: float | None = None
    utilization_min: float | None = None
    catch_up_s: float = 1800
    restart_s: float = 300
    tracks_restart: bool = False
    restart_limit_s: float = 900
    max_scale_up: float = 100_000
    max_scale_down: float = 0.6
    min_parallelism: int = 1
    max_parallelism: int = 200
    backlog_s: float = 300
    observed_switch: float = 0.15
    min_observations: int = 2
    effectiveness: float = 0.1
    blocks_ineffective: bool = False
    aggregator: str = "MAX"
    scale_down_interval_s: float = 3600
    gc_pressure: float = 1
    heap_usage: float = 1
    excluded: tuple[str, ...] = ()
    scalability: bool = False
    scalability_min_observations: int = 3
    scalability_min: float = 0.5

    def expected_restart_s(self, measured: Sequence[float]) -> float:
        """Return the restart time that the formula uses."""
        if not self.tracks_restart or not measured:
            return self.restart_s
        return min(math.floor(max(measured)), self.restart_limit_s)

    @property
    def upper_bound(self) -> float:
        """The utilization above which a task is scaled up."""
        given = self.utilization_max
        return self.target_utilization + self.utilization_boundary if given is None else given

    @property
    def lower_bound(self) -> float:
        """The utilization below which a task is scaled down."""
        given = self.utilization_min
        return self.target_utilization - self.utilization_boundary if given is None else given


OPTIONS: Final = {
    # If two names set the same option, the later one wins, as in version 1.11 and later.
    "target.utilization": "target_utilization",
    "utilization.target": "target_utilization",
    "target.utilization.boundary": "utilization_boundary",
    "utilization.max": "utilization_max",
    "utilization.min": "utilization_min",
    "catch-up.duration": "catch_up_s",
    "restart.time": "restart_s",
    "restart.time-tracking.enabled": "tracks_restart",
    "restart.time-tracking.limit": "restart_limit_s",
    "scale-up.max-factor": "max_scale_up",
    "scale-down.max-factor": "max_scale_down",
    "vertex.min-parallelism": "min_parallelism",
    "vertex.max-parallelism": "max_parallelism",
    "backlog-processing.lag-threshold": "backlog_s",
    "observed-true-processing-rate.switch-threshold": "observed_switch",
    "observed-true-processing-rate.min-observations": "min_observations",
    "scaling.effectiveness.threshold": "effectiveness",
    "scaling.effectiveness.detection.enabled": "blocks_ineffective",
    "metrics.busy-time.aggregator": "aggregator",
    "scale-down.interval": "scale_down_interval_s",
    "memory.gc-pressure.threshold": "gc_pressure",
    "memory.heap-usage.threshold": "heap_usage",
    "vertex.exclude.ids": "excluded",
    "observed-scalability.enabled": "scalability",
    "observed-scalability.min-observations": "scalability_min_observations",
    "observed-scalability.coefficient-min": "scalability_min",
}
"""Fields of `Settings` by option, without the prefix."""
_KINDS: Final = {field.name: str(field.type) for field in fields(Settings)}


def settings_from(options: Mapping[str, str], base: Settings | None = None) -> Settings:
    """Return `base` with the given options applied. Unreadable values keep their defaults.

    >>> settings_from({"job.autoscaler.restart.time": "90 s"}).restart_s
    90.0
    """
    found: dict[str, Any] = {}
    for name, field in OPTIONS.items():
        text = options.get(PREFIX + name, options.get(_OLD_PREFIX + PREFIX + name))
        value = None if text is None else _value(field, text.strip())
        if value is not None:
            found[field] = value
    return replace(base or Settings(), **found)


def _value(field: str, text: str) -> Any:
    kind = _KINDS[field]
    if field.endswith("_s"):
        milliseconds = duration_ms(text)
        return None if milliseconds is None else milliseconds / 1000
    if kind == "bool":
        return text.lower() == "true"
    if kind == "str":
        return text.upper()
    if kind.startswith("tuple"):
        return tuple(part.strip() for part in text.split(";") if part.strip())
    try:
        number = float(text)
    except ValueError:
        return None
    if not math.isfinite(number):
        return None
    return int(number) if kind == "int" else number
