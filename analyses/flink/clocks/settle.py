"""Settle what a single record cannot say: its instant, the process that wrote it, its cluster.

Parsers emit what is printed. A JobManager log has no zone, but `Triggering checkpoint N @ epoch-ms`
beside its own time stamp gives it away; a TaskManager log has no such mark, but the state transitions
of the same execution attempts stand in both logs. Such marks are added up where records are parsed
(`flowdiag.parsers.flink.marks`); `survey` puts the sums together, `settle` judges them, both in Python,
and `resolve` applies the verdict with Spark:

    surveyed = survey(rare records)
    writers = settle(surveyed.rows, ...)
    events = resolve(events, writers, spark, surveyed)

Every difference of clocks is a whole number of quarters of an hour (a zone) plus a rest (drift and the
time that a message takes); see catalogue/flink.md 1.1 and 2.2.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import takewhile
from statistics import median
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast
from zoneinfo import ZoneInfo

import msgspec
import pyarrow as pa

from flowdiag.parsers.flink.marks import (
    DAY_US,
    JOBMANAGER_LOGGERS,
    QUARTER_MS,
    TASKMANAGER_LOGGERS,
    TIME_OF_DAY,
    Marks,
    Transition,
    bounded,
    days_before,
    owners_before,
)
from flowdiag.parsers.rows import Event

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# A drift below this is not told apart from the time that a transition takes to reach the other log.
DRIFT_MS: Final = 1_000
ZERO_JOB: Final = "0" * 32

# Rare rows whose text the driver wants to see as they are.
RARE: Final = (
    Event.SPLIT,
    Event.PROCESS_STARTED,
    Event.PROCESS_IDENTITY,
    Event.CONFIGURATION,
)


RARE_COLUMNS: Final = (
    "source",
    "process",
    "offset",
    "event",
    "taskmanager",
    "host",
    "fields",
)


class Stream(NamedTuple):
    """One writer inside one source: the source itself, a labelled process, a section of it."""

    source: int
    owner: str | None


class Segment(NamedTuple):
    """From this local time and offset on, `instant = local - shift_ms`; more than one where summer time changes."""

    from_offset: int
    from_local_us: int
    shift_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """How the times of one stream become instants.

    Args:
        segments: at least one, ordered by offset.
        known_from: `printed`, `trigger-timestamps`, `carrier`, `transitions`, `--tz` or `assumed`.
        drift_ms: what the clock is ahead of the JobManager's after the zone; None when not compared.
    """

    segments: tuple[Segment, ...]
    known_from: str
    drift_ms: int | None = None

    @property
    def zone_ms(self) -> int:
        """The last zone offset, east of UTC is positive."""
        shift = self.segments[-1].shift_ms
        return round(shift / QUARTER_MS) * QUARTER_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """Who wrote a stream, as far as its records say."""

    stream: Stream
    role: str
    cluster: str
    version: str | None
    wording: str | None
    taskmanager: str | None
    host: str | None
    job_ids: tuple[str, ...]
    lacks_job: bool
    clock: Clock
    events: int
    logged: bool
    dated: bool
    first_us: int | None = None
    last_us: int | None = None
    named_cluster: bool = False  # its cluster stands in the log, not only in the name of the input


def _words(words: Iterable[str]) -> str:
    """A list of words for SQL."""
    return "(" + ", ".join(f"'{word}'" for word in words) + ")"


# JobManager or TaskManager, by the class that logs; without one, by the `#n` of TaskManagers' names.
# Rows with an origin (REST, archive, dump) were logged by nobody.
_ROLE: Final = f"""
    CASE WHEN fields['origin'] IS NOT NULL THEN NULL
         WHEN logger IN {_words(JOBMANAGER_LOGGERS)} THEN 'jobmanager'
         WHEN logger IN {_words(TASKMANAGER_LOGGERS)} THEN 'taskmanager'
         WHEN logger IS NULL AND attempt IS NOT NULL THEN 'taskmanager' END"""


RARE_SQL: Final = f"""
    SELECT {", ".join(RARE_COLUMNS)} FROM {{events}}
    WHERE event IN {_words(event.value for event in (*RARE, Event.MARKS))}"""
"""The rows that `survey` reads: a few per split, whatever the number of events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """Everything that settles clocks and writers.

    Args:
        rows: told apart by `what`:
            `stream`: per (source, owner): counts by role, first and last printed time, job ids;
            `mark`: per (source, owner, zone): where the zone begins, from trigger time stamps or carriers;
            `shift`: per pair of a TaskManager stream and a JobManager stream: the median difference of
            their printed times over the transitions that both show, and how many;
            `rare`: the records of `RARE`, as they are.
        has_headers: some owners stand in section headers above their records.
        has_times: some records print a time of day without a date.
    """

    rows: tuple[dict[str, Any], ...]
    has_headers: bool
    has_times: bool


