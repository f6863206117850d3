"""Reads garbage collection logs, to measure how much of the time each TaskManager pauses.

These logs do not name the process and rarely contain a date. The file name and folder identify the
process, and the process's own log provides the time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from flowdiag.analyses.flink.job import ClusterFacts, Garbage
from flowdiag.analyses.model.keys import Ref
from flowdiag.parsers.flink.container_texts import Pause, pauses
from flowdiag.parsers.sniff.verdict import GC_LOG

if TYPE_CHECKING:
    from flowdiag.analyses.flink.clocks.settle import Writer
    from flowdiag.parsers.source import Source

_ENDING: Final = re.compile(r"\.(?:log|txt|out|current)(?:\.\w{1,12})*\Z", re.IGNORECASE)
_GENERIC: Final = re.compile(r"(?:gc|gclog|verbose|jvm|java|log|pid\d*|\d+)", re.IGNORECASE)
_SHORTEST: Final = 3  # shortest process name that counts, in characters
_MINUTE_US: Final = 60_000_000
_MOST_WINDOWS: Final = 120


# --- the process of a log ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Candidate:
    """A process that may have written a garbage collection log, with the name of its own log and its IDs."""

    log: str | None
    names: tuple[str | None, ...] = ()


def owner(name: str, candidates: Sequence[Candidate]) -> int | None:
    """Return the index of the process that wrote a log, matched by name or, if that fails, by folder.

    Args:
        name: path of the garbage collection log.
        candidates: the processes.

    >>> tms = [Candidate("a/taskexecutor-worker-1.log"), Candidate("a/taskexecutor-worker-2.log")]
    >>> owner("gc-worker-2.log", tms), owner("a/gc.log", tms), owner("a/gc.log", tms[:1])
    (1, None, 0)
    """
    word, fits = name_in(name), []
    if word is not None:
        whole = re.compile(rf"(?<![A-Za-z0-9]){re.escape(word)}(?![A-Za-z0-9])", re.IGNORECASE)
        fits = [
            place
            for place, each in enumerate(candidates)
            if any(
                whole.search(called) for called in (_base(each.log or ""), *each.names) if called
            )
        ]
    if not fits:
        folder = _folder(name)
        fits = [i for i, each in enumerate(candidates) if each.log and _folder(each.log) == folder]
    return fits[0] if len(fits) == 1 else None


def _base(path: str) -> str:
    return re.split(r"[/\\!]", path)[-1]


def _folder(path: str) -> str:
    return "/".join(re.split(r"[/\\!]", path)[:-1])


def name_in(path: str) -> str | None:
    """Return the process name in the path of a garbage collection log, or None.

    >>> [name_in(path) for path in ("logs/gc-worker-3.log", "tm-1/gc.log.0", "worker-3_gc.log", "gc_pid7.log")]
    ['worker-3', None, 'worker-3', None]
    """
    parts = re.split(r"([-_.])", _ENDING.sub("", _base(path)))
    while parts and ((_GENERIC.fullmatch(parts[0]) and len(parts) > 1) or parts[0] in "-_."):
        parts.pop(0)
    while parts and (parts[-1].lower() in ("gc", "gclog", "log") or parts[-1] in "-_."):
        parts.pop()
    word = "".join(parts)
    generic = len(word) < _SHORTEST or _GENERIC.fullmatch(word) is not None
    return None if generic else word


# --- its pauses --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorLog:
    """The pauses in a garbage collection log, in order."""

    source: int
    pauses: tuple[Pause, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorLogs:
    """All garbage collection logs of an input, and the names of all its files by index."""

    logs: tuple[CollectorLog, ...] = ()
    names: Mapping[int, str]


def read_collectors(sources: Iterable[Source]) -> CollectorLogs:
    """Read the garbage collection logs among the sources, except logs without a pause."""
    from flowdiag.parsers.source import source_text

    sources, found = tuple(sources), []
    for source in sources:
        if source.kind == "not-read" and source.reason == GC_LOG:
            stops = tuple(pauses(source_text(source)))
            if stops:
                found.append(CollectorLog(source=source.index, pauses=stops))
    return CollectorLogs(logs=tuple(found), names={s.index: s.name for s in sources})


def with_collectors(
    facts: ClusterFacts, read: CollectorLogs | None, writers: Sequence[Writer]
) -> ClusterFacts:
    """Add pauses from garbage collection logs for TaskManagers whose metrics lack them.

    Args:
        facts: the facts of a cluster.
        read: the garbage collection logs, None if they could not be read.
        writers: the processes of the other logs.
    """
    if read is None or not read.logs:
        return facts
    found = [item for log in read.logs for item in _garbage(log, read.names, writers)]
    jobs = []
    for job in facts.jobs:
        measured = {item.taskmanager for item in job.garbage}
        ran = {a.taskmanager for a in job.attempts} | {load.taskmanager for load in job.loads}
        more = tuple(item for item in found if item.taskmanager in ran - measured)
        jobs.append(replace(job, garbage=(*job.garbage, *more)) if more else job)
    return replace(facts, jobs=tuple(jobs))


def _garbage(
    log: CollectorLog, names: Mapping[int, str], writers: Sequence[Writer]
) -> list[Garbage]:
    """Return the pauses of one TaskManager by window. Logs of other processes yield none."""
    candidates = [
        Candidate(names.get(writer.stream.source), (writer.taskmanager, writer.host))
        for writer in writers
    ]
    place = owner(names.get(log.source, ""), candidates)
    writer = writers[place] if place is not None else None
    if writer is None or writer.role != "taskmanager" or writer.taskmanager is None:
        return []
    begun_us = _jvm_start_us(log.pauses, writer)
    timed = [
        (us, pause) for pause in log.pauses if (us := _pause_time_us(pause, begun_us)) is not None
    ]
    found = []
    for begin, end, window in _windows(timed, begun_us):
        longest = max(window, key=lambda pause: pause.ms, default=None)
        found.append(
            Garbage(
                taskmanager=writer.taskmanager,
                host=writer.host,
                gc_ms=sum(pause.ms for pause in window),
                span_ms=max(end - begin, 1) / 1000,
                samples=len(window),
                first_us=begin,
                last_us=end,
                ref=Ref(log.source, longest.offset) if longest is not None else None,
            )
        )
    return found


def _windows(
    timed: Sequence[tuple[int, Pause]], begun_us: int | None
) -> Iterator[tuple[int, int, list[Pause]]]:
    """Yield windows of at least a minute as (start, end, pauses), from the JVM's start to the last pause."""
    if not timed:
        return
    first, last = min(us for us, _ in timed), max(us for us, _ in timed)
    first = first if begun_us is None else min(first, begun_us)
    width = max(_MINUTE_US, -(-(last - first) // _MOST_WINDOWS))
    windows: list[list[Pause]] = [[] for _ in range((last - first) // width + 1)]
    for us, pause in timed:
        windows[(us - first) // width].append(pause)
    for number, window in enumerate(windows):
        begin = first + number * width
        yield begin, min(begin + width, last), window


def _jvm_start_us(stops: Sequence[Pause], writer: Writer) -> int | None:
    """Return the start time of a JVM whose log shows only its uptime.

    The JVM starts with the log of its process, or earlier if that log is incomplete. A Flink log begins within
    seconds of JVM start. If both logs end together but the JVM is older, the first log files are missing.
    """
    up_us = [round(pause.uptime_s * 1_000_000) for pause in stops if pause.uptime_s is not None]
    if writer.first_us is None or writer.last_us is None or not up_us:
        return None
    return min(writer.first_us, writer.last_us - max(up_us))


def _pause_time_us(pause: Pause, begun_us: int | None) -> int | None:
    if pause.time_us is not None:
        return pause.time_us
    if pause.uptime_s is None or begun_us is None:
        return None
    return begun_us + round(pause.uptime_s * 1_000_000)
