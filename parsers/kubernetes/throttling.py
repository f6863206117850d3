"""Finds pods whose CPU is throttled, from cAdvisor's metrics in Prometheus' exposition format."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from flowdiag.parsers.json_values import as_number
from flowdiag.parsers.kubernetes.objects import EndedContainer

_NAMES: Final = ("container_cpu_cfs_throttled_periods_total", "container_cpu_cfs_periods_total")
_SAMPLE: Final = re.compile(
    r"^container_cpu_cfs_(?P<throttled>throttled_)?periods_total\{(?P<labels>[^}\n]{1,2000})\} (?P<value>[0-9.eE+]{1,30})",
    re.MULTILINE,
)
_LABEL: Final = re.compile(
    r'\b(?P<name>pod|pod_name|container|container_name)="(?P<value>[^"\n]{1,253})"'
)
# Names of containers and pods that run Flink or Spark. A node's metrics contain all of its pods.
_ENGINE: Final = re.compile(
    r"flink-main-container|spark-kubernetes-(?:driver|executor)|taskmanager|jobmanager|-exec-[0-9]{1,9}$|-driver$"
)
_SHARE: Final = 0.5
"""Minimum share of throttled periods. Below it, pods are throttled only while they start, or in harmless bursts."""
_PERIODS: Final = 3000
"""Minimum number of periods: five minutes of 100 ms each. A starting JVM uses up the CPU limit for a minute."""


def looks_like_throttling(text: str) -> bool:
    """Return whether a text contains the metrics of CPU throttling.

    >>> looks_like_throttling("# TYPE container_cpu_cfs_periods_total counter")
    False
    """
    return all(name in text for name in _NAMES)


def throttled_pods(text: str) -> Iterator[EndedContainer]:
    """Yield Flink and Spark pods that were throttled in at least half of their CPU periods."""
    for (pod, container), counts in _counts(text).items():
        periods, held = _increase(counts.periods), _increase(counts.throttled)
        if periods >= _PERIODS and _SHARE * periods <= held <= periods:
            share = f"{held / periods:.0%} of {periods:,.0f} CPU periods"
            yield EndedContainer(
                "Throttled",
                offset=len(text[: counts.begin].encode("utf-8", "replace")),
                text=f"throttled in {share}{f' (container {container})' if container else ''}",
                pod=pod,
            )


@dataclass(slots=True)
class _Counts:
    begin: int
    periods: list[float] = field(default_factory=list)
    throttled: list[float] = field(default_factory=list)


def _counts(text: str) -> dict[tuple[str, str], _Counts]:
    """Return the samples by pod and container, in order of appearance."""
    found: dict[tuple[str, str], _Counts] = {}
    for hit in _SAMPLE.finditer(text):
        labels = {
            label["name"].removesuffix("_name"): label["value"]
            for label in _LABEL.finditer(hit["labels"])
        }
        pod, container = labels.get("pod"), labels.get("container", "")
        value = as_number(hit["value"])
        if pod is None or value is None:
            continue
        if _ENGINE.search(pod) or _ENGINE.search(container):
            counts = found.setdefault((pod, container), _Counts(hit.start()))
            (counts.throttled if hit["throttled"] else counts.periods).append(value)
    return found


def _increase(values: list[float]) -> float:
    """Return the increase between scrapes; for a single scrape, its value, which counts since the container started."""
    if len(values) < 2 or values[-1] < values[0]:
        return values[-1] if values else 0.0
    return values[-1] - values[0]