def survey(rare: Iterable[Mapping[str, Any]], marks: Iterable[Marks]) -> Survey:
    """Put together what the splits add up to.

    Args:
        rare: rows with `RARE_COLUMNS`, of the kinds of `RARE`.
        marks: of all splits, in any order.
    """
    found = sorted(marks, key=lambda part: (part.source, part.start))
    by_source: dict[int, list[Marks]] = defaultdict(list)
    for part in found:
        by_source[part.source].append(part)
    streams: dict[Stream, dict[str, Any]] = {}
    zones: dict[tuple[Stream, int | None], dict[str, Any]] = {}
    transitions: dict[Stream, list[Transition]] = defaultdict(list)
    for parts in by_source.values():
        before = zip(parts, days_before(parts), owners_before(parts), strict=True)
        for part, days, owner_before in before:
            _put_together(part, days, owner_before, streams, zones, transitions)
    headers = {
        source: [header for part in parts for header in part.headers]
        for source, parts in by_source.items()
    }
    rows = [*streams.values(), *zones.values(), *_shifts(transitions)]
    for row in rows:
        for name in ("job_ids", "scopes"):
            if name in row:
                row[name] = sorted(row[name], key=str)
        if "scopes" in row:
            row["scopes"] = [{"taskmanager": tm, "host": host} for tm, host in row["scopes"]]
    rows += [
        {"what": "rare", "owner": _owner(row, headers.get(row["source"], ())), **row}
        for row in rare
    ]
    return Survey(
        rows=tuple(rows),
        has_headers=any(headers.values()),
        has_times=any(part.first_time is not None for part in found),
    )


def _owner(row: Mapping[str, Any], headers: Sequence[tuple[int, str]]) -> str | None:
    """The carrier's label, else the section header above the record."""
    if row["process"] is not None or not headers:
        return cast("str | None", row["process"])
    above = bisect_right(headers, row["offset"], key=lambda header: header[0])
    return headers[above - 1][1] if above else None


