"""Reads the autoscaler's stored state, an operator ConfigMap with YAML values.

`collectedMetrics` and `scalingHistory` are gzipped and base64-encoded; `flowdiag collect` unpacks them.
"""

from __future__ import annotations

import base64
import math
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from flowdiag.analyses.flink.autoscaler.formula import NAN, PastScaling, Window
from flowdiag.parsers.json_values import as_integer, object_at

MOST_BYTES: Final = 20 * 1024 * 1024
"""The largest state that the operator reads back."""
_INSTANT: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?Z"
)
_NUMBERS: Final = {
    "Infinity": math.inf,
    ".inf": math.inf,
    "-Infinity": -math.inf,
    "-.inf": -math.inf,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """One rescaling of a vertex by the autoscaler."""

    vertex: str
    at_ns: int
    before: int
    after: int
    metrics: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """The current value and the average of each metric, by name."""

    def average(self, name: str) -> float:
        """Return the average of a metric."""
        return self.metrics.get(name, (NAN, NAN))[1]

    def current(self, name: str) -> float:
        """Return the current value of a metric."""
        return self.metrics.get(name, (NAN, NAN))[0]

    @property
    def past(self) -> PastScaling:
        """The scaling as the formula expects it in its history."""
        return PastScaling(
            before=self.before,
            after=self.after,
            true_rate=self.average("TRUE_PROCESSING_RATE"),
            expected_rate=self.current("EXPECTED_PROCESSING_RATE"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The stored state of the autoscaler for one job."""

    name: str
    collected: Window = field(default_factory=dict)
    totals: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    """Job-wide metrics by time."""
    scalings: Sequence[Scaling] = ()
    overrides: Mapping[str, int] = field(default_factory=dict)
    restarts_s: Sequence[float] = ()
    """Measured restart times."""
    published: Mapping[str, Mapping[str, tuple[float, float]]] = field(default_factory=dict)
    """The current value and the average of published metrics, by vertex and name."""

    @property
    def vertices(self) -> tuple[str, ...]:
        """The vertices with stored state."""
        known = {v for sample in self.collected.values() for v in sample}
        scaled = (scaling.vertex for scaling in self.scalings)
        return tuple(sorted({*known, *self.overrides, *self.published, *scaled}))


def is_state(document: object) -> bool:
    """Return whether a decoded document is a ConfigMap of the autoscaler."""
    if not isinstance(document, Mapping) or document.get("kind") != "ConfigMap":
        return False
    data = object_at(document, "data")
    return "collectedMetrics" in data or "scalingHistory" in data


def state_of(document: Mapping[str, Any]) -> State:
    """Read a ConfigMap of the autoscaler, skipping what cannot be decoded.

    >>> data = {"parallelismOverrides": "cbc357ccb763df2852fee8c4fc7d55f2:3"}
    >>> state_of({"metadata": {"name": "autoscaler-orders"}, "data": data}).overrides
    {'cbc357ccb763df2852fee8c4fc7d55f2': 3}
    """
    data = object_at(document, "data")
    collected, totals = collected_metrics(_yaml(data.get("collectedMetrics")))
    name = str(object_at(document, "metadata").get("name") or "")
    return State(
        name=name.removeprefix("autoscaler-"),
        collected=collected,
        totals=totals,
        scalings=scalings_of(_yaml(data.get("scalingHistory"))),
        overrides=_overrides(data.get("parallelismOverrides")),
        restarts_s=_restarts(_yaml(data.get("scalingTracking"))),
    )


def _yaml(text: object) -> object:
    """Decode one YAML value, which may be gzipped and base64-encoded."""
    if not isinstance(text, str) or not text.strip():
        return None
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        if text.startswith("H4sI"):
            packed = base64.b64decode(text)
            text = zlib.decompressobj(31).decompress(packed, MOST_BYTES).decode("utf-8", "replace")
        # Do not resolve values: Java and YAML write numbers and times differently.
        return YAML(typ="base", pure=True).load(text)
    except (ValueError, zlib.error, YAMLError, RecursionError):
        return None


def collected_metrics(value: object) -> tuple[Window, dict[int, dict[str, float]]]:
    """Return the metrics of vertices by time, vertex and name, and those of the job by time and name."""
    window: dict[int, dict[str, dict[str, float]]] = {}
    totals: dict[int, dict[str, float]] = {}
    for time, sample in _items(value):
        at_ns = instant_ns(time)
        if at_ns is None or not isinstance(sample, Mapping):
            continue
        window[at_ns] = {
            vertex: _floats(metrics) for vertex, metrics in _items(sample.get("vertexMetrics"))
        }
        totals[at_ns] = _floats(sample.get("globalMetrics"))
    return window, totals


def scalings_of(value: object) -> tuple[Scaling, ...]:
    """Return the scalings in a scaling history, oldest first."""
    found = []
    for vertex, history in _items(value):
        for time, summary in _items(history):
            at_ns = instant_ns(time)
            if at_ns is None or not isinstance(summary, Mapping):
                continue
            before = as_integer(_number(summary.get("currentParallelism")))
            after = as_integer(_number(summary.get("newParallelism")))
            if before is None or after is None:
                continue
            metrics = {
                name: (
                    _number(object_of(pair).get("current")),
                    _number(object_of(pair).get("average")),
                )
                for name, pair in _items(summary.get("metrics"))
            }
            found.append(
                Scaling(vertex=vertex, at_ns=at_ns, before=before, after=after, metrics=metrics)
            )
    return tuple(sorted(found, key=lambda scaling: (scaling.at_ns, scaling.vertex)))


def object_of(value: object) -> Mapping[str, Any]:
    """Return the value if it is an object, otherwise an empty mapping."""
    return value if isinstance(value, Mapping) else {}


def _restarts(value: object) -> tuple[float, ...]:
    """Return the measured restart times in seconds."""
    records = object_of(value).get("scalingRecords")
    found = (_number(object_of(record).get("restartDuration")) for _, record in _items(records))
    return tuple(seconds for seconds in found if math.isfinite(seconds))


def _overrides(text: object) -> dict[str, int]:
    """Parse comma-separated `vertex:parallelism` pairs, whose values may be quoted."""
    if not isinstance(text, str):
        return {}
    pairs = re.findall(r"['\"]?([0-9a-f]{32})['\"]?: ?['\"]?([0-9]{1,6})", text)
    return {vertex: int(parallelism) for vertex, parallelism in pairs}


def _items(value: object) -> list[tuple[str, Any]]:
    return [(str(k), v) for k, v in value.items()] if isinstance(value, Mapping) else []


def _floats(value: object) -> dict[str, float]:
    found = {name: _number(item) for name, item in _items(value)}
    return {name: number for name, number in found.items() if not math.isnan(number)}


def _number(value: object) -> float:
    """Parse a number that Java or YAML printed; NaN for anything else."""
    if isinstance(value, bool) or value is None:
        return NAN
    if isinstance(value, int | float):
        return float(value)
    text = str(value)
    if text in _NUMBERS:
        return _NUMBERS[text]
    try:
        return float(text)
    except ValueError:
        return NAN


def instant_ns(text: str) -> int | None:
    """Parse an instant to nanoseconds since 1970.

    >>> instant_ns("1970-01-01T00:00:01.5Z"), instant_ns("1.5"), instant_ns("never")
    (1500000000, 1500000000, None)
    """
    found = _INSTANT.fullmatch(text)
    if found is None:
        seconds = _number(text)
        return round(seconds * 1_000_000_000) if math.isfinite(seconds) else None
    from datetime import UTC, datetime

    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    try:
        whole = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    return int(whole.timestamp()) * 1_000_000_000 + int((found[7] or "").ljust(9, "0"))
