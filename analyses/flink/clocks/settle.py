"""Settle what a single record cannot say: its instant, the process that wrote it, its cluster.

Parsers emit what is printed. A JobManager log has no zone, but `Triggering checkpoint N @ epoch-ms`
beside its own time stamp gives it away; a TaskManager log has no such mark, but the state transitions
of the same execution attempts stand in both logs. Such marks are added up where records are parsed;
`survey` puts the sums together, `settle` judges them, both in Python, and `resolve` applies the verdict
with Spark:

    surveyed = survey(rare records, marks)
    writers = settle(surveyed.rows, ...)
    events = resolve(events, writers, spark, surveyed)

Every difference of clocks is a whole number of quarters of an hour (a zone) plus a rest (drift and the
time that a message takes); see catalogue/flink.md 1.1 and 2.2.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from itertools import takewhile
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from flowdiag.analyses.flink.clocks.survey import CLUSTER_KEYS, Stream
from flowdiag.analyses.flink.job import unmangled
from flowdiag.parsers.flink.marks import QUARTER_MS, TIME_OF_DAY, merge_spans
from flowdiag.parsers.notes import InputNote, Kind
from flowdiag.parsers.rows import Event

# A drift below this is not told apart from the time that a transition takes to reach the other log.
DRIFT_MS: Final = 1_000
DAY_MS: Final = 86_400_000
# No zone of the world is further from UTC.
EASTMOST_MS: Final = 14 * 3_600_000
WESTMOST_MS: Final = 12 * 3_600_000


def zone_of(shift_ms: int) -> int:
    """The zone in what a clock is ahead of UTC.

    Where only a time of day is printed, a shift holds the days since 1970 as well: they are no zone. At
    most 14 hours east and 12 hours west are (Kiritimati, Baker Island).

    >>> zone_of(-20_778 * DAY_MS + 8 * 3_600_000) // 3_600_000, zone_of(14 * 3_600_000) // 3_600_000
    (8, 14)
    """
    if -WESTMOST_MS <= shift_ms <= EASTMOST_MS:
        return shift_ms
    return (shift_ms + DAY_MS // 2) % DAY_MS - DAY_MS // 2


# What an input shows of its zone, and does not only suggest.
_SHOWN: Final = frozenset({"printed", "trigger-timestamps", "transitions"})


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
        inferred_ms, inferred_from: the zone that the input itself shows, where `--tz` says another.
    """

    segments: tuple[Segment, ...]
    known_from: str
    drift_ms: int | None = None
    inferred_ms: int | None = None
    inferred_from: str | None = None

    @property
    def zone_ms(self) -> int:
        """The last zone offset, east of UTC is positive."""
        return zone_of(round(self.segments[-1].shift_ms / QUARTER_MS) * QUARTER_MS)


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
    heard: tuple[tuple[int, int], ...] = ()  # spans with records, without long pauses
    named_cluster: bool = False  # its cluster stands in the log, not only in the name of the input


_YARN_CONTAINER: Final = re.compile(r"container_(?:e\d+_)?(\d+)_(\d+)_\d+_\d+")
_POD_SUFFIX: Final = re.compile(r"(?:-[0-9a-f]{6,10})?-[0-9a-z]{5}$")


