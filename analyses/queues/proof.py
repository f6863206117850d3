"""Where in a report of metrics what was judged stands: its line is shown, not the head of the report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from flowdiag.analyses.flink.placement import SubtaskKey
from flowdiag.analyses.model.finding import Evidence, focused
from flowdiag.analyses.queues.facts import Gauge, Machine, Sample
from flowdiag.analyses.queues.measure import COUNTERS, GAUGES, MACHINE_GAUGES
from flowdiag.parsers.focus import Focus

WORKING: Final = ("busy", "idle", "in_pool")
WAITING: Final = ("back_pressured", "is_back_pressured", "out_pool")
"""Gauges that say how busy a subtask is, and how long it waits for those downstream; the best first."""
GC_TIME: Final = "gc"
"""As a gauge: the time of the garbage collectors, a counter."""
_AT_WORST: Final = frozenset(
    {"is_back_pressured", "in_pool", "out_pool", "floating", "exclusive", "input_queue"}
    | {"segments_requested"}
)
"""Flags, queues and shares of pools: it is their peaks that count, not what lies between."""
_PER_SECOND: Final = {"is_back_pressured": 1000.0}
_NAMES: Final = {
    **GAUGES,
    **MACHINE_GAUGES,
    "records_in": COUNTERS["records_in"],
    GC_TIME: ("Status.JVM.GarbageCollector.All.Time", "Status.JVM.GarbageCollector.*.Time"),
}


def _best_first(report: Sample | Machine, gauges: Sequence[str]) -> list[str]:
    """Those of the gauges that a report has; of the two that say who waits the one that says it louder.

    The time is counted while a thread waits for a buffer, the flag is true between two such waits as well.
    """
    known = [name for name in gauges if name in report.gauges]
    if known == ["in_pool"] and not _judged(report.gauges["in_pool"], "in_pool"):
        return ["records_in"]  # empty buffers prove nothing; what it takes in is there always
    flag, time = (report.gauges.get(name) for name in ("is_back_pressured", "back_pressured"))
    if "back_pressured" in known and flag and time and 1000 * flag.mean > time.mean:
        known.sort(key=lambda name: name != "is_back_pressured")
    return known


def _judged(gauge: Gauge | None, name: str) -> float | None:
    if gauge is None:
        return None
    return gauge.high if name in _AT_WORST else gauge.mean


def strongest(reports: Sequence[Sample], gauges: Sequence[str], most: int = 2) -> list[Sample]:
    """The reports that show most of the first of some gauges that is there, in order of time."""

    def shown(report: Sample) -> float:
        for name in _best_first(report, gauges):
            gauge = report.gauges.get(name)
            if gauge is None:
                return report.increases.get(name, 0.0)
            return -gauge.mean if name == "idle" else gauge.mean * _PER_SECOND.get(name, 1.0)
        return float("-inf")

    return sorted(sorted(reports, key=shown, reverse=True)[:most], key=lambda one: one.window)


def told_in(
    report: Sample | Machine, gauges: Sequence[str], key: SubtaskKey | None
) -> Evidence | None:
    """Where in a report the first of some gauges stands that it has.

    Args:
        report: of a subtask or of a TaskManager in one window.
        gauges: by the names of `measure.GAUGES`.
        key: of the subtask; None: it is of a TaskManager.
    """
    return focused(
        report.ref,
        Focus(
            metrics=tuple(
                (name, _judged(report.gauges.get(each), each))
                for each in (*_best_first(report, gauges), *({GC_TIME} & set(gauges)))
                for name in _NAMES[each]
            ),
            task=None if key is None else key.task,
            subtask_index=None if key is None else key.subtask_index,
            taskmanager=report.taskmanager,
            until_us=report.last_us,
        ),
    )
