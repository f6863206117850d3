"""Conditions that a remedy places on the job and its configuration.

A condition is true, false or unknown. A remedy with a false condition is left out. An unknown condition
becomes part of the text: "If the state backend is …:".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The facts about a job that conditions depend on. None means unknown.

    Args:
        backend: the state backend: `heap` or `rocksdb` (including ForSt).
        forst: whether it is ForSt, Flink's own variant of RocksDB (2.0 and later).
        state_bytes: the size of the largest completed checkpoint.
        inlined_bytes: the size up to which state is kept in the metadata itself.
    """

    backend: str | None = None
    forst: bool = False
    state_bytes: int | None = None
    inlined_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A condition on a job's setup.

    Args:
        words: the condition as a clause after "if".
        holds: whether it holds. None: unknown.
    """

    words: str
    holds: Callable[[Setup], bool | None]


MUCH_STATE: Final = 64 * 2**20  # bytes; any storage writes less than this within a second
SMALL_FILES: Final = 20 * 2**10  # bytes; Flink's default size limit for state in the metadata

CONDITIONS: Final[dict[str, Condition]] = {
    "incremental-backend": Condition(
        words="the state backend is RocksDB or ForSt",
        holds=lambda setup: None if setup.backend is None else setup.backend == "rocksdb",
    ),
    "much-state": Condition(
        words="checkpoints contain 64 MiB or more",
        holds=lambda setup: None if setup.state_bytes is None else setup.state_bytes >= MUCH_STATE,
    ),
    "much-in-metadata": Condition(
        words="the metadata contains more than the default of 20 KiB",
        holds=lambda setup: (
            None if setup.inlined_bytes is None else setup.inlined_bytes > SMALL_FILES
        ),
    ),
}


def unknown_conditions(names: Iterable[str], setup: Setup) -> tuple[str, ...] | None:
    """Return the unknown conditions as clauses, or None if a condition does not hold.

    >>> unknown_conditions(["incremental-backend"], Setup(backend="heap")) is None
    True
    >>> unknown_conditions(["incremental-backend"], Setup())
    ('the state backend is RocksDB or ForSt',)
    """
    found = [(CONDITIONS[name].words, CONDITIONS[name].holds(setup)) for name in names]
    if any(holds is False for _, holds in found):
        return None
    return tuple(words for words, holds in found if holds is None)


def with_conditions(text: str, unknown: Iterable[str]) -> str:
    """Prefix advice with the unknown conditions.

    >>> with_conditions("Write only what changed", ["the state backend is RocksDB or ForSt"])
    'If the state backend is RocksDB or ForSt: write only what changed'
    """
    words = " and ".join(unknown)
    return f"If {words}: {text[:1].lower()}{text[1:]}" if words else text


def backend_of(text: str | None) -> str | None:
    """Return the kind of a state backend from its name or class.

    >>> [backend_of(name) for name in ("EmbeddedRocksDBStateBackend", "hashmap", "heap memory", "own.Factory")]
    ['rocksdb', 'heap', 'heap', None]
    """
    lower = (text or "").lower()
    if "rocks" in lower or "forst" in lower:
        return "rocksdb"
    heap = ("hashmap", "heap", "filesystem", "fsstate", "memory", "jobmanager")
    return "heap" if any(word in lower for word in heap) else None
