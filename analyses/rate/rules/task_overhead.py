"""Tasks collect garbage, spill, or wait for a shuffle.

What it reports
---------------
Batches or triggers whose tasks spend much of their time on garbage collection or on fetching shuffle
blocks, or spill data to disk.

Why it matters
--------------
Tasks process no records during that time. The bottleneck is memory or the network, not the number of cores.

How it decides
--------------
The task metrics come from the event log and cover the longest stage of at least `min-batches` recent batches. In at
least `share` of these batches, one of three values reaches its limit. `gc` and `fetch` are the limits for the
share of task time spent on garbage collection and on waiting for shuffle blocks. `spill` is the limit for the
amount of spilled data. The rule only applies if batches queue or take at least `use` of the interval.

What to do
----------
For garbage collection, provide more memory per core (fewer cores or more memory per executor), or create
fewer objects. For spills, use more partitions. For shuffle waits, use fewer and larger blocks, and check
the disks and the network of the hosts that serve them.

False alarms
------------
Spark adds the duration of a garbage collection to every running task. With many tasks per executor, the sum
may exceed the real cost.
"""

from collections.abc import Callable
from statistics import median
from typing import Final

from flowdiag.analyses.rate import helpers as h


class Limits(h.Limits):
    gc: float = h.limit(
        0.2, "share", "minimum share of task time in garbage collection; the Web UI highlights 10%"
    )
    fetch: float = h.limit(0.3, "share", "minimum share of task time that waits for shuffle blocks")
    spill: float = h.limit(
        1_000_000, "bytes", "minimum spill of a stage; smaller spills cost little"
    )
    share: float = h.limit(
        0.6, "share", "minimum share of recent batches that exceed one of these limits"
    )
    min_batches: float = h.min_count_limit("batches")
    use: float = h.use_limit()


# Cause, value, limit, unit and clause of each kind of overhead.
_Kind = tuple[str, Callable[[h.StageLoad], float], Callable[[Limits], float], str, str]
_KINDS: Final[tuple[_Kind, ...]] = (
    (
        "gc-pressure",
        lambda stage: stage.gc_ms / max(1, stage.total_ms),
        lambda limits: limits.gc,
        "share",
        "collect garbage for {} of their time",
    ),
    (
        "shuffle-fetch",
        lambda stage: stage.fetch_ms / max(1, stage.total_ms),
        lambda limits: limits.fetch,
        "share",
        "wait for shuffle blocks for {} of their time",
    ),
    (
        "spill",
        lambda stage: float(stage.spilled_bytes),
        lambda limits: limits.spill,
        "bytes",
        "spill {} to disk",
    ),
)


def judge(assessed: h.AssessedApplication, limits: Limits) -> h.Results:
    """Yield one finding per kind of overhead and application or query."""
    for flow in h.flows_of(assessed):
        units = [(unit, unit.stage) for unit in flow.units if unit.stage is not None]
        if not h.is_at_limit(flow.state, use=limits.use) or len(units) < max(1, limits.min_batches):
            continue
        for cause, value_of, least_of, unit, text in _KINDS:
            values, least = [value_of(stage) for _, stage in units], least_of(limits)
            over, middle = sum(value >= least for value in values), median(values)
            if over < limits.share * len(values):
                continue
            words = text.format(h.fmt.size(middle) if unit == "bytes" else h.fmt.percent(middle))
            of = f"median of {flow.plural(len(values))}, all tasks of the longest stage"
            yield h.flow_finding(
                flow,
                [one for one, _ in units],
                title=f"In {over} of {flow.plural(len(values))}, the tasks of the longest stage {words}",
                why=f"its tasks {words}",
                cause=cause,
                rank=h.Rank.MECHANISM,
                count=over,
                measurements=(h.measurement(cause, round(middle, 3), unit, least, over=of),),
                actions=h.remedies(cause, flow.assessed.app),
            )


RULE = h.Rule("RT307", judge, Limits, causes=tuple(kind[0] for kind in _KINDS), needs="work")
