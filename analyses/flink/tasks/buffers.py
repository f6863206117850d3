"""Calculates the network buffers that a job needs on each TaskManager, from its graph, placement and version.

A task requests its buffers at deployment. If the pools of a TaskManager require more segments than exist,
the last task fails with `Insufficient number of network buffers`. A pool cannot start without its
required segments, and needs the desired segments for full throughput. Test clusters
with fewer segments than calculated failed, each time on a TaskManager that this module predicted. With the
result of `worst_placement` they ran.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

Version = tuple[int, int]

POINTWISE = frozenset({"FORWARD", "RESCALE", "PARTITION_LOCAL"})
"""Ship strategies that connect a subtask to only a few others. All others connect every pair of subtasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The relevant options: buffers per channel, floating buffers per gate, and the limit per gate (1.17+)."""

    per_channel: int = 2
    floating: int = 8
    required_max: int | None = None
    credit: bool = True  # False: 1.4, or switched off until 1.9
    sort_buffers: int = 512  # for a sorted blocking partition
    sort_parallelism: int = 1  # minimum number of subpartitions

    @classmethod
    def of(cls, options: Mapping[str, str], version: Version) -> Settings:
        """Read a configuration. From Flink 2.0 on, the first two values are fixed."""

        def number(key: str, default: int) -> int:
            text = options.get(key, "").strip()
            return int(text) if text.isdecimal() and len(text) < 9 else default

        prefix = "taskmanager.network.memory."
        credit = version >= (1, 5)
        if version < (1, 10):
            for key in (
                "taskmanager.network.credit-model",
                "taskmanager.network.credit-based-flow-control.enabled",
            ):
                credit = credit and options.get(key, "true").strip().lower() != "false"
        fixed = version >= (2, 0)
        cap = number(f"{prefix}read-buffer.required-per-gate.max", 0)
        sorting = "taskmanager.network.sort-shuffle."
        always = version >= (1, 15)
        return cls(
            per_channel=2 if fixed else number(f"{prefix}buffers-per-channel", 2),
            floating=8 if fixed else number(f"{prefix}floating-buffers-per-gate", 8),
            required_max=cap if cap and version >= (1, 17) else None,
            credit=credit,
            sort_buffers=number(f"{sorting}min-buffers", 512 if always else 64),
            sort_parallelism=number(f"{sorting}min-parallelism", 1 if always else 1 << 30),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """The segments that one pool needs. `channels` counts the channels of a gate or the subpartitions of a partition."""

    required: int
    desired: int
    channels: int


BLOCKING_MAX: Final = 1000
"""The default maximum number of buffers that a gate requires in a blocking exchange, since Flink 1.17."""


def gate(
    channels: int, remote: int, settings: Settings, version: Version, *, blocking: bool = False
) -> Need:
    """Return the buffers that an input gate needs.

    Args:
        channels: number of channels.
        remote: channels whose producer is on another TaskManager; only these have exclusive buffers.
        settings: the options.
        version: Flink's version.
        blocking: whether the producers finish before the gate's task is deployed.
    """
    each, floating = settings.per_channel, settings.floating
    if blocking and settings.required_max is None and version >= (1, 17):
        settings = replace(settings, required_max=BLOCKING_MAX)
    if not settings.credit:
        return Need(required=channels, desired=channels * 2 + 8, channels=channels)
    least = 1 if version >= FLOATING_REQUIRED else 0
    if settings.required_max is not None and channels * each + 1 > settings.required_max:
        # The limit reduces the exclusive buffers per channel. The remaining buffers float.
        kept = max(0, (settings.required_max - 1) // channels) if channels else 0
        kept = min(each, kept)
        required = remote * kept + max(1, settings.required_max - channels * kept)
        return Need(required=required, desired=channels * each + floating, channels=channels)
    return Need(required=remote * each + least, desired=remote * each + floating, channels=channels)


FLOATING_REQUIRED: Version = (1, 14)
PARTITION_PLUS_ONE: Version = (1, 10)


def partition(
    subpartitions: int, settings: Settings, version: Version, *, blocking: bool = False
) -> Need:
    """Return the buffers that a result partition needs. A sorted blocking partition needs more."""
    if blocking and version >= (1, 12) and subpartitions >= settings.sort_parallelism:
        least = settings.sort_buffers
        return Need(required=least, desired=max(least, 4 * subpartitions), channels=subpartitions)
    more = 1 if version >= PARTITION_PLUS_ONE else 0
    each = settings.per_channel if version >= (1, 14) else 2
    floating = settings.floating if version >= (1, 14) else 8
    return Need(
        required=subpartitions + more,
        desired=max(subpartitions + more, subpartitions * each + floating),
        channels=subpartitions,
    )


def feeders(pattern: str, upstream: int, downstream: int, index: int) -> range:
    """Return the upstream subtasks that feed a downstream subtask (`EdgeManagerBuildUtil`).

    >>> feeders("HASH", 4, 6, 2), feeders("RESCALE", 4, 2, 1), feeders("RESCALE", 2, 6, 4)
    (range(0, 4), range(2, 4), range(1, 2))
    """
    if pattern not in POINTWISE:
        return range(upstream)
    if upstream >= downstream:
        return range(index * upstream // downstream, (index + 1) * upstream // downstream)
    return range(index * upstream // downstream, index * upstream // downstream + 1)


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge of the job graph, with Flink's name for the ship strategy."""

    upstream: str
    downstream: str
    pattern: str
    blocking: bool = False


