"""The capacity of a task's input in buffers, by Flink version.

`inputQueueLength` counts the buffers in a task's input channels, over all gates. Their capacity changed:

| versions | remote channels | local channels |
|---|---|---|
| up to 1.4, or credits switched off | a pool of `C * 2 + 8` per gate | not counted |
| 1.5 to 1.8 | `C * E + F`: exclusive per channel, floating per gate | not counted |
| 1.9, 1.10 | the same | buffers that wait at their producers: the whole pool |
| 1.11 and later | the same (from 1.17 fewer exclusive ones under a cap, from 2.0 fixed at 2 and 8) | up to `max-buffers-per-channel` of each producer |

Barriers and other events use no buffer. They add to the length, typically one per channel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from flowdiag.analyses.flink.tasks.buffers import Settings, Version, gate, partition

LOCAL_COUNTED: Final[Version] = (1, 9)
CHANNEL_CAP: Final[Version] = (1, 11)
FIXED: Final[Version] = (2, 0)
DEFAULT_CAP: Final = 10
_CAP_KEY: Final = "taskmanager.network.memory.max-buffers-per-channel"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateShape:
    """One input gate of a subtask.

    Args:
        channels: number of all channels.
        remote: number of channels whose producer runs on another TaskManager.
        subpartitions: number of subpartitions in the result partition of each producer.
    """

    channels: int
    remote: int
    subpartitions: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Capacity:
    """The input capacity of a subtask, over all gates.

    Args:
        channels, remote: sums over the gates.
        buffers: exclusive and floating buffers of the remote channels.
        local: buffers at local producers that `inputQueueLength` counts; None if it counts none.
        events: barriers that the length may include, one per counted channel.
    """

    channels: int
    remote: int
    buffers: int
    local: int | None
    events: int

    @property
    def total(self) -> int:
        """The queue length at which the input is full."""
        return self.buffers + (self.local or 0) + self.events

    @property
    def has_only_own_buffers(self) -> bool:
        """Whether the queue length counts only this task's own buffers, without a local backlog."""
        return not self.local


def input_capacity(
    gates: Iterable[GateShape], options: Mapping[str, str], version: Version
) -> Capacity:
    """Return the capacity of a subtask's input.

    Args:
        gates: the subtask's input gates; empty for sources.
        options: the configuration, by key.
        version: Flink's version.

    >>> one = [GateShape(channels=4, remote=4)]
    >>> [input_capacity(one, {}, v).total for v in ((1, 4), (1, 8), (1, 20))]
    [20, 20, 20]
    >>> mixed = input_capacity([GateShape(channels=4, remote=3)], {}, (1, 8))
    >>> mixed.total, mixed.has_only_own_buffers  # 3 * 2 + 8 buffers and 3 barriers
    (17, True)
    >>> mixed = input_capacity([GateShape(channels=4, remote=3)], {}, (1, 20))
    >>> mixed.buffers, mixed.local, mixed.has_only_own_buffers
    (14, 10, False)
    """
    settings = Settings.of(options, version)
    counts_local = version >= LOCAL_COUNTED
    channels = remote = buffers = local = 0
    for shape in gates:
        channels += shape.channels
        remote += shape.remote
        if shape.remote:
            buffers += gate(shape.channels, shape.remote, settings, version).desired
        if counts_local:
            each = (
                _cap(options, version)
                if version >= CHANNEL_CAP
                else partition(shape.subpartitions, settings, version).desired
            )
            local += (shape.channels - shape.remote) * each
    return Capacity(
        channels=channels,
        remote=remote,
        buffers=buffers,
        local=local if counts_local else None,
        events=channels if counts_local else remote,
    )


def _cap(options: Mapping[str, str], version: Version) -> int:
    if version >= FIXED:
        return DEFAULT_CAP
    text = options.get(_CAP_KEY, "").strip()
    return int(text) if text.isdecimal() and 0 < len(text) < 9 else DEFAULT_CAP
