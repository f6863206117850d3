"""When a remedy fits: what has to hold of the job and of its configuration, as data.

A remedy names its conditions; a condition holds, does not, or cannot be told from the input. One that does
not hold takes the remedy away, one that cannot be told stands before it: "If the state backend is …:".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What an input shows of the job that advice depends on; None: it does not tell.

    Args:
        backend: of the state: `heap` or `rocksdb` (ForSt among it).
        state_bytes: the largest completed checkpoint.
        inlined_bytes: up to which size state is kept in the metadata itself.
    """

    backend: str | None = None
    state_bytes: int | None = None
    inlined_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One thing that has to hold.

    Args:
        words: it, after "if".
        holds: whether it does; None: the input does not tell.
    """

    words: str
    holds: Callable[[Setup], bool | None]


MUCH_STATE: Final = 64 * 2**20  # bytes: less than this any storage takes in a second
SMALL_FILES: Final = 20 * 2**10  # bytes: Flink's default of what is kept in the metadata

CONDITIONS: Final[dict[str, Condition]] = {
    "incremental-backend": Condition(
        words="the state backend is RocksDB or ForSt",
        holds=lambda setup: None if setup.backend is None else setup.backend == "rocksdb",
    ),
    "much-state": Condition(
        words="checkpoints hold 64 MiB or more",
        holds=lambda setup: None if setup.state_bytes is None else setup.state_bytes >= MUCH_STATE,
    ),
    "much-in-metadata": Condition(
        words="more than the default of 20 KiB is kept in the metadata",
        holds=lambda setup: (
            None if setup.inlined_bytes is None else setup.inlined_bytes > SMALL_FILES
        ),
    ),
}


def fitting(names: Iterable[str], setup: Setup) -> tuple[str, ...] | None:
    """What has to hold and is not known to, in words; None: something does not hold.

    >>> fitting(["incremental-backend"], Setup(backend="heap")) is None
    True
    >>> fitting(["incremental-backend"], Setup(backend="rocksdb")), fitting(["incremental-backend"], Setup())
    ((), ('the state backend is RocksDB or ForSt',))
    """
    found = [(CONDITIONS[name].words, CONDITIONS[name].holds(setup)) for name in names]
    if any(holds is False for _, holds in found):
        return None
    return tuple(words for words, holds in found if holds is None)


def conditional(text: str, unknown: Iterable[str]) -> str:
    """A piece of advice behind what has to hold for it.

    >>> conditional("Write only what changed", ["the state backend is RocksDB or ForSt"])
    'If the state backend is RocksDB or ForSt: write only what changed'
    """
    words = " and ".join(unknown)
    return f"If {words}: {text[:1].lower()}{text[1:]}" if words else text


def backend_of(text: str | None) -> str | None:
    """The kind of a state backend, by its name or its class.

    >>> [backend_of(name) for name in ("EmbeddedRocksDBStateBackend", "hashmap", "heap memory", "own.Factory")]
    ['rocksdb', 'heap', 'heap', None]
    """
    lower = (text or "").lower()
    if "rocks" in lower or "forst" in lower:
        return "rocksdb"
    heap = ("hashmap", "heap", "filesystem", "fsstate", "memory", "jobmanager")
    return "heap" if any(word in lower for word in heap) else None