def _put_together(
    part: Marks,
    days: int,
    owner_before: str | None,
    streams: dict[Stream, dict[str, Any]],
    zones: dict[tuple[Stream, int | None], dict[str, Any]],
    transitions: dict[Stream, list[Transition]],
) -> None:
    """Add one split to those before it: with the owner and the day with which it begins."""

    def stream(owner: str | None) -> Stream:
        return Stream(part.source, owner if owner is not None else owner_before)

    def shift_us(clock: str | None) -> int:
        return days * DAY_US if clock == TIME_OF_DAY else 0

    for each in sorted(part.streams, key=lambda each: each.offset):
        shift = shift_us(each.clock)
        key = stream(each.owner)
        row = streams.setdefault(key, _empty_stream(key))
        for name in _SUMS:
            row[name] += getattr(each, name)
        row["oldest"] = max(row["oldest"], each.oldest)
        row["newest"] = min(row["newest"], each.newest)
        row["clock"] = row["clock"] or each.clock
        for name, choose, value in (
            ("shown_us", min, _moved(each.shown_us, shift)),
            ("last_shown_us", max, _moved(each.last_shown_us, shift)),
            ("utc_us", min, each.utc_us),
            ("last_utc_us", max, each.last_utc_us),
        ):
            known = [known for known in (row[name], value) if known is not None]
            row[name] = choose(known) if known else None
    for owner, job_id in part.jobs:
        streams[stream(owner)]["job_ids"].add(job_id)
    for owner, taskmanager, host in part.scopes:
        streams[stream(owner)]["scopes"].add((taskmanager, host))
    for mark in part.zones:
        shift = shift_us(mark.clock)
        key = stream(mark.owner)
        zone = _moved(mark.zone, shift // 1000)
        row = zones.setdefault(
            (key, zone),
            {
                "what": "mark",
                "source": key.source,
                "owner": key.owner,
                "zone": zone,
                "n": 0,
                "offset": mark.offset,
                "shown_us": mark.shown_us + shift,
                "difference": mark.difference + shift // 1000,
                "printed": False,
            },
        )
        row["n"] += mark.n
        row["offset"] = min(row["offset"], mark.offset)
        row["shown_us"] = min(row["shown_us"], mark.shown_us + shift)
        row["difference"] = min(row["difference"], mark.difference + shift // 1000)
        row["printed"] |= mark.printed
    for transition in part.transitions:
        shift = shift_us(transition.clock)
        if shift:
            moved = transition.shown_us + shift
            transition = msgspec.structs.replace(transition, shown_us=moved)
        transitions[stream(transition.owner)].append(transition)


_SUMS: Final = (
    "n",
    "as_jobmanager",
    "as_taskmanager",
    "logged",
    "dated",
    "with_instant",
    "without_job",
)


def _empty_stream(stream: Stream) -> dict[str, Any]:
    return {
        "what": "stream",
        "source": stream.source,
        "owner": stream.owner,
        **dict.fromkeys(_SUMS, 0),
        "oldest": 0,
        "newest": 999,
        "job_ids": set(),
        "scopes": set(),
        "clock": None,
        "shown_us": None,
        "last_shown_us": None,
        "utc_us": None,
        "last_utc_us": None,
    }


def _moved(value: int | None, by: int) -> int | None:
    return None if value is None else value + by


def _shifts(transitions: Mapping[Stream, Sequence[Transition]]) -> list[dict[str, Any]]:
    """How far the clocks of two streams are apart that show the same transitions."""
    here: dict[Stream, dict[tuple[str, str], int]] = {}
    there: dict[tuple[str, str], dict[Stream, int]] = defaultdict(dict)
    for stream, found in transitions.items():
        first: dict[tuple[str, str], int] = {}
        for each in bounded(found):
            shown = (each.attempt_id, each.to_state)
            if each.by_jobmanager:
                known = there[shown].get(stream, each.shown_us)
                there[shown][stream] = min(known, each.shown_us)
            else:
                first[shown] = min(first.get(shown, each.shown_us), each.shown_us)
        here[stream] = first
    apart: dict[tuple[Stream, Stream], list[int]] = defaultdict(list)
    for stream, first in here.items():
        for shown, shown_us in first.items():
            for other, other_us in there.get(shown, {}).items():
                if other != stream:
                    apart[stream, other].append(shown_us - other_us)
    return [
        {
            "what": "shift",
            "source": stream.source,
            "owner": stream.owner,
            "other_source": other.source,
            "other_owner": other.owner,
            "n": len(differences),
            "difference": int(median(differences) / 1000),
        }
        for (stream, other), differences in apart.items()
    ]


# ----------------------------------------------------------------------------------------------
# judging, without Spark
# ----------------------------------------------------------------------------------------------

_YARN_CONTAINER: Final = re.compile(r"container_(?:e\d+_)?(\d+)_(\d+)_\d+_\d+")
_POD_SUFFIX: Final = re.compile(r"(?:-[0-9a-f]{6,10})?-[0-9a-z]{5}$")


def settle(
    rows: Sequence[Mapping[str, Any]], groups: Mapping[int, str], tz: str | None = None
) -> tuple[Writer, ...]:
    """Decide clock, role, identity and cluster of every stream.

    Args:
        rows: what `survey` collected, as dictionaries.
        groups: source index to the group of its file (path without rolling suffix).
        tz: name of a zone (`Asia/Shanghai`) that overrides every inferred one.

    >>> settle([], {})
    ()
    """
    by_what: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        by_what[row["what"]].append(row)
    rare: dict[Stream, list[Mapping[str, Any]]] = defaultdict(list)
    for row in sorted(by_what["rare"], key=lambda r: (r["source"], r["offset"])):
        rare[_stream(row)].append(row)
    streams = {_stream(row): row for row in by_what["stream"]}
    roles = {stream: _decide_role(row, rare[stream]) for stream, row in streams.items()}
    if tz is None:
        clocks = _clocks(streams, roles, by_what["mark"], by_what["shift"], groups)
    else:
        clocks = {stream: _given_clock(row, tz) for stream, row in streams.items()}
    writers = [
        _writer(stream, row, rare[stream], roles[stream], clocks[stream], groups)
        for stream, row in sorted(streams.items(), key=lambda item: (item[0][0], item[0][1] or ""))
    ]
    by_process: dict[tuple[str, str | None], list[Writer]] = defaultdict(list)
    for writer in writers:
        source, owner = writer.stream
        by_process[(groups.get(source, f"source {source}"), owner)].append(writer)
    told = {
        writer.stream: writer for parts in by_process.values() for writer in told_by_siblings(parts)
    }
    return tuple(at_home([told[writer.stream] for writer in writers]))


def at_home(writers: Sequence[Writer]) -> list[Writer]:
    """Put TaskManagers into the cluster of a JobManager, where only the inputs' names tell clusters.

    Containers and pods have a name each, and so may folders: without this every TaskManager would be a
    cluster of its own, and a job with the id 0…0 another job on each. With several JobManagers the one
    whose name begins most like the TaskManager's is taken, unless two do.
    """
    clusters = {writer.cluster for writer in writers if writer.role in ("jobmanager", "mixed")}
    homes = sorted(clusters)

    def home(writer: Writer) -> Writer:
        if writer.named_cluster or not homes or writer.cluster in clusters:
            return writer
        if len(homes) == 1:
            return replace(writer, cluster=homes[0])
        # In the order of names, those that begin most alike are neighbours.
        at = bisect_right(homes, writer.cluster)
        near = homes[max(0, at - 2) : at + 2]
        shared = sorted((_alike(writer.cluster, home), home) for home in near)
        if shared[-1][0] == shared[-2][0]:
            return writer
        return replace(writer, cluster=shared[-1][1])

    return [home(writer) for writer in writers]


def _alike(one: str, other: str) -> int:
    """How many characters two names have in common at their beginning.

    >>> _alike("prod/a/jobmanager", "prod/a/worker-1")
    7
    """
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def told_by_siblings(parts: Sequence[Writer]) -> list[Writer]:
    """Let the parts of a rolled log know what one of them says of the process they share.

    Version and identity are logged at the start, so only the oldest part has them. A process that
    was started again wrote into the same log: what an earlier part said last holds, and what a later
    one said only if all agree.

    Args:
        parts: writers of one group of files and one owner.
    """
    if len(parts) < 2:
        return list(parts)
    ordered = sorted(
        parts, key=lambda part: (part.first_us is None, part.first_us or 0, part.stream.source)
    )

    def filled(values: Sequence[str | None]) -> list[str | None]:
        distinct = {value for value in values if value is not None}
        known = distinct.pop() if len(distinct) == 1 else None
        result = []
        for value in values:
            known = value or known
            result.append(known)
        return result

    return [
        replace(
            part,
            role=role or part.role,
            version=version,
            taskmanager=taskmanager,
            host=host,
            cluster=cluster or part.cluster,
            named_cluster=cluster is not None,
        )
        for part, role, version, taskmanager, host, cluster in zip(
            ordered,
            filled([part.role if part.role != "unknown" else None for part in ordered]),
            filled([part.version for part in ordered]),
            filled([part.taskmanager for part in ordered]),
            filled([part.host for part in ordered]),
            filled([part.cluster if part.named_cluster else None for part in ordered]),
            strict=True,
        )
    ]


def _stream(row: Mapping[str, Any], prefix: str = "") -> Stream:
    return Stream(row[f"{prefix}source"], row[f"{prefix}owner"])


def _decide_role(row: Mapping[str, Any], rare: Iterable[Mapping[str, Any]]) -> str:
    component = " ".join(
        (record["fields"] or {}).get("component", "")
        for record in rare
        if record["event"] == Event.PROCESS_STARTED
    ).lower()
    manager, worker = row["as_jobmanager"] or 0, row["as_taskmanager"] or 0
    if manager and worker:
        return (
            "mixed"
            if min(manager, worker) * 50 > max(manager, worker)
            else ("jobmanager" if manager > worker else "taskmanager")
        )
    if manager or "clusterentry" in component or "jobmanager" in component:
        return "jobmanager"
    if worker or "taskmanager" in component or "taskexecutor" in component:
        return "taskmanager"
    return "unknown"


def _clocks(
    streams: Mapping[Stream, Mapping[str, Any]],
    roles: Mapping[Stream, str],
    marks: Iterable[Mapping[str, Any]],
    shifts: Iterable[Mapping[str, Any]],
    groups: Mapping[int, str],
) -> dict[Stream, Clock]:
    """Marks first, then transitions shared with a stream that has marks, then the neighbours."""
    clocks: dict[Stream, Clock] = {}
    marked: dict[Stream, list[Mapping[str, Any]]] = defaultdict(list)
    for row in marks:
        marked[_stream(row)].append(row)
    for stream, found in marked.items():
        clocks[stream] = _marked_clock(found)
    partners: dict[Stream, list[Mapping[str, Any]]] = defaultdict(list)
    for row in shifts:
        partners[_stream(row)].append(row)
    for stream, found in sorted(partners.items(), key=lambda item: (item[0][0], item[0][1] or "")):
        best = max(
            (row for row in found if _stream(row, "other_") in clocks),
            key=lambda row: (row["n"], -row["other_source"]),
            default=None,
        )
        if best is None:
            best = max(found, key=lambda row: (row["n"], -row["other_source"]))
            other = Clock(segments=(Segment(0, -(2**62), 0),), known_from="assumed")
        else:
            other = clocks[_stream(best, "other_")]
        difference = best["difference"]
        zone = round(difference / QUARTER_MS) * QUARTER_MS
        own_clock = (streams.get(stream) or {}).get("clock")
        drift = None if own_clock == "elapsed" else difference - zone
        if stream in clocks:  # its own marks give the zone, the transitions only the drift
            mine = clocks[stream]
            apart = difference - (mine.segments[0].shift_ms - other.segments[0].shift_ms)
            if abs(apart) < QUARTER_MS:
                clocks[stream] = Clock(
                    segments=mine.segments, known_from=mine.known_from, drift_ms=apart
                )
            continue
        correction = difference if drift is None or abs(drift) >= DRIFT_MS else zone
        clocks[stream] = Clock(
            segments=tuple(
                Segment(
                    0 if index == 0 else -1,
                    segment.from_local_us + correction * 1000 if index else -(2**62),
                    segment.shift_ms + correction,
                )
                for index, segment in enumerate(other.segments)
            ),
            known_from="transitions",
            drift_ms=drift,
        )
    # What nothing tells is taken from a file of the same group, then from the JobManagers, then assumed.
    of_jobmanagers = {
        clock.zone_ms
        for stream, clock in clocks.items()
        if roles.get(stream) in ("jobmanager", "mixed")
    }
    of_group: dict[tuple[str | None, str | None], Clock] = {}
    for stream, clock in clocks.items():
        of_group.setdefault((stream.owner, groups.get(stream.source)), clock)
    for stream in streams:
        if stream in clocks:
            continue
        group = (stream.owner, groups.get(stream.source))
        if sibling := of_group.get(group):
            shift, known_from = sibling.zone_ms, sibling.known_from
        elif len(of_jobmanagers) == 1:
            shift, known_from = next(iter(of_jobmanagers)), "assumed"
        else:
            shift, known_from = 0, "assumed"
        clock = Clock(segments=(Segment(0, -(2**62), shift),), known_from=known_from)
        clocks[stream] = clock
        of_group.setdefault(group, clock)
    return clocks


def _given_clock(row: Mapping[str, Any], tz: str) -> Clock:
    """The offset of a named zone at the first printed time; `resolve` follows its summer time."""
    local = datetime(1970, 1, 1) + timedelta(microseconds=row["shown_us"] or 0)
    offset = ZoneInfo(tz).utcoffset(local) or timedelta(0)
    shift_ms = offset // timedelta(milliseconds=1)
    return Clock(segments=(Segment(0, -(2**62), shift_ms),), known_from="--tz")


def _marked_clock(found: Sequence[Mapping[str, Any]]) -> Clock:
    """One segment per zone; a zone seen in a hundredth of the marks or fewer is a stray, not a change."""
    total = sum(row["n"] for row in found)
    solid = [row for row in found if row["n"] * 100 > total or row["n"] >= 20] or list(found)
    ordered = sorted(solid, key=lambda row: row["offset"])
    printed = any(row["printed"] for row in ordered)
    segments = []
    for index, row in enumerate(ordered):
        shift = row["difference"] if row["zone"] is None else row["zone"]
        segments.append(
            Segment(
                0 if index == 0 else row["offset"],
                -(2**62) if index == 0 else row["shown_us"],
                shift,
            )
        )
    return Clock(
        segments=tuple(segments), known_from="trigger-timestamps" if printed else "carrier"
    )


def _writer(
    stream: Stream,
    row: Mapping[str, Any],
    rare: Sequence[Mapping[str, Any]],
    role: str,
    clock: Clock,
    groups: Mapping[int, str],
) -> Writer:
    version = taskmanager = host = cluster = None
    for record in rare:
        fields = record["fields"] or {}
        if record["event"] == Event.PROCESS_STARTED:
            version = version or fields.get("version")
        elif record["event"] == Event.PROCESS_IDENTITY:
            taskmanager = taskmanager or record["taskmanager"]
            host = host or record["host"]
        elif record["event"] == Event.CONFIGURATION and fields.get("key") in (
            "kubernetes.cluster-id",
            "high-availability.cluster-id",
            "yarn.application.id",
        ):
            value = fields.get("value", "")
            cluster = cluster or (value if value not in ("", "/default") else None)
    scopes = row["scopes"] or []
    if taskmanager is None and len(scopes) == 1 and role == "taskmanager":
        taskmanager, host = scopes[0]["taskmanager"], host or scopes[0]["host"]
    group = groups.get(stream.source, "")
    for text in (stream.owner or "", taskmanager or "", group):
        container = _YARN_CONTAINER.search(text)
        if container:
            cluster = cluster or f"application_{container[1]}_{container[2]}"
            if taskmanager is None and role == "taskmanager":
                taskmanager = container[0]
    named_cluster = cluster is not None
    if cluster is None:
        cluster = _POD_SUFFIX.sub("", stream.owner) if stream.owner else group.rpartition("/")[0]
    return Writer(
        stream=stream,
        role=role,
        cluster=cluster,
        named_cluster=named_cluster,
        version=version,
        wording=version_by_wording(row["oldest"], row["newest"]),
        taskmanager=taskmanager,
        host=host,
        job_ids=tuple(row["job_ids"] or ()),
        lacks_job=bool(row["without_job"]),
        clock=clock,
        events=row["n"],
        logged=bool(row["logged"]),
        dated=bool(row["dated"] or row["with_instant"]),
        first_us=_bound(min, row["utc_us"], row["shown_us"], clock.segments[0].shift_ms),
        last_us=_bound(max, row["last_utc_us"], row["last_shown_us"], clock.segments[-1].shift_ms),
    )


def version_by_wording(oldest: int, newest: int) -> str | None:
    """The range of versions that words its messages like this; None where it says too little.

    What matters to rules is the side of 1.11, from which on tasks are told of aborted checkpoints.

    >>> version_by_wording(111, 113), version_by_wording(116, 999), version_by_wording(0, 999)
    ('1.11 to 1.13', '1.16 or later', None)
    >>> version_by_wording(0, 105)
    '1.4 to 1.5'
    """
    if newest <= 110 or oldest >= 111:
        low, high = (f"{bound // 100}.{bound % 100}" for bound in (max(oldest, 104), newest))
        if newest >= 999:
            return f"{low} or later"
        return low if low == high else f"{low} to {high}"
    return None


def _bound(
    choose: Callable[[Iterable[int]], int], utc_us: int | None, shown_us: int | None, shift_ms: int
) -> int | None:
    """The first or last instant of a stream, of printed instants and settled wall clocks."""
    known = [utc_us] if utc_us is not None else []
    if shown_us is not None:
        known.append(shown_us - shift_ms * 1000)
    return choose(known) if known else None


# ----------------------------------------------------------------------------------------------
# applying
# ----------------------------------------------------------------------------------------------


def resolve(
    events: DataFrame,
    writers: Sequence[Writer],
    spark: SparkSession,
    surveyed: Survey,
    tz: str | None = None,
    *,
    few: bool = False,
) -> DataFrame:
    """Give every event its instant and its writer.

    Args:
        events: EVENTS.
        writers: what `settle` decided.
        spark: the session, for the small frame of segments.
        surveyed: what `survey` found.
        tz: name of a zone that overrides every inferred one.
        few: put all events into one partition, which spares every query over them its shuffles.

    Returns:
        EVENTS + (owner, shown_us, time_us, role, cluster, writer_taskmanager, writer_host), without
        rows of marks; `job_id` is filled from the stream's last job line where the record lacks it
        (Flink 1.4).
    """
    segments = spark.createDataFrame(pa.Table.from_pylist(_segment_rows(writers), schema=_SEGMENTS))
    instant = "e.shown_us - w.shift_us"
    if tz is not None:
        in_zone = "unix_micros(to_utc_timestamp(timestamp_micros(e.shown_us), :tz))"
        instant = f"IF(e.clock IS NULL, {in_zone}, {instant})"
    job_id = "job_id"
    if any(writer.lacks_job for writer in writers):
        # Two windows that begin at an edge: one that begins at each row is quadratic in Spark.
        of_stream = "PARTITION BY source, owner ORDER BY offset"
        from_edge = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
        job_id = f"""
          IF(checkpoint IS NOT NULL AND job_id IS NULL, coalesce(
               last(job_id, true) OVER ({of_stream} {from_edge}),
               last(job_id, true) OVER ({of_stream} DESC {from_edge}), ''),
             job_id)"""
        job_id = f"* EXCEPT (job_id), {job_id} AS job_id"
    else:
        job_id = "*"
    hint, join = (
        ("/*+ COALESCE(1) */", "/*+ SHUFFLE_HASH(w) */") if few else ("", "/*+ BROADCAST(w) */")
    )
    return spark.sql(
        f"""
        WITH located AS ({_located(surveyed, hint)}), settled AS (
          SELECT {join} e.*,
            coalesce(e.utc_us, {instant}) AS time_us,
            coalesce(w.writer_role, {_ROLE}) AS role,
            coalesce(w.cluster, '') AS cluster,
            w.writer_taskmanager, w.writer_host
          FROM located AS e LEFT JOIN (SELECT {hint} * FROM {{segments}}) AS w
            ON e.source = w.source AND e.owner <=> w.owner
            AND e.offset BETWEEN w.low_offset AND w.high_offset
            AND (e.shown_us IS NULL OR e.shown_us BETWEEN w.low_us AND w.high_us)
        )
        SELECT {job_id} FROM settled
        """,
        args={"tz": tz} if tz is not None else None,
        events=events,
        segments=segments,
    )


def _located(surveyed: Survey, hint: str) -> str:
    """A query that adds `owner` and complete times of day to `{events}`: owner and shown_us.

    `owner` is the carrier's label or else the last section header above the record. `shown_us` is the
    printed wall clock; a time of day gets the number of midnights passed since the start of its source.
    """
    owner, shown_us = "process", "local_us"
    events = f"(SELECT {hint} * FROM {{events}} WHERE event <> '{Event.MARKS}')"
    of_source = "PARTITION BY source ORDER BY offset ROWS BETWEEN UNBOUNDED PRECEDING AND"
    if surveyed.has_headers:
        header = f"IF(event = '{Event.SECTION}', process, NULL)"
        owner = f"coalesce(process, last({header}, true) OVER ({of_source} CURRENT ROW))"
    if not surveyed.has_times:
        return f"SELECT *, {owner} AS owner, {shown_us} AS shown_us FROM {events}"
    timed = f"clock <=> '{TIME_OF_DAY}'"
    return f"""
        SELECT * EXCEPT (midnight), {owner} AS owner,
          IF({timed}, local_us + {DAY_US} * count_if(midnight) OVER ({of_source} CURRENT ROW), local_us)
            AS shown_us
        FROM (
          SELECT *, {timed} AND local_us < last(IF({timed}, local_us, NULL), true)
            OVER ({of_source} 1 PRECEDING) - {DAY_US // 2} AS midnight
          FROM {events}
        )"""


_SEGMENTS: Final = pa.schema(
    [
        ("source", pa.int32()),
        ("owner", pa.string()),
        ("low_offset", pa.int64()),
        ("high_offset", pa.int64()),
        ("low_us", pa.int64()),
        ("high_us", pa.int64()),
        ("shift_us", pa.int64()),
        ("writer_role", pa.string()),
        ("cluster", pa.string()),
        ("writer_taskmanager", pa.string()),
        ("writer_host", pa.string()),
    ]
)


def _segment_rows(writers: Sequence[Writer]) -> list[dict[str, Any]]:
    rows = []
    for writer in writers:
        segments = writer.clock.segments
        by_offset = all(segment.from_offset >= 0 for segment in segments)
        for index, segment in enumerate(segments):
            following = segments[index + 1] if index + 1 < len(segments) else None
            low_offset, high_offset = 0, 2**62
            low_us, high_us = -(2**63) + 1, 2**63 - 1
            if by_offset:
                low_offset = segment.from_offset
                high_offset = following.from_offset - 1 if following else 2**62
            else:
                low_us = segment.from_local_us
                high_us = following.from_local_us - 1 if following else 2**63 - 1
            role = writer.role if writer.role in ("jobmanager", "taskmanager") else None
            rows.append(
                {
                    "source": writer.stream.source,
                    "owner": writer.stream.owner,
                    "low_offset": low_offset,
                    "high_offset": high_offset,
                    "low_us": low_us,
                    "high_us": high_us,
                    "shift_us": segment.shift_ms * 1000,
                    "writer_role": role,
                    "cluster": writer.cluster,
                    "writer_taskmanager": writer.taskmanager,
                    "writer_host": writer.host,
                }
            )
    return rows


def zone_name(shift_ms: int) -> str:
    """A zone offset as people write it.

    >>> zone_name(8 * 3600 * 1000), zone_name(0), zone_name(-12600000)
    ('UTC+08:00', 'UTC', 'UTC-03:30')
    """
    if shift_ms == 0:
        return "UTC"
    minutes = abs(shift_ms) // 60000
    return f"UTC{'+' if shift_ms > 0 else '-'}{minutes // 60:02d}:{minutes % 60:02d}"
