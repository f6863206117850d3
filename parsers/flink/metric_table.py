"""The table of known metrics, `formats/metrics.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from flowdiag.parsers.formats import read_format


@dataclass(frozen=True, slots=True)
class KnownMetric:
    """A metric in `formats/metrics.toml`.

    Attributes:
        name: name as registered. `#` matches a number; `*` matches a part without dots, or the name of a split.
        scope: task, task-or-operator, operator, process, jm-job or jm.
        kind: counter, gauge, meter or histogram.
        unit: unit of the registered values (nanoseconds are not converted).
        versions: range of Flink versions that register the metric.
        absent: the value that means "none yet", which does not count as a sample; None if there is none.
    """

    name: str
    scope: str
    kind: str
    unit: str
    versions: str
    absent: float | None


@cache
def known_metrics() -> dict[str, KnownMetric]:
    """Return all metrics of the table by name."""
    return {
        name: KnownMetric(
            name=name,
            scope=scope,
            kind=row["kind"],
            unit=row["unit"],
            versions=row["versions"],
            absent=float(row["absent"]) if "absent" in row else None,
        )
        for scope, rows in read_format("formats/metrics.toml").items()
        for name, row in rows.items()
    }


@cache
def _lengths() -> dict[str, list[int]]:
    """Return the possible lengths of a metric name in parts, longest first, by its last part."""
    found: dict[str, set[int]] = {}
    for name in known_metrics():
        parts = name.split(".")
        found.setdefault(parts[-1], set()).add(len(parts))
    return {last: sorted(lengths, reverse=True) for last, lengths in found.items()}


def recognize_metric(parts: list[str]) -> tuple[KnownMetric, int] | None:
    """Find the known metric at the end of an identifier's parts; the longest name wins.

    Returns:
        The metric and the number of parts of its name.

    >>> recognize_metric(["h", "taskmanager", "t", "Status", "JVM", "CPU", "Load"])[1]
    4
    >>> recognize_metric("0.window.sums.rocksdb.is-write-stopped".split("."))[1]
    3
    >>> recognize_metric("Source: a.split.topic.v1-0.watermark.currentWatermark".split("."))[1]
    5
    """
    names = known_metrics()
    if (found := _metric_of_group(parts, names)) is not None:
        return found
    for length in _lengths().get(parts[-1], ()):
        if length > len(parts):
            continue
        tail = parts[-length:]
        metric = names.get(".".join(tail))
        if metric is None:
            metric = names.get(".".join("#" if part.isdecimal() else part for part in tail))
        if metric is None and length > 2:
            metric = names.get(".".join((*tail[:-2], "*", tail[-1])))
        if metric is not None:
            return metric, length
    metric = names.get(parts[-1].translate(_DIGITS_TO_NUMBER))
    return None if metric is None else (metric, 1)


def _metric_of_group(
    parts: list[str], names: Mapping[str, KnownMetric]
) -> tuple[KnownMetric, int] | None:
    """Find a metric whose identifier also contains the name of a split or column family, which may contain dots."""
    group = parts[-2] if len(parts) > 2 else None
    if group == STORE and (metric := names.get(f"*.{STORE}.{parts[-1]}")) is not None:
        return metric, 4 if parts[-4:-3] == [FAMILY] else 3
    if group == "watermark" and SPLIT in parts[:-3]:
        metric = names.get(f"{SPLIT}.*.watermark.{parts[-1]}")
        if metric is not None:
            return metric, parts[:-3][::-1].index(SPLIT) + 4
    return None


def parts_of(identifier: str) -> list[str]:
    """Split an identifier at its dots, including the dot in `rocksdb.NAME` if a reporter replaced it.

    >>> parts_of("tm.job.window.0.sums.rocksdb_is-write-stopped")[-3:]
    ['sums', 'rocksdb', 'is-write-stopped']
    """
    parts = identifier.split(".")
    if parts[-1].startswith(f"{STORE}_"):
        parts[-1:] = parts[-1].split("_", 1)
    return parts


SPLIT: Final = "split"
STORE: Final = "rocksdb"
"""Metric group of RocksDB and ForSt."""
FAMILY: Final = "column_family"
"""Metric group above the name of a column family, if that name is a metric variable."""
_DIGITS_TO_NUMBER: Final = {ord(digit): "#" for digit in "0123456789"}
