"""Extracts the values from Flink's responses that determine what `flowdiag collect` requests next."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from flowdiag.parsers.json_values import as_count, as_number, objects_at
from flowdiag.parsers.live.metric_names import (
    GATE_METRICS,
    OPERATOR_METRICS,
    PROCESS_METRICS,
    SPLIT_METRICS,
    TASK_METRICS,
)
from flowdiag.parsers.units import TIME_UNITS, duration_ms

MAX_IDS: Final = 300  # maximum metric IDs of a vertex or of a source subtask


def interval_ms(value: object) -> int | None:
    """Parse an interval into milliseconds. Older configurations contain milliseconds without a unit.

    >>> interval_ms("5000"), interval_ms("5 s"), interval_ms("soon")
    (5000, 5000, None)
    """
    found = duration_ms(str(value), units=_INTERVAL_UNITS, iso=False, whole=True)
    return None if found is None else int(found)


_INTERVAL_UNITS: Final = {
    unit: TIME_UNITS[unit] for unit in ("ms", "s", "sec", "second", "seconds", "min", "m")
}


def task_ids(body: object) -> tuple[str, ...]:
    listed = metric_ids(body)
    chosen: list[str] = [name for name in TASK_METRICS if name in listed]
    chosen += [
        name
        for name in listed
        if GATE_METRICS.fullmatch(name)
        or (OPERATOR_METRICS.fullmatch(name) and not SPLIT_METRICS.fullmatch(name))
    ]
    return tuple(dict.fromkeys(chosen))[:MAX_IDS]


def process_ids(body: object) -> tuple[str, ...]:
    return tuple(name for name in metric_ids(body) if PROCESS_METRICS.fullmatch(name))[:MAX_IDS]


def metric_ids(body: object) -> list[str]:
    items = body if isinstance(body, list) else []
    found = (item.get("id") for item in items if isinstance(item, Mapping))
    return sorted(name for name in found if isinstance(name, str) and len(name) < 300)


def source_ids(body: object, known: Collection[str]) -> dict[int, tuple[str, ...]]:
    """Return the metric IDs that only some subtasks of a source have, by subtask.

    Args:
        body: the response with all metrics of the vertex.
        known: IDs that are requested for every subtask.
    """
    found: dict[int, list[str]] = {}
    for name in metric_ids(body):
        index, _, rest = name.partition(".")
        if index.isdecimal() and OPERATOR_METRICS.fullmatch(rest) and rest not in known:
            found.setdefault(int(index), []).append(rest)
    return {index: tuple(names[:MAX_IDS]) for index, names in found.items()}


def busy_share(value: Mapping[str, float]) -> float:
    """Return the share of time that a subtask is busy: up to Flink 1.12, neither idle nor back-pressured."""
    if "busyTimeMsPerSecond" in value:
        return value["busyTimeMsPerSecond"] / 1000
    if "idleTimeMsPerSecond" in value and not value.get("isBackPressured"):
        return 1 - value["idleTimeMsPerSecond"] / 1000
    return 0.0


MEANS_OF_A_MINUTE: Final = (1, 18)
"""The first version whose busy, idle and back-pressured times are means over the last minute."""
_MINUTE_MS: Final = 60_000
_TIMES: Final = ("busyTimeMsPerSecond", "backPressuredTimeMsPerSecond", "idleTimeMsPerSecond")


Values = dict[tuple[str, int], dict[str, float]]
"""Values of metrics by the ID of the vertex and the index of the subtask."""


def add_values(vertex_id: str, items: Iterable[Any], values: Values) -> None:
    """Add the metrics in a response about a vertex, with 1 and 0 for true and false."""
    for item in items:
        if not isinstance(item, Mapping) or not isinstance(item.get("id"), str):
            continue
        index, _, name = item["id"].partition(".")
        text = str(item.get("value")).lower()
        value = {"true": 1.0, "false": 0.0}.get(text, as_number(item.get("value")))
        if value is not None and index.isdecimal():
            values.setdefault((vertex_id, int(index)), {})[name] = value


def recent_loads(values: Values, before: Values, elapsed_ms: int) -> Values:
    """Return the values with the times since an earlier request; see `since_before`."""
    return {
        key: since_before(value, before.get(key, {}), elapsed_ms) for key, value in values.items()
    }


def since_before(
    value: Mapping[str, float], before: Mapping[str, float], elapsed_ms: int
) -> dict[str, float]:
    """Estimate the times since an earlier request from means over the last minute.

    A task that blocks suddenly needs almost a minute to reach a mean of 90%.

    >>> since_before({"busyTimeMsPerSecond": 170.0}, {"busyTimeMsPerSecond": 0.0}, 10_000)
    {'busyTimeMsPerSecond': 1000.0}
    """
    factor = _MINUTE_MS / min(max(elapsed_ms, 1000), _MINUTE_MS)
    recent = {
        name: min(max(before[name] + (value[name] - before[name]) * factor, 0.0), 1000.0)
        for name in _TIMES
        if name in value and name in before
    }
    return {**value, **recent}


def subtask_loads(body: object) -> Iterator[tuple[int, float]]:
    """Yield each subtask with its load, the share of the time that it is not idle."""
    for item in objects_at(body, "subtasks") if isinstance(body, Mapping) else ():
        index = as_count(item.get("subtask"))
        shares = [as_number(item.get(name)) or 0.0 for name in ("busyRatio", "ratio")]
        if index is not None:
            yield index, max(shares)


def options_of(body: object) -> dict[str, str]:
    """Return the options in a response from `/jobmanager/config`."""
    items = body if isinstance(body, list) else []
    found = ((item.get("key"), item.get("value")) for item in items if isinstance(item, Mapping))
    return {key: value for key, value in found if isinstance(key, str) and isinstance(value, str)}


def ended_rescales(body: object) -> list[str]:
    """Return the IDs of ended rescales in a response from `/jobs/:jobid/rescales/history`, latest first."""
    items = body if isinstance(body, list) else []
    ended = (
        str(item.get("rescaleUuid"))
        for item in items
        if isinstance(item, Mapping) and item.get("terminalState")
    )
    return [name for name in ended if re.fullmatch(r"[0-9a-f]{32}", name)]
