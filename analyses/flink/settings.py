"""The settings of a job, as configured or as observed in its checkpoints."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Final

from flowdiag.analyses.flink.job import Checkpoint, JobFacts, Setting, Status
from flowdiag.analyses.flink.options import is_at_least, names_of
from flowdiag.analyses.knowledge.conditions import Setup, backend_of
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.derived import once
from flowdiag.analyses.model.finding import CurrentValue, Origin
from flowdiag.analyses.model.option_types import shown
from flowdiag.parsers.units import duration_ms, size_bytes, version_of


def setting(job: JobFacts, *keys: str) -> Setting | None:
    """Return the value of an option under any of its keys. REST takes precedence over logs, and logs over inferred
    values.
    """
    order = {"rest": 0, "log": 1, "observed": 2}
    found = [s for s in job.settings if s.key in keys]
    return min(found, key=lambda s: order.get(s.source, 3), default=None)


def is_reactive(job: JobFacts) -> bool:
    """Return whether the job rescales whenever a TaskManager comes or goes (`scheduler-mode: reactive`)."""
    mode = setting(job, "scheduler-mode")
    return mode is not None and mode.value.strip().lower() == "reactive"


INTERVAL_KEYS: Final = ("execution.checkpointing.interval", "observed.interval_ms")


TIMEOUT_KEYS: Final = ("execution.checkpointing.timeout", "observed.timeout_ms")


@once
def interval_ms(job: JobFacts) -> float | None:
    """Return the configured checkpoint interval or the lower quartile of the gaps between triggers.

    A checkpoint in progress or a pause delays triggers, but nothing makes them come early. Short gaps therefore equal
    the configured interval.
    """
    known = setting(job, *INTERVAL_KEYS)
    value = duration_ms(known.value) if known is not None else None
    if value is not None and 0 < value < 1e15:
        return value
    gaps = sorted(trigger_gaps_ms(job.checkpoints))
    return gaps[len(gaps) // 4] if len(gaps) >= 3 else None


def interval_from(job: JobFacts) -> str:
    """Return whether the interval is `configured` or `observed`, and the observed interval if it is longer.

    Delayed triggers are further apart than configured.
    """
    known = setting(job, INTERVAL_KEYS[0])
    if known is None:
        return "observed"
    observed = next((s for s in job.settings if s.key == INTERVAL_KEYS[1]), None)
    seen = None if observed is None else duration_ms(observed.value)
    apart = seen is not None and seen > 1.25 * (duration_ms(known.value) or seen)
    return f"configured; {fmt.duration(seen)} observed" if apart else "configured"


# A trigger that waited for a checkpoint in progress follows its end within milliseconds.
_QUEUED_US: Final = 250_000
_LONG_US: Final = 1_000_000


def trigger_gaps_ms(checkpoints: Iterable[Checkpoint]) -> list[float]:
    """Return the gaps between consecutive periodic triggers of the same run, in milliseconds.

    Triggers queued behind a long checkpoint follow each other quickly and do not show the interval.
    They count only if there are almost no other triggers.
    """
    periodic = sorted(
        (c.run, c.id, c.triggered_us, c.ended_us or 0)
        for c in checkpoints
        if not c.is_savepoint and c.triggered_us is not None
    )
    every, free, queued = [], [], False
    for (run, number, begun, ended), (next_run, next_number, time, _) in pairwise(periodic):
        if run != next_run or next_number != number + 1 or time <= begun:
            queued = False
            continue
        after_queued = queued
        queued = 0 <= time - ended <= _QUEUED_US and (queued or ended - begun >= _LONG_US)
        every.append((time - begun) / 1000)
        if not queued and not after_queued:
            free.append(every[-1])
    return free if len(free) >= 2 else every


def timeout_ms(job: JobFacts) -> float | None:
    """Return the configured checkpoint timeout or the median duration of expired checkpoints."""
    known = setting(job, *TIMEOUT_KEYS)
    value = duration_ms(known.value) if known is not None else None
    if value is not None and value > 0:
        return value
    lasted = sorted(
        (c.ended_us - c.triggered_us) / 1000
        for c in job.checkpoints
        if c.status is Status.EXPIRED and c.ended_us is not None and c.triggered_us is not None
    )
    return lasted[len(lasted) // 2] if lasted else None


def uses_unaligned_checkpoints(job: JobFacts, checkpoints: Iterable[Checkpoint] = ()) -> bool:
    """Return whether checkpoints are unaligned, from the options or the type that REST reports (1.16+)."""
    known = setting(
        job, "execution.checkpointing.unaligned", "execution.checkpointing.unaligned.enabled"
    )
    return (known is not None and known.value.strip().lower() == "true") or any(
        checkpoint.type == "unaligned-checkpoint" for checkpoint in checkpoints
    )


def configured(job: JobFacts, option: str, *names: str) -> CurrentValue | None:
    """Return an option's value for an action, with unit and origin.

    Args:
        job: provides the settings.
        option: the key that determines the value's type.
        names: further keys of the option, for example of an observed value.
    """
    known = setting(job, option, *names)
    if known is None:
        return None
    origin = Origin.OBSERVED if known.source == "observed" else Origin.CONFIGURED
    return CurrentValue(shown(option, known.value, version_of(job.version)), origin)


@once
def setup_of(job: JobFacts) -> Setup:
    """Return the properties of the job that advice depends on."""
    sizes = [c.bytes for c in job.checkpoints if c.status is Status.COMPLETED and c.bytes]
    backend = setting(job, "state.backend", "state.backend.type")
    inlined = setting(job, *names_of("inline-threshold"))
    size = size_bytes(inlined.value) if inlined is not None else None
    return Setup(
        backend=backend_of(backend.value) if backend is not None else None,
        forst=backend is not None and "forst" in backend.value.lower(),
        state_bytes=max(sizes, default=None),
        inlined_bytes=int(size) if size is not None else None,
    )


_ROCKSDB: Final = "state.backend.rocksdb."
_NOT_IN_FORST: Final = ("checkpoint.transfer.thread.num", "manual-compaction.min-interval")
"""Options of RocksDB that ForSt lacks. ForSt has all other options that flowdiag proposes (`ForStOptions`, 2.3)."""


def key_in_store(key: str, setup: Setup) -> str | None:
    """Return the key of an option for the job's store, RocksDB or ForSt, or None if ForSt lacks the option.

    >>> key_in_store("state.backend.rocksdb.thread.num", Setup(backend="rocksdb", forst=True))
    'state.backend.forst.thread.num'
    """
    if not setup.forst or not key.startswith(_ROCKSDB):
        return key
    name = key.removeprefix(_ROCKSDB)
    return None if name in _NOT_IN_FORST else f"state.backend.forst.{name}"


def named_store(text: str, setup: Setup) -> str:
    """Return a text about RocksDB with the name of the job's store. ForSt has the same structure and metrics."""
    if not setup.forst:
        return text
    return text.replace("RocksDB", "ForSt").replace(_ROCKSDB, "state.backend.forst.")


def has_exponential_delay(version: str | None) -> bool:
    """Return whether a version has the exponential-delay restart strategy (1.12 or later)."""
    return is_at_least(version, 1, 12) is not False