def settle(
    rows: Sequence[Mapping[str, Any]],
    groups: Mapping[int, str],
    tz: str | None = None,
    names: Mapping[int, str] | None = None,
) -> tuple[Writer, ...]:
    """Decide clock, role, identity and cluster of every stream.

    Args:
        rows: what `survey` collected, as dictionaries.
        groups: source index to the group of its file (path without rolling suffix).
        tz: name of a zone (`Asia/Shanghai`) that overrides every inferred one.
        names: source index to the name of its file, which may hold the day of times of day.

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
        clocks = _clocks(streams, roles, by_what["mark"], by_what["shift"], groups, names or {})
    else:
        shown = _clocks(streams, roles, by_what["mark"], by_what["shift"], groups, names or {})
        clocks = {stream: _given_clock(row, tz) for stream, row in streams.items()}
        for stream, clock in clocks.items():
            if streams[stream]["clock"] == TIME_OF_DAY:
                clocks[stream] = _on_day(clock, (names or {}).get(stream.source))
            else:
                clocks[stream] = _disputed(clock, shown.get(stream))
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
    names: Mapping[int, str],
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
        elapsed = (streams.get(stream) or {}).get("clock") == "elapsed"
        clock = _compared_clock(clocks.get(stream), found, clocks, elapsed=elapsed)
        if clock is not None:
            clocks[stream] = clock
    assumed = _assume(clocks, streams, roles, groups)
    for stream in assumed:
        if streams[stream]["clock"] == TIME_OF_DAY:
            clocks[stream] = _on_day(clocks[stream], names.get(stream.source))
    return clocks


_DAY_IN_NAME: Final = re.compile(
    r"(?<![0-9])(20[0-9]{2})([-_.]?)(0[1-9]|1[0-2])\2(0[1-9]|[12][0-9]|3[01])(?![0-9]{1,5}(?![0-9]))"
)


def day_in(name: str) -> int | None:
    """The day that the name of a file ends with, in milliseconds since 1970; None where it has none.

    >>> day_in("logs/jobmanager.log.2026-11-21"), day_in("20261121_jm.log"), day_in("jm-2026.log")
    (1795219200000, 1795219200000, None)
    """
    for found in reversed([*_DAY_IN_NAME.finditer(re.split(r"[/\\]", name)[-1])]):
        try:
            day = date(int(found[1]), int(found[3]), int(found[4]))
        except ValueError:
            continue
        return (day.toordinal() - date(1970, 1, 1).toordinal()) * DAY_MS
    return None


def _on_day(clock: Clock, name: str | None) -> Clock:
    """A clock whose times of day lie on the day that its file is named after; else it stays in 1970."""
    day = day_in(name) if name else None
    if day is None:
        return clock
    segments = tuple(part._replace(shift_ms=part.shift_ms - day) for part in clock.segments)
    return replace(clock, segments=segments)


def _compared_clock(
    mine: Clock | None,
    found: Sequence[Mapping[str, Any]],
    clocks: Mapping[Stream, Clock],
    *,
    elapsed: bool,
) -> Clock | None:
    """A clock by the transitions that other streams show, too; None where they add nothing.

    Args:
        mine: what the stream's own marks say: they give the zone, the transitions only the drift.
        found: rows of `shift`, one per other stream.
        clocks: those known by now.
        elapsed: the stream counts from the start of its process.
    """
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
    if mine is not None:
        apart = difference - (mine.segments[0].shift_ms - other.segments[0].shift_ms)
        return replace(mine, drift_ms=apart) if abs(apart) < QUARTER_MS else None
    zone = round(difference / QUARTER_MS) * QUARTER_MS
    drift = None if elapsed else difference - zone
    correction = difference if drift is None or abs(drift) >= DRIFT_MS else zone
    return Clock(
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


def _assume(
    clocks: dict[Stream, Clock],
    streams: Iterable[Stream],
    roles: Mapping[Stream, str],
    groups: Mapping[int, str],
) -> list[Stream]:
    """Take what nothing tells from a file of the same group, then from the JobManagers, then assume.

    Only zones are taken: the day of one file is not that of another.

    Returns:
        the streams that got a clock.
    """
    assumed = []
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
        assumed.append(stream)
        of_group.setdefault(group, clock)
    return assumed


def _given_clock(row: Mapping[str, Any], tz: str) -> Clock:
    """The offset of a named zone at the first printed time; `resolve` follows its summer time."""
    local = datetime(1970, 1, 1) + timedelta(microseconds=row["shown_us"] or 0)
    offset = ZoneInfo(tz).utcoffset(local) or timedelta(0)
    shift_ms = offset // timedelta(milliseconds=1)
    return Clock(segments=(Segment(0, -(2**62), shift_ms),), known_from="--tz")


def disputed_zones(writers: Iterable[Writer]) -> list[tuple[int, InputNote]]:
    """By source, where `--tz` and the input itself disagree: both zones, since one of them is wrong."""
    return list(
        dict.fromkeys(
            (
                writer.stream.source,
                InputNote(
                    Kind.ZONE,
                    f"--tz says {zone_name(writer.clock.zone_ms)}, its"
                    f" {(writer.clock.inferred_from or 'records').replace('-', ' ')} say"
                    f" {zone_name(writer.clock.inferred_ms)}: --tz is used, and if it is wrong"
                    " checkpoints of logs and of saved answers do not meet",
                ),
            )
            for writer in writers
            if writer.clock.inferred_ms is not None
        )
    )


def _disputed(given: Clock, shown: Clock | None) -> Clock:
    """The clock that the user gave, with the one that the input shows, where the two are not the same."""
    if shown is None or shown.known_from not in _SHOWN or shown.zone_ms == given.zone_ms:
        return given
    return replace(given, inferred_ms=shown.zone_ms, inferred_from=shown.known_from)


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
        elif record["event"] == Event.CONFIGURATION and fields.get("key") in CLUSTER_KEYS:
            value = fields.get("value", "")
            cluster = cluster or (value if value not in ("", "/default") else None)
    scopes = row["scopes"] or []
    if taskmanager is None and len(scopes) == 1 and role == "taskmanager":
        taskmanager, host = scopes[0]["taskmanager"], host or unmangled(scopes[0]["host"])
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
        heard=tuple(_heard(row, clock)),
    )


def _heard(row: Mapping[str, Any], clock: Clock) -> Iterator[tuple[int, int]]:
    """When a stream has records, as instants."""
    for low, high in merge_spans(row.get("heard", ())):
        if row["shown_us"] is None:
            yield low, high
        else:
            yield _instant(low, clock), _instant(high, clock)


def _instant(shown_us: int, clock: Clock) -> int:
    held = [part for part in clock.segments if part.from_local_us <= shown_us] or clock.segments
    return shown_us - held[-1].shift_ms * 1000


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


def zone_name(shift_ms: int) -> str:
    """A zone offset as people write it.

    >>> zone_name(8 * 3600 * 1000), zone_name(0), zone_name(-12600000)
    ('UTC+08:00', 'UTC', 'UTC-03:30')
    """
    if shift_ms == 0:
        return "UTC"
    minutes = abs(shift_ms) // 60000
    return f"UTC{'+' if shift_ms > 0 else '-'}{minutes // 60:02d}:{minutes % 60:02d}"
