"""Tasks collect garbage, spill, or wait for a shuffle.

What it reports
---------------
Batches or triggers whose tasks spend much of their time on garbage collection or on fetching
shuffled blocks, or that write to disk what does not fit into memory.

Why it matters
--------------
It is time in which no record is processed, and memory or the network is what is short, not cores.

How it decides
--------------
From the metrics of the tasks in the event log, of the longest stage of the present batches, `fewest`
at least: garbage collection above `gc` of the tasks' time, or waits for shuffled blocks above
`fetch`, in at least `share` of them; or more than `spill` written to disk in as many. Only where
batches queue, or take `use` of the interval or more.

What to do
----------
Garbage: more memory per core (fewer cores or more memory per executor), fewer objects. Spills: more
partitions. Waits: fewer, larger blocks; look at the disks and the network of who serves them.

False alarms
------------
Garbage collection is counted for each task that runs meanwhile: with many tasks per executor it can
be added up to more than it cost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Final

from flowdiag.analyses.rate import helpers as h


class Overhead(h.Limits):
    """What RT307 compares with."""

    gc: float = h.limit(0.2, "share", "Spark's own page marks a tenth; it counts per task")
    fetch: float = h.limit(0.3, "share", "of the tasks' time")
    spill: float = h.limit(1_000_000, "bytes", "of a stage: less costs nothing")
    share: float = h.limit(0.6, "share", "of the present batches")
    fewest: float = h.limit(h.defaults.FEW, "batches", "fewer are chance")
    use: float = h.limit(h.defaults.NARROW, "share", "of the interval: with less, nothing is short")


@dataclass(frozen=True, slots=True)
class _Kind:
    """One kind of overhead: how much of it a stage has, from where on it counts, the words for it."""

    cause: str
    of: Callable[[h.StageLoad], float]
    least: Callable[[Overhead], float]
    unit: str
    words: str


_KINDS: Final = (
    _Kind(
        "gc-pressure",
        lambda stage: stage.gc_ms / max(1, stage.total_ms),
        lambda limits: limits.gc,
        "share",
        "collect garbage for {} of their time",
    ),
    _Kind(
        "shuffle-fetch",
        lambda stage: stage.fetch_ms / max(1, stage.total_ms),
        lambda limits: limits.fetch,
        "share",
        "wait for shuffled blocks for {} of their time",
    ),
    _Kind(
        "spill",
        lambda stage: float(stage.spilled_bytes),
        lambda limits: limits.spill,
        "bytes",
        "spill {} to disk",
    ),
)


def judge(assessed: h.Assessed, limits: Overhead) -> h.Iterator[h.Finding | h.Inconclusive]:
    """One finding per kind of overhead and application or query."""
    for flow in h.flows_of(assessed):
        stages = [unit.stage for unit in flow.units if unit.stage is not None]
        if not h.short_of_time(flow.state, use=limits.use) or len(stages) < max(1, limits.fewest):
            continue
        for kind in _KINDS:
            values = [kind.of(stage) for stage in stages]
            over = [value for value in values if value >= kind.least(limits)]
            if len(over) >= limits.share * len(values):
                yield _finding(flow, kind, values, len(over), limits)


def _finding(
    flow: h.Flow, kind: _Kind, values: list[float], over: int, limits: Overhead
) -> h.Finding:
    usual = median(values)
    words = kind.words.format(h.fmt.size(usual) if kind.unit == "bytes" else h.fmt.percent(usual))
    return h.flow_finding(
        flow,
        [unit for unit in flow.units if unit.stage is not None],
        title=f"In {over} of {flow.plural(len(values))} the tasks of the longest stage {words}",
        why=f"its tasks {words}",
        cause=kind.cause,
        rank=h.Rank.MECHANISM,
        count=over,
        measurements=(
            h.measurement(
                kind.cause,
                round(median(values), 3),
                kind.unit,
                kind.least(limits),
                over=f"median of {flow.plural(len(values))}, all tasks of the longest stage",
            ),
        ),
        actions=h.remedies(kind.cause, flow.assessed.app),
    )


RULE = h.Rule("RT307", judge, Overhead, causes=("gc-pressure", "shuffle-fetch", "spill"))
