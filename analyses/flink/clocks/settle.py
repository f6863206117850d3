"""Settles what no single record contains: its instant, its process and its cluster.

Parsers emit times as printed. A JobManager log does not name its zone, but `Triggering checkpoint N @ epoch-ms`
reveals it when compared with the line's own timestamp. A TaskManager log has no such mark, but it shares the
state transitions of execution attempts with the JobManager log. Parsers add up these marks. `survey` combines
the sums and `settle` evaluates them, both in Python. `resolve` applies the result with Spark:

    surveyed = survey(rare records, marks)
    writers = settle(surveyed.rows, ...)
    events = resolve(events, writers, spark, surveyed)

A clock difference is a whole number of quarter hours (the zone) plus a remainder. The remainder is drift
and message delay.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from os.path import commonprefix
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from flowdiag.analyses.flink.clocks.survey import CLUSTER_KEYS, Stream
from flowdiag.analyses.flink.job import original_host
from flowdiag.parsers.flink.marks import QUARTER_MS, TIME_OF_DAY, merge_spans
from flowdiag.parsers.notes import InputNote, Kind
from flowdiag.parsers.rows import Event

# A smaller drift cannot be distinguished from the time that a transition takes to reach the other log.
DRIFT_MS: Final = 1_000
DAY_MS: Final = 86_400_000
# No time zone is further from UTC.
EASTMOST_MS: Final = 14 * 3_600_000
WESTMOST_MS: Final = 12 * 3_600_000


def zone_of(shift_ms: int) -> int:
    """Return the time zone within a clock's shift from UTC.

    If only a time of day is printed, the shift also contains the days since 1970. Zones range from 14 hours
    east to 12 hours west of UTC (Kiritimati, Baker Island).

    >>> zone_of(-20_778 * DAY_MS + 8 * 3_600_000) // 3_600_000, zone_of(14 * 3_600_000) // 3_600_000
    (8, 14)
    """
    if -WESTMOST_MS <= shift_ms <= EASTMOST_MS:
        return shift_ms
    return (shift_ms + DAY_MS // 2) % DAY_MS - DAY_MS // 2


# Origins that prove the zone of an input.
_PROVEN: Final = frozenset({"printed", "trigger-timestamps", "transitions"})


class Segment(NamedTuple):
    """From this local time and offset on, `instant = local - shift_ms`. Daylight saving time adds segments."""

    from_offset: int
    from_local_us: int
    shift_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Converts the times of one stream to instants.

    Args:
        segments: at least one, ordered by offset.
        known_from: `printed`, `trigger-timestamps`, `carrier`, `transitions`, `--tz` or `assumed`.
        drift_ms: how far the clock is ahead of the JobManager's, without the zone; None if not compared.
        inferred_ms, inferred_from: the zone that the input shows, if `--tz` differs.
    """

    segments: tuple[Segment, ...]
    known_from: str
    drift_ms: int | None = None
    inferred_ms: int | None = None
    inferred_from: str | None = None

    @property
    def zone_ms(self) -> int:
        """The offset of the last zone, positive east of UTC."""
        return zone_of(round(self.segments[-1].shift_ms / QUARTER_MS) * QUARTER_MS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """The process that wrote a stream, as far as its records identify it."""

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
    heard: tuple[tuple[int, int], ...] = ()  # periods with records, without long pauses
    named_cluster: bool = False  # the cluster comes from the log, not just from the input's name


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
        rows: the result of `survey`, as dictionaries.
        groups: source index to the group of its file (path without rolling suffix).
        tz: a zone name (`Asia/Shanghai`) that overrides every inferred zone.
        names: source index to file name, which may contain the date.

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
    names = names or {}
    clocks = _clocks(streams, roles, by_what["mark"], by_what["shift"], groups, names)
    if tz is not None:
        clocks = {
            stream: _given_clock(row, tz, clocks.get(stream), names.get(stream.source))
            for stream, row in streams.items()
        }
    writers = [
        _writer(stream, row, rare[stream], roles[stream], clocks[stream], groups)
        for stream, row in sorted(streams.items(), key=lambda item: (item[0][0], item[0][1] or ""))
    ]
    by_process: dict[tuple[str, str | None], list[Writer]] = defaultdict(list)
    logs = set(groups.values())
    for writer in writers:
        source, owner = writer.stream
        group = groups.get(source, f"source {source}")
        # Flink's scripts write what a process prints next to its log.
        log = f"{group.removesuffix('.out')}.log"
        by_process[(log if log in logs else group, owner)].append(writer)
    by_stream = {
        writer.stream: writer for parts in by_process.values() for writer in share_within_log(parts)
    }
    return tuple(assign_clusters([by_stream[writer.stream] for writer in writers]))


def assign_clusters(writers: Sequence[Writer]) -> list[Writer]:
    """Assign TaskManagers to the cluster of a JobManager if only input names identify clusters.

    Each container or pod has its own name, and folders may have names, too. Without this, every TaskManager
    would be a separate cluster with its own job 0…0. With several JobManagers, the one whose name shares the
    longest prefix with the TaskManager's name wins, unless two tie.
    """
    clusters = {writer.cluster for writer in writers if writer.role in ("jobmanager", "mixed")}
    homes = sorted(clusters)

    def home(writer: Writer) -> Writer:
        if writer.named_cluster or not homes or writer.cluster in clusters:
            return writer
        if len(homes) == 1:
            return replace(writer, cluster=homes[0])
        # Sorting puts the names with the longest common prefix next to each other.
        at = bisect_right(homes, writer.cluster)
        near = homes[max(0, at - 2) : at + 2]
        # The common prefix counts characters, not path segments.
        shared = sorted(
            (len(commonprefix([writer.cluster, home])), home)  # noqa: RUF071
            for home in near
        )
        if shared[-1][0] == shared[-2][0]:
            return writer
        return replace(writer, cluster=shared[-1][1])

    return [home(writer) for writer in writers]


def share_within_log(parts: Sequence[Writer]) -> list[Writer]:
    """Share the identity of a process among the parts of its rolled log.

    Version and identity are logged at startup, so only the oldest part contains them. If a restarted process writes
    to the same log, the last value from earlier parts counts. A value from later parts counts only if all later parts
    agree.

    Args:
        parts: writers of one group of files and one owner.
    """
    if len(parts) < 2:
        return list(parts)
    ordered = sorted(
        parts, key=lambda part: (part.first_us is None, part.first_us or 0, part.stream.source)
    )

    identities: list[dict[str, str | None]] = [
        {
            "role": None if part.role == "unknown" else part.role,
            "version": part.version,
            "taskmanager": part.taskmanager,
            "host": part.host,
            "cluster": part.cluster if part.named_cluster else None,
        }
        for part in ordered
    ]
    for name in identities[0]:
        distinct = {identity[name] for identity in identities} - {None}
        known = distinct.pop() if len(distinct) == 1 else None
        for identity in identities:
            known = identity[name] = identity[name] or known
    return [
        replace(
            part,
            role=identity["role"] or part.role,
            version=identity["version"],
            taskmanager=identity["taskmanager"],
            host=identity["host"],
            cluster=identity["cluster"] or part.cluster,
            named_cluster=identity["cluster"] is not None,
        )
        for part, identity in zip(ordered, identities, strict=True)
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
        if min(manager, worker) * 50 > max(manager, worker):
            return "mixed"
        return "jobmanager" if manager > worker else "taskmanager"
    for role, records, names in (
        ("jobmanager", manager, ("clusterentry", "jobmanager")),
        ("taskmanager", worker, ("taskmanager", "taskexecutor")),
    ):
        if records or any(name in component for name in names):
            return role
    return "unknown"


def _clocks(
    streams: Mapping[Stream, Mapping[str, Any]],
    roles: Mapping[Stream, str],
    marks: Iterable[Mapping[str, Any]],
    shifts: Iterable[Mapping[str, Any]],
    groups: Mapping[int, str],
    names: Mapping[int, str],
) -> dict[Stream, Clock]:
    """Find the clocks from marks, then from transitions shared with a marked stream, then from related files."""
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
            clocks[stream] = _with_file_date(clocks[stream], names.get(stream.source))
    return clocks


_DAY_IN_NAME: Final = re.compile(
    r"(?<![0-9])(20[0-9]{2})([-_.]?)(0[1-9]|1[0-2])\2(0[1-9]|[12][0-9]|3[01])(?![0-9]{1,5}(?![0-9]))"
)


def day_in(name: str) -> int | None:
    """Return the date at the end of a file name as milliseconds since 1970, or None.

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


def _with_file_date(clock: Clock, name: str | None) -> Clock:
    """Move a clock without dates to the date in the file name. Without such a date, it stays in 1970."""
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
    """Return a clock derived from transitions that other streams share, or None if they add nothing.

    Args:
        mine: the clock from the stream's own marks. It gives the zone, so transitions add only the drift.
        found: rows of `shift`, one per other stream.
        clocks: the clocks found so far.
        elapsed: whether the stream's times count from the start of its process.
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
    """Fill in unknown clocks from a file of the same group, then from the JobManagers, and otherwise assume UTC.

    Only zones are copied, because files differ in their dates.

    Returns:
        the streams whose clock was unknown.
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


def _given_clock(row: Mapping[str, Any], tz: str, shown: Clock | None, name: str | None) -> Clock:
    """Return a clock in the named zone, without daylight saving time, which `resolve` applies.

    If the input shows a different zone, the clock records that zone too.
    """
    local = datetime(1970, 1, 1) + timedelta(microseconds=row["shown_us"] or 0)
    offset = ZoneInfo(tz).utcoffset(local) or timedelta(0)
    shift_ms = offset // timedelta(milliseconds=1)
    given = Clock(segments=(Segment(0, -(2**62), shift_ms),), known_from="--tz")
    if row["clock"] == TIME_OF_DAY:
        return _with_file_date(given, name)
    if shown is None or shown.known_from not in _PROVEN or shown.zone_ms == given.zone_ms:
        return given
    return replace(given, inferred_ms=shown.zone_ms, inferred_from=shown.known_from)


def disputed_zones(writers: Iterable[Writer]) -> list[tuple[int, InputNote]]:
    """Return a note for each source that shows a zone different from `--tz`."""
    return list(
        dict.fromkeys(
            (
                writer.stream.source,
                InputNote(
                    Kind.ZONE,
                    f"--tz is {zone_name(writer.clock.zone_ms)}, but its "
                    f"{(writer.clock.inferred_from or 'records').replace('-', ' ')} show "
                    f"{zone_name(writer.clock.inferred_ms)}. flowdiag uses --tz. If --tz is "
                    "wrong, checkpoints in logs and saved REST responses do not match",
                ),
            )
            for writer in writers
            if writer.clock.inferred_ms is not None
        )
    )


def _marked_clock(found: Sequence[Mapping[str, Any]]) -> Clock:
    """Build a segment for each zone. Zones with at most 1% of the marks are left out as strays."""
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


def _identity(rare: Sequence[Mapping[str, Any]]) -> dict[str, str | None]:
    """Return the first version, TaskManager, host and cluster found in the records of a stream."""
    known: dict[str, str | None] = dict.fromkeys(("version", "taskmanager", "host", "cluster"))
    for record in rare:
        fields, found = record["fields"] or {}, {}
        if record["event"] == Event.PROCESS_STARTED:
            found = {"version": fields.get("version")}
        elif record["event"] == Event.PROCESS_IDENTITY:
            found = {"taskmanager": record["taskmanager"], "host": record["host"]}
        elif record["event"] == Event.CONFIGURATION and fields.get("key") in CLUSTER_KEYS:
            value = fields.get("value", "")
            found = {"cluster": None if value == "/default" else value}
        for name, value in found.items():
            known[name] = known[name] or value or None
    return known


def _writer(
    stream: Stream,
    row: Mapping[str, Any],
    rare: Sequence[Mapping[str, Any]],
    role: str,
    clock: Clock,
    groups: Mapping[int, str],
) -> Writer:
    known = _identity(rare)
    taskmanager, host, cluster = known["taskmanager"], known["host"], known["cluster"]
    scopes = row["scopes"] or []
    if taskmanager is None and len(scopes) == 1 and role == "taskmanager":
        taskmanager, host = scopes[0]["taskmanager"], host or original_host(scopes[0]["host"])
    group = groups.get(stream.source, "")
    for text in filter(None, (stream.owner, taskmanager, group)):
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
        version=known["version"],
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
        heard=tuple(_record_spans(row, clock)),
    )


def _record_spans(row: Mapping[str, Any], clock: Clock) -> Iterator[tuple[int, int]]:
    """Yield the periods with records, as instants."""
    for low, high in merge_spans(row.get("heard", ())):
        if row["shown_us"] is None:
            yield low, high
        else:
            yield _instant(low, clock), _instant(high, clock)


def _instant(shown_us: int, clock: Clock) -> int:
    held = [part for part in clock.segments if part.from_local_us <= shown_us] or clock.segments
    return shown_us - held[-1].shift_ms * 1000


def version_by_wording(oldest: int, newest: int) -> str | None:
    """Return the range of versions that print these messages, or None if it is too wide or contradictory.

    Rules need to know whether the version is at least 1.11, which notifies tasks of aborted checkpoints.

    >>> version_by_wording(111, 113), version_by_wording(116, 999), version_by_wording(0, 999)
    ('1.11 to 1.13', '1.16 or later', None)
    >>> version_by_wording(0, 105)
    '1.4 to 1.5'
    >>> version_by_wording(111, 105) is None
    True
    """
    if oldest > newest:
        return None
    if newest <= 110 or oldest >= 111:
        low, high = (f"{bound // 100}.{bound % 100}" for bound in (max(oldest, 104), newest))
        if newest >= 999:
            return f"{low} or later"
        return low if low == high else f"{low} to {high}"
    return None


def _bound(
    choose: Callable[[Iterable[int]], int], utc_us: int | None, shown_us: int | None, shift_ms: int
) -> int | None:
    """Return the first or last instant of a stream, from printed instants and converted local times."""
    known = [utc_us] if utc_us is not None else []
    if shown_us is not None:
        known.append(shown_us - shift_ms * 1000)
    return choose(known) if known else None


def zone_name(shift_ms: int) -> str:
    """Format a zone offset.

    >>> zone_name(8 * 3600 * 1000), zone_name(0), zone_name(-12600000)
    ('UTC+08:00', 'UTC', 'UTC-03:30')
    """
    if shift_ms == 0:
        return "UTC"
    minutes = abs(shift_ms) // 60000
    return f"UTC{'+' if shift_ms > 0 else '-'}{minutes // 60:02d}:{minutes % 60:02d}"
