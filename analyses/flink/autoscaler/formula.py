"""The autoscaler's formulas, from metrics to a rate and from a rate to a parallelism.

They follow `ScalingMetricEvaluator` and `JobVertexScaler` of operator versions 1.7 to 1.15. Rates are records per
second.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from typing import Final

from flowdiag.analyses.flink.autoscaler.settings import Settings

Window = Mapping[int, Mapping[str, Mapping[str, float]]]
"""Collected metrics by time (nanoseconds), vertex and name."""

NAN: Final = math.nan
MOST: Final = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Vertex:
    """A job vertex with its inputs, their partitioning, and its limits."""

    id: str
    parallelism: int
    name: str | None = None
    max_parallelism: int = MOST
    inputs: Mapping[str, str] = field(default_factory=dict)
    partitions: int = 0

    @property
    def aligns(self) -> bool:
        """Whether the parallelism should divide the number of key groups or partitions."""
        return self.partitions > 0 or "HASH" in self.inputs.values()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """The evaluated metrics of a vertex."""

    vertex: str
    parallelism: int
    true_rate: float
    target_rate: float
    catch_up_rate: float
    load: float = NAN
    lag: float = NAN
    scale_up_below: float = NAN
    scale_down_above: float = NAN
    observed: bool = False
    """Whether the true rate was observed while the source caught up rather than derived from busy time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastScaling:
    """An earlier scaling of a vertex, as the formula needs it."""

    before: int
    after: int
    true_rate: float
    expected_rate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """The proposed parallelism of a vertex, and the limit that determined it.

    Args:
        factor: required capacity divided by the true rate, within the limits.
        limits: `scale-up-factor`, `scale-down-factor`, `max-parallelism`, `min-parallelism`, `key-groups`.
        reason: why nothing changes: `no-rate`, `balanced`, `ineffective`, `delayed`, `excluded`; None if it does.
        increase: the share of the expected increase that the last scaling achieved.
    """

    evaluated: Evaluated
    parallelism: int
    factor: float = NAN
    capacity: float = NAN
    limits: tuple[str, ...] = ()
    reason: str | None = None
    increase: float | None = None

    @property
    def is_outside_bounds(self) -> bool:
        """Whether the true rate is outside the bounds of the utilization target."""
        rate = self.evaluated.true_rate
        return rate < self.evaluated.scale_up_below or rate > self.evaluated.scale_down_above


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The result of one round: `reason` is `scale`, `balanced`, `within-bounds` or `memory-pressure`."""

    proposals: Mapping[str, Proposal]
    reason: str

    def changes(self, *, with_delayed: bool = False) -> dict[str, int]:
        """Return the new parallelism of each vertex to rescale.

        Args:
            with_delayed: whether a rescale of other vertices also applies delayed scale-downs, as in version 1.10.
        """
        moving = (None, "delayed") if with_delayed else (None,)
        if self.reason != "scale":
            return {}
        return {v: p.parallelism for v, p in self.proposals.items() if p.reason in moving}


def evaluate(
    window: Window, vertices: Sequence[Vertex], settings: Settings, restart_s: float
) -> dict[str, Evaluated]:
    """Evaluate the metrics of a window; `vertices` are in topological order."""
    times = sorted(window)
    backlog = any(
        _lag_s(window, times, vertex.id) > settings.backlog_s
        for vertex in vertices
        if not vertex.inputs
    )
    outputs = {v.id: sum(v.id in other.inputs for other in vertices) for v in vertices}
    found: dict[str, Evaluated] = {}
    for vertex in vertices:
        target, catch_up = _demand(vertex, vertices, window, times, settings, found, outputs)
        true_rate, load, observed = _true_rate(window, times, vertex, settings)
        upper, lower = (1.0, 0.0) if backlog else (settings.upper_bound, settings.lower_bound)
        target, catch_up = round_rate(target), round_rate(catch_up)
        found[vertex.id] = Evaluated(
            vertex=vertex.id,
            parallelism=vertex.parallelism,
            true_rate=round_rate(true_rate),
            target_rate=target,
            catch_up_rate=catch_up,
            load=round_rate(load),
            lag=_last(window, times, vertex.id, "LAG"),
            scale_up_below=capacity(target, catch_up, upper, settings, None),
            scale_down_above=capacity(target, catch_up, lower, settings, restart_s),
            observed=observed,
        )
    return found


def _demand(
    vertex: Vertex,
    vertices: Sequence[Vertex],
    window: Window,
    times: Sequence[int],
    settings: Settings,
    found: Mapping[str, Evaluated],
    outputs: Mapping[str, int],
) -> tuple[float, float]:
    """Return the rate at which records arrive, and the additional rate needed to work off the backlog."""
    if not vertex.inputs:
        arriving = rate(window, times, vertex.id, "NUM_RECORDS_IN")
        arriving += rate(window, times, vertex.id, "LAG")
        lag = _last(window, times, vertex.id, "LAG")
        behind = 0.0 if math.isnan(lag) or not settings.catch_up_s else lag / settings.catch_up_s
        return max(0.0, arriving), behind
    target = catch_up = 0.0
    for upstream in vertex.inputs:
        taken = rate(window, times, upstream, "NUM_RECORDS_IN")
        passed = _edge_rate(upstream, vertex, vertices, window, times, outputs)
        ratio = passed / taken if taken > 0 and passed > 0 else 0.0
        target += found[upstream].target_rate * ratio
        catch_up += found[upstream].catch_up_rate * ratio
    return target, catch_up


def _edge_rate(
    upstream: str,
    vertex: Vertex,
    vertices: Sequence[Vertex],
    window: Window,
    times: Sequence[int],
    outputs: Mapping[str, int],
) -> float:
    """Return how many records per second cross an edge."""
    if len(vertex.inputs) == 1:
        return rate(window, times, vertex.id, "NUM_RECORDS_IN")
    others = [other for other in vertex.inputs if other != upstream]
    if all(outputs[other] == 1 for other in others):
        sent = sum(rate(window, times, other, "NUM_RECORDS_OUT") for other in others)
        if not math.isnan(sent):
            return rate(window, times, vertex.id, "NUM_RECORDS_IN") - sent
    return rate(window, times, upstream, "NUM_RECORDS_OUT")


def _true_rate(
    window: Window, times: Sequence[int], vertex: Vertex, settings: Settings
) -> tuple[float, float, bool]:
    """Return the rate that the vertex can process, its load, and whether the rate was observed."""
    if settings.aggregator == "AVG":
        busy = rate(window, times, vertex.id, "ACCUMULATED_BUSY_TIME") / vertex.parallelism
    else:
        busy = average(window, times, vertex.id, "LOAD") * 1000
    taken = rate(window, times, vertex.id, "NUM_RECORDS_IN")
    if settings.aggregator != "AVG":
        # Version 1.14 and later record the rate itself.
        recorded = average(window, times, vertex.id, "NUM_RECORDS_IN_PER_SECOND")
        taken = recorded if math.isfinite(recorded) else taken
    by_busy_time = math.inf if taken == 0 else _divide(taken, busy / 1000)
    seen = average(window, times, vertex.id, "OBSERVED_TPR", settings.min_observations)
    if math.isnan(seen):
        observed = False
    elif not math.isfinite(by_busy_time):
        observed = True
    else:
        observed = by_busy_time > seen * (1 + settings.observed_switch)
    return seen if observed else by_busy_time, busy / 1000, observed


def _divide(dividend: float, divisor: float) -> float:
    """Divide as Java does, where division by zero gives infinity."""
    if divisor == 0:
        return (
            math.nan if dividend == 0 or math.isnan(dividend) else math.copysign(math.inf, dividend)
        )
    return dividend / divisor


def _lag_s(window: Window, times: Sequence[int], vertex: str) -> float:
    taken = rate(window, times, vertex, "NUM_RECORDS_IN")
    lag = _last(window, times, vertex, "LAG")
    return 0.0 if math.isnan(taken) or math.isnan(lag) else _divide(lag, taken)


def _last(window: Window, times: Sequence[int], vertex: str, name: str) -> float:
    return window[times[-1]].get(vertex, {}).get(name, NAN)


def _values(
    window: Window, times: Sequence[int], vertex: str, name: str
) -> list[tuple[int, float]]:
    found = ((time, window[time].get(vertex, {}).get(name, NAN)) for time in times)
    return [(time, value) for time, value in found if not math.isnan(value)]


def rate(window: Window, times: Sequence[int], vertex: str, name: str) -> float:
    """Return the change per second between the first and the last value; NaN with fewer than two."""
    values = _values(window, times, vertex, name)
    if len(values) < 2:
        return NAN
    (begin, first), (end, last) = values[0], values[-1]
    return 1000 * (last - first) / max(1, (end - begin) // 1_000_000)


def average(window: Window, times: Sequence[int], vertex: str, name: str, least: int = 1) -> float:
    """Return the mean of the finite values, or infinity if all values are infinite."""
    values = [value for _, value in _values(window, times, vertex, name)]
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return math.inf if values else NAN
    return NAN if len(finite) < least else sum(finite) / len(finite)


def round_rate(value: float) -> float:
    """Round to three digits as the autoscaler does, but never down to 0.

    >>> round_rate(83.33351), round_rate(0.0001)
    (83.334, 0.0001)
    """
    if not math.isfinite(value):
        return value
    found = float(Decimal(repr(value)).quantize(Decimal("0.001"), ROUND_HALF_UP))
    return found or value


def capacity(
    target: float, catch_up: float, utilization: float, settings: Settings, restart_s: float | None
) -> float:
    """Return the rate that a vertex must be able to process at this utilization.

    >>> capacity(70, 5, 0.7, Settings(catch_up_s=100), 10)
    112.0
    """
    utilization = min(1.0, max(0.0, utilization))
    if math.isnan(target):
        return NAN
    if utilization == 0:
        return math.inf
    # Records that arrive during a restart must be processed within the catch-up duration, too.
    restart = 0.0
    if restart_s is not None and settings.catch_up_s:
        restart = target * int(restart_s) / settings.catch_up_s
    total = catch_up + restart + target / utilization
    return total if not math.isfinite(total) else float(math.floor(total + 0.5))


def propose(
    evaluated: Evaluated,
    vertex: Vertex,
    settings: Settings,
    restart_s: float,
    history: Sequence[PastScaling] = (),
    *,
    delayed: bool = False,
) -> Proposal:
    """Return the proposed parallelism of one vertex.

    Args:
        evaluated: its metrics.
        vertex: its limits.
        settings: options of the autoscaler.
        restart_s: the expected restart time.
        history: earlier scalings, oldest first.
        delayed: whether `scale-down.interval` still delays a scale-down.
    """
    now = vertex.parallelism
    required = capacity(
        evaluated.target_rate,
        evaluated.catch_up_rate,
        settings.target_utilization,
        settings,
        restart_s,
    )
    if math.isnan(evaluated.true_rate) or math.isnan(required):
        return Proposal(evaluated=evaluated, parallelism=now, reason="no-rate")
    factor = _divide(required, evaluated.true_rate) / scalability(history, settings)
    limits: list[str] = []
    if factor < 1 - settings.max_scale_down:
        factor, limits = 1 - settings.max_scale_down, ["scale-down-factor"]
    elif factor > 1 + settings.max_scale_up:
        factor, limits = 1 + settings.max_scale_up, ["scale-up-factor"]
    size, more = fit(factor, vertex, settings)
    increase = None
    reason = None
    if vertex.id in settings.excluded:
        reason = "excluded"
    elif size == now:
        reason = "balanced"
    elif size < now:
        reason = "delayed" if delayed and settings.scale_down_interval_s > 0 else None
    elif history and history[-1].after == now and history[-1].before < now:
        increase = _achieved_share(evaluated.true_rate, history[-1])
        if increase < settings.effectiveness and settings.blocks_ineffective:
            reason = "ineffective"
    return Proposal(
        evaluated=evaluated,
        parallelism=size,
        factor=factor,
        capacity=required,
        limits=(*limits, *more),
        reason=reason,
        increase=increase,
    )


def _achieved_share(true_rate: float, last: PastScaling) -> float:
    """Return which share of the expected increase the last scaling achieved."""
    return _divide(true_rate - last.true_rate, last.expected_rate - last.true_rate)


def fit(factor: float, vertex: Vertex, settings: Settings) -> tuple[int, tuple[str, ...]]:
    """Return the parallelism for a scale factor within all limits, and the limits that applied.

    >>> fit(3.4, Vertex(id="v", parallelism=1, max_parallelism=24, inputs={"s": "HASH"}), Settings())
    (4, ())
    >>> fit(5.0, Vertex(id="v", parallelism=1, max_parallelism=128, inputs={"s": "HASH"}), Settings())
    (8, ('key-groups',))
    """
    now = vertex.parallelism
    least = min(now, settings.min_parallelism)
    most = min(vertex.max_parallelism, max(now, settings.max_parallelism))
    product = factor * now
    # Java casts NaN to 0: an infinite true rate and an infinite capacity.
    raw = 0 if math.isnan(product) else MOST if product >= MOST else math.ceil(product)
    size = min(max(least, raw), most)
    limits = ("max-parallelism",) if size < raw else ("min-parallelism",) if size > raw else ()
    if not vertex.aligns or size < 1:
        return size, limits
    aligned = _align(size, vertex.partitions or vertex.max_parallelism, most, least)
    return aligned, limits if aligned == size else (*limits, "key-groups")


def _align(size: int, groups: int, most: int, least: int) -> int:
    """Return a parallelism that spreads the key groups or partitions evenly."""
    highest = min(groups if size > groups // 2 else groups // 2, most)
    for candidate in range(size, highest + 1):
        if groups % candidate == 0:
            return candidate
    for candidate in range(size, 0, -1):
        if groups // candidate > groups // size:
            return max(candidate if groups % candidate == 0 else candidate + 1, least)
    return max(0, least)


def scalability(history: Sequence[PastScaling], settings: Settings) -> float:
    """Return the share of a linear speed-up that earlier scalings achieved (version 1.12 and later)."""
    if not settings.scalability or len(history) < max(1, settings.scalability_min_observations):
        return 1.0
    smallest = min(reversed(history), key=lambda past: past.before)
    base = smallest.true_rate / smallest.before if smallest.before else NAN
    squares = sum(past.before**2 for past in history) * base
    products = sum(past.before * past.true_rate for past in history)
    if not math.isfinite(squares) or not math.isfinite(products) or squares == 0:
        return 1.0
    found = max(settings.scalability_min, min(1.0, products / squares))
    return math.ceil(round(found * 100, 9)) / 100


def decide(
    evaluated: Mapping[str, Evaluated],
    vertices: Sequence[Vertex],
    settings: Settings,
    restart_s: float,
    history: Mapping[str, Sequence[PastScaling]],
    *,
    delayed: frozenset[str] = frozenset(),
    gc_pressure: float = NAN,
    heap_usage: float = NAN,
) -> Decision:
    """Return the decision of one round.

    Args:
        evaluated: the metrics of each vertex.
        vertices: in topological order.
        settings: options of the autoscaler.
        restart_s: the expected restart time.
        history: earlier scalings by vertex.
        delayed: vertices whose scale-down is still delayed.
        gc_pressure, heap_usage: of the TaskManagers; NaN if unknown.
    """
    if gc_pressure > settings.gc_pressure or heap_usage > settings.heap_usage:
        return Decision(proposals={}, reason="memory-pressure")
    proposals = {
        vertex.id: propose(
            evaluated[vertex.id],
            vertex,
            settings,
            restart_s,
            history.get(vertex.id, ()),
            delayed=vertex.id in delayed,
        )
        for vertex in vertices
        if vertex.id in evaluated
    }
    changed = [p for p in proposals.values() if p.reason is None]
    if not changed:
        return Decision(proposals=proposals, reason="balanced")
    outside = any(proposal.is_outside_bounds for proposal in changed)
    return Decision(proposals=proposals, reason="scale" if outside else "within-bounds")
