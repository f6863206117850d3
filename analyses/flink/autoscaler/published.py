"""Reads the metrics that the autoscaler of the Kubernetes Operator publishes for each vertex.

The operator names them `….AutoScaler.jobVertexID.ID.METRIC.Current` and `.Average` (Slf4j, Graphite). Prometheus has
the ID of the vertex and the name of the resource as labels. Source: `AutoscalerFlinkMetrics` of Apache's library.
"""

from __future__ import annotations

import math
import re
from typing import Final

from flowdiag.analyses.flink.autoscaler.formula import NAN
from flowdiag.analyses.flink.autoscaler.state import State
from flowdiag.parsers.flink.prometheus import parse_sample

SIGN: Final = "AutoScaler"
_SERIES: Final = re.compile(r"AutoScaler_jobVertexID_([A-Z_]{3,60})_(Current|Average)")
_LINE: Final = re.compile(
    r"(?:\.resource\.[^.\s]{1,253}\.(?P<resource>[^.\s]{1,253})\.[^\n]{0,200}?)?"
    r"\bAutoScaler\.jobVertexID\.(?P<vertex>[0-9a-f]{32})\.(?P<metric>[A-Z_]{3,60})\.(?P<kind>Current|Average)"
    r"[:=\s]{1,4}(?P<value>-?[0-9]{1,25}(?:\.[0-9]{1,25})?(?:E-?[0-9]{1,3})?|-?Infinity)(?![\w.])"
)


def published_states(text: str) -> list[State]:
    """Return the latest published metrics of each resource in a scrape or a log.

    >>> text = "op.k8soperator.prod.op.resource.prod.orders.FlinkDeployment.AutoScaler.jobVertexID.%s.LAG.Current: 5.0"
    >>> [state.name for state in published_states(text % ("a" * 32))]
    ['orders']
    """
    found: dict[str, dict[str, dict[str, tuple[float, float]]]] = {}
    for line in text.splitlines():
        if SIGN not in line:
            continue
        for resource, vertex, metric, kind, value in (
            *_values_in_sample(line),
            *_values_in_line(line),
        ):
            metrics = found.setdefault(resource, {}).setdefault(vertex, {})
            current, average = metrics.get(metric, (NAN, NAN))
            metrics[metric] = (value, average) if kind == "Current" else (current, value)
    return [State(name=name, published=vertices) for name, vertices in found.items()]


_Value = tuple[str, str, str, str, float]
"""Resource, vertex, metric, `Current` or `Average`, and the value."""


def _values_in_sample(line: str) -> list[_Value]:
    series = _SERIES.search(line)
    sample = parse_sample(line.encode()) if series is not None else None
    if series is None or sample is None or math.isnan(sample[2]):
        return []
    labels = sample[1]
    vertex = labels.get("jobVertexID", "")
    return [(labels.get("resourcename", ""), vertex, series[1], series[2], sample[2])]


def _values_in_line(line: str) -> list[_Value]:
    return [
        (hit["resource"] or "", hit["vertex"], hit["metric"], hit["kind"], float(hit["value"]))
        for hit in _LINE.finditer(line)
    ]