def regions(tasks: Iterable[str], edges: Iterable[Edge]) -> dict[str, str]:
    """Return the region of each task. Pipelined edges connect tasks into regions that run at the same time.

    >>> regions("abc", [Edge("a", "b", "HASH"), Edge("b", "c", "HASH", blocking=True)])
    {'a': 'b', 'b': 'b', 'c': 'c'}
    """
    above = {task: task for task in tasks}

    def root(task: str) -> str:
        while above[task] != task:
            task = above[task]
        return task

    for edge in edges:
        if not edge.blocking and edge.upstream in above and edge.downstream in above:
            above[root(edge.upstream)] = root(edge.downstream)
    return {task: root(task) for task in above}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskNeed:
    """The pools of one subtask on its TaskManager."""

    job: str
    task: str
    subtask_index: int
    taskmanager: str
    gates: tuple[Need, ...]
    partitions: tuple[Need, ...]

    @property
    def required(self) -> int:
        """Segments that the subtask needs to start."""
        return sum(need.required for need in (*self.gates, *self.partitions))

    @property
    def desired(self) -> int:
        """Segments for full throughput."""
        return sum(need.desired for need in (*self.gates, *self.partitions))


def needs(
    job: str,
    parallelism: Mapping[str, int],
    edges: Sequence[Edge],
    placement: Mapping[tuple[str, int], str],
    settings: Settings,
    version: Version,
) -> list[TaskNeed]:
    """Return the buffers that each placed subtask of a job needs.

    Args:
        job: a name that identifies the job.
        parallelism: by task.
        edges: the edges of the job graph; both ends must be in `parallelism`.
        placement: TaskManager by (task, subtask index); subtasks without a TaskManager are left out.
        settings: the options.
        version: Flink's version.
    """
    found = []
    for (task, index), taskmanager in sorted(placement.items()):
        gates, partitions = [], []
        for edge in edges:
            up, down = parallelism.get(edge.upstream, 0), parallelism.get(edge.downstream, 0)
            if not up or not down:
                continue
            if edge.downstream == task and index < down:
                fed = feeders(edge.pattern, up, down, index)
                remote = sum(placement.get((edge.upstream, i)) != taskmanager for i in fed)
                gates.append(gate(len(fed), remote, settings, version, blocking=edge.blocking))
            if edge.upstream == task and index < up:
                fed_by_it = _consumers(edge.pattern, up, down, index)
                partitions.append(partition(fed_by_it, settings, version, blocking=edge.blocking))
        found.append(
            TaskNeed(
                job=job,
                task=task,
                subtask_index=index,
                taskmanager=taskmanager,
                gates=tuple(gates),
                partitions=tuple(partitions),
            )
        )
    return found


def _consumers(pattern: str, upstream: int, downstream: int, index: int) -> int:
    if pattern not in POINTWISE:
        return downstream
    if upstream >= downstream:
        return 1
    return sum(i * upstream // downstream == index for i in range(downstream))


_COMBINATIONS: Final = 50_000


def worst_placement(
    parallelism: Mapping[str, int],
    edges: Sequence[Edge],
    slots: int,
    settings: Settings,
    version: Version,
) -> int:
    """Return `_worst_of` for the most demanding region. Needs do not add up: regions behind blocking edges run later."""
    by_region = regions(parallelism, edges)
    return max(
        (
            _worst_of(
                {task for task, name in by_region.items() if name == region},
                parallelism,
                edges,
                slots,
                settings,
                version,
            )
            for region in sorted(set(by_region.values()))
        ),
        default=0,
    )


def _worst_of(
    tasks_there: set[str],
    parallelism: Mapping[str, int],
    edges: Sequence[Edge],
    slots: int,
    settings: Settings,
    version: Version,
) -> int:
    """Return a number of segments that is enough for one TaskManager under any scheduling.

    A slot runs at most one subtask of each vertex. The function tries every number of subtasks of each
    vertex. If there are too many combinations, it assumes that all producers are remote, which can only
    overestimate.

    >>> worst_placement({"a": 1, "b": 1}, [Edge("a", "b", "HASH")], 1, Settings(), (1, 20))
    3
    """
    tasks = sorted(tasks_there)
    most = [min(slots, parallelism[task]) for task in tasks]
    if math.prod(count + 1 for count in most) > _COMBINATIONS:
        choices: Iterable[tuple[int, ...]] = [tuple(most)]
        exact = False
    else:
        choices, exact = itertools.product(*(range(count + 1) for count in most)), True
    return max(
        (
            _with_counts(
                dict.fromkeys(parallelism, 0) | dict(zip(tasks, counts, strict=True)),
                parallelism,
                edges,
                settings,
                version,
                local=exact,
            )
            for counts in choices
        ),
        default=0,
    )


def _with_counts(
    counts: Mapping[str, int],
    parallelism: Mapping[str, int],
    edges: Sequence[Edge],
    settings: Settings,
    version: Version,
    *,
    local: bool = True,
) -> int:
    """Return how many segments a TaskManager needs to run the given number of subtasks of each vertex."""
    total = 0
    for edge in edges:
        up, down = parallelism.get(edge.upstream, 0), parallelism.get(edge.downstream, 0)
        if not up or not down:
            continue
        pointwise = edge.pattern in POINTWISE
        channels = -(-up // down) if pointwise else up
        here = counts[edge.upstream] if local and not pointwise else 0
        total += (
            counts[edge.downstream]
            * gate(channels, channels - here, settings, version, blocking=edge.blocking).required
        )
        subpartitions = -(-down // up) if pointwise else down
        total += (
            counts[edge.upstream]
            * partition(subpartitions, settings, version, blocking=edge.blocking).required
        )
    return total
