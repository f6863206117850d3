"""Cites metric reports as evidence: the line of the metric, not the first line of the report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from flowdiag.analyses.flink.tasks.placement import SubtaskKey
from flowdiag.analyses.model.finding import Evidence, cite_part
from flowdiag.analyses.queues.facts import GateQueue, Gauge, Sample, TaskManagerSample
from flowdiag.analyses.queues.measure import COUNTERS, GAUGES, MACHINE_GAUGES, OPERATOR_GAUGES
from flowdiag.parsers.focus import Focus

WORKING: Final = ("busy", "idle", "in_pool")
WAITING: Final = ("back_pressured", "is_back_pressured", "out_pool")
"""Gauges that show how busy a subtask is and how long it waits for downstream tasks, best first."""
COUNTED: Final = ("records_in",)
"""The counter that shows how many records a subtask receives."""
GC_TIME: Final = "gc"
"""The time of the garbage collectors. It is a counter, but is cited like a gauge."""
_PEAKS: Final = frozenset(
    {"is_back_pressured", "in_pool", "out_pool", "floating", "exclusive", "input_queue"}
    | {"segments_requested"}
)
"""Flags, queue lengths and pool usage, whose peaks count instead of their means."""
_PER_SECOND: Final = {"is_back_pressured": 1000.0}
_NAMES: Final = {
    **GAUGES,
    **OPERATOR_GAUGES,
    **MACHINE_GAUGES,
    "records_in": COUNTERS["records_in"],
    GC_TIME: ("Status.JVM.GarbageCollector.All.Time", "Status.JVM.GarbageCollector.*.Time"),
}


def _best_first(report: Sample | TaskManagerSample, gauges: Sequence[str]) -> list[str]:
    """Return the gauges that a report contains, with the stronger of the two back-pressure gauges first.

    The time only covers waits for a buffer. The flag is also true between two such waits.
    """
    counted = report.increases if isinstance(report, Sample) else {}
    known = [name for name in gauges if name in report.gauges or name in counted]
    if known == ["in_pool"] and not _judged_value(report.gauges["in_pool"], "in_pool"):
        return [
            "records_in"
        ]  # empty buffers prove nothing, and every report has a number of records
    flag, time = (report.gauges.get(name) for name in ("is_back_pressured", "back_pressured"))
    if "back_pressured" in known and flag and time and 1000 * flag.mean > time.mean:
        known.sort(key=lambda name: name != "is_back_pressured")
    return known


def _judged_value(gauge: Gauge | None, name: str) -> float | None:
    if gauge is None:
        return None
    return gauge.high if name in _PEAKS else gauge.mean


def strongest_reports(
    reports: Sequence[Sample], gauges: Sequence[str], most: int = 2
) -> list[Sample]:
    """Return the reports with the highest values of the first gauge they contain, in order of time."""

    def strength(report: Sample) -> float:
        for name in _best_first(report, gauges):
            gauge = report.gauges.get(name)
            if gauge is None:
                return report.increases.get(name, 0.0)
            return -gauge.mean if name == "idle" else gauge.mean * _PER_SECOND.get(name, 1.0)
        return float("-inf")

    strongest = sorted(reports, key=strength, reverse=True)[:most]
    return sorted(strongest, key=lambda report: report.window)


def evidence_in(
    report: Sample | TaskManagerSample, gauges: Sequence[str], key: SubtaskKey | None
) -> Evidence | None:
    """Cite the first of these gauges that a report contains.

    Args:
        report: report of a subtask or a TaskManager in one window.
        gauges: names of `measure.GAUGES`.
        key: the subtask; None for a report of a TaskManager.
    """
    return cite_part(
        report.ref,
        Focus(
            metrics=tuple(
                (name, _judged_value(report.gauges.get(gauge), gauge))
                for gauge in (*_best_first(report, gauges), *({GC_TIME} & set(gauges)))
                for name in _NAMES[gauge]
            ),
            task=None if key is None else key.task,
            subtask_index=None if key is None else key.subtask_index,
            taskmanager=report.taskmanager,
            until_us=report.last_us,
        ),
    )


def gate_evidence(gate: GateQueue) -> Evidence | None:
    """Return the line with the longest queue of an input gate, as evidence."""
    names = (f"{group}.Input.{gate.gate}.maxQueueLen" for group in ("Shuffle.Netty", "Network"))
    return cite_part(
        gate.ref,
        Focus(
            metrics=tuple((name, gate.longest) for name in names),
            task=gate.key.task,
            subtask_index=gate.key.subtask_index,
        ),
    )
