"""Applies the memory model to the options of one process."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Final

from flowdiag.analyses.memory import model as m
from flowdiag.parsers.units import version_of

TOTALS: Final = {
    "taskmanager": (
        m.PROCESS,
        m.FLINK,
        m.TASK_HEAP,
        "taskmanager.heap.size",
        "taskmanager.heap.mb",
    ),
    "jobmanager": (
        "jobmanager.memory.process.size",
        "jobmanager.memory.flink.size",
        "jobmanager.memory.heap.size",
        "jobmanager.heap.size",
        "jobmanager.heap.mb",
    ),
}
"""The options of which at least one must be set, by role."""
ENVIRONMENT: Final = {
    "FLINK_TM_HEAP": "taskmanager.heap.size",
    "FLINK_TM_HEAP_MB": "taskmanager.heap.mb",
    "FLINK_JM_HEAP": "jobmanager.heap.size",
    "FLINK_JM_HEAP_MB": "jobmanager.heap.mb",
    "FLINK_TM_MEM_MANAGED_SIZE": "taskmanager.memory.size",
    "FLINK_TM_MEM_MANAGED_FRACTION": "taskmanager.memory.fraction",
    "FLINK_TM_OFFHEAP": "taskmanager.memory.off-heap",
    "FLINK_TM_NET_BUF_FRACTION": "taskmanager.network.memory.fraction",
    "FLINK_TM_NET_BUF_MIN": "taskmanager.network.memory.min",
    "FLINK_TM_NET_BUF_MAX": "taskmanager.network.memory.max",
}
"""Environment variables that override options in the start scripts (`config.sh`), with these options."""


def with_environment(
    options: Mapping[str, str], version: tuple[int, int], *, container: bool
) -> Mapping[str, str]:
    """Return the effective options: up to 1.9 (JobManager: 1.10), environment variables win outside containers.

    >>> with_environment({"FLINK_TM_HEAP": "3g"}, (1, 9), container=False)["taskmanager.heap.size"]
    '3g'
    >>> with_environment({"FLINK_TM_HEAP": "3g"}, (1, 10), container=False)
    {'FLINK_TM_HEAP': '3g'}
    """
    known = [name for name in ENVIRONMENT if name in options]
    if not known or container:
        return options
    found = dict(options)
    for name in known:
        last = (1, 10) if name.startswith("FLINK_JM") else (1, 9)
        if version <= last:
            found[ENVIRONMENT[name]] = options[name]
    return found


def derive(
    role: str, options: Mapping[str, str], version: str | None, container: bool
) -> m.Derivation | None:
    """Return the sizes that the model derives from options, or None without a total."""
    seen = version_of(version) or m.LATEST
    options = with_environment(options, seen, container=container)
    if not any(key in options for key in TOTALS[role]):
        return None
    model = m.taskmanager_memory if role == "taskmanager" else m.jobmanager_memory
    return model(options, seen, container=container)


KNOWN_VERSIONS: Final = (
    *((1, minor) for minor in range(4, 21)),
    *((2, minor) for minor in range(m.LATEST[1] + 1)),
)
"""The Flink versions whose arithmetic is known."""

_OF_MEMORY: Final = ("taskmanager.memory.", "jobmanager.memory.")
# Valid options that do not affect sizes.
_OTHERS: Final = frozenset(
    {
        "taskmanager.memory.managed.consumer-weights",
        "taskmanager.memory.min-segment-size",
        "taskmanager.memory.framework.off-heap.batch-shuffle.size",
    }
)
_ALIKE: Final = 0.8  # minimum similarity, as a ratio of difflib


def nearest_version(seen: tuple[int, int]) -> tuple[int, int]:
    """Return the closest known version.

    >>> nearest_version((9, 9)), nearest_version((1, 3)), nearest_version((1, 21))
    ((2, 3), (1, 4), (1, 20))
    """
    older = [known for known in KNOWN_VERSIONS if known <= seen]
    return older[-1] if older else KNOWN_VERSIONS[0]


def nearest_key(key: str) -> str | None:
    """Return the memory option that a misspelled key resembles most, or None if it resembles none.

    >>> nearest_key("taskmanager.memory.managed.fraktion"), nearest_key("managed.fraktion")
    ('taskmanager.memory.managed.fraction', 'taskmanager.memory.managed.fraction')
    >>> nearest_key("taskmanager.memory.managed.size"), nearest_key("parallelism.default")
    (None, None)
    """
    if key in m.MEMORY_KEYS or key in ENVIRONMENT:
        return None
    known = sorted(m.MEMORY_KEYS)
    if key in _OTHERS:
        return None
    if key.startswith(_OF_MEMORY):
        return difflib.get_close_matches(key, known, 1, 0.0)[0]
    short = {
        each.removeprefix(prefix): each
        for prefix in reversed(_OF_MEMORY)
        for each in known
        if each.startswith(prefix)
    }
    if key.partition(".")[0] not in {each.partition(".")[0] for each in short}:
        return None  # one of hundreds of other options
    similar = difflib.get_close_matches(key, sorted(short), 1, _ALIKE)
    return short[similar[0]] if similar else None
