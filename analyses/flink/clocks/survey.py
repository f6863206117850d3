"""Combines the sums of all splits: the writer of each stream, and the marks that reveal clocks.

Parsers add up marks while they parse (`flowdiag.parsers.flink.marks`). `survey` combines the sums of all
splits and carries the owner and the day from one split to the next. `settle` evaluates the rows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final, NamedTuple, cast

import msgspec

from flowdiag.parsers.flink.marks import (
    DAY_US,
    TIME_OF_DAY,
    Marks,
    StreamMarks,
    Transition,
    ZoneMarks,
    limit_transitions,
    midnights_before,
    owners_before,
)
from flowdiag.parsers.rows import Event

# Rare rows that the driver needs as parsed.
RARE: Final = (
    Event.SPLIT,
    Event.PROCESS_STARTED,
    Event.PROCESS_IDENTITY,
    Event.CONFIGURATION,
)
CLUSTER_KEYS: Final = (
    "kubernetes.cluster-id",
    "high-availability.cluster-id",
    "yarn.application.id",
)
"""The relevant options. Each start prints the whole configuration, which can add up to millions of rows."""
RARE_COLUMNS: Final = ("source", "process", "offset", "event", "taskmanager", "host", "fields")


class Stream(NamedTuple):
    """One writer within a source: the source itself, a labeled process or a section."""

    source: int
    owner: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """Everything needed to settle clocks and writers.

    Args:
        rows: tagged by `what`:
            `stream`: per (source, owner): counts by role, first and last printed time, job IDs.
            `mark`: per (source, owner, zone): start of the zone, from trigger timestamps or log collectors.
            `shift`: per TaskManager and JobManager stream: the median difference between the printed times of
            the transitions that both streams contain, and the number of these transitions.
            `rare`: the records of `RARE`, as parsed.
        has_headers: whether section headers name some owners.
        has_times: whether some records print a time of day without a date.
    """

    rows: tuple[dict[str, Any], ...]
    has_headers: bool
    has_times: bool


def survey(rare: Iterable[Mapping[str, Any]], marks: Iterable[Marks]) -> Survey:
    """Combine the sums of all splits.

    Args:
        rare: rows with `RARE_COLUMNS`, of the kinds in `RARE`.
        marks: the marks of all splits, in any order.
    """
    found = sorted(marks, key=lambda part: (part.source, part.start))
    by_source: dict[int, list[Marks]] = defaultdict(list)
    for part in found:
        by_source[part.source].append(part)
    streams: dict[Stream, dict[str, Any]] = {}
    zones: dict[tuple[Stream, int | None], dict[str, Any]] = {}
    transitions: dict[Stream, list[Transition]] = defaultdict(list)
    for parts in by_source.values():
        before = zip(parts, midnights_before(parts), owners_before(parts), strict=True)
        for part, days, owner_before in before:
            _combine(part, days, owner_before, streams, zones, transitions)
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
    """Return the label of the log collector or, without one, the section header above the record."""
    if row["process"] is not None or not headers:
        return cast("str | None", row["process"])
    above = bisect_right(headers, row["offset"], key=lambda header: header[0])
    return headers[above - 1][1] if above else None


def _combine(
    part: Marks,
    days: int,
    owner_before: str | None,
    streams: dict[Stream, dict[str, Any]],
    zones: dict[tuple[Stream, int | None], dict[str, Any]],
    transitions: dict[Stream, list[Transition]],
) -> None:
    """Add a split to the totals of earlier splits. The owner and the day at its start are given."""

    def stream(owner: str | None) -> Stream:
        return Stream(part.source, owner if owner is not None else owner_before)

    def shift_us(clock: str | None) -> int:
        return days * DAY_US if clock == TIME_OF_DAY else 0

    for each in sorted(part.streams, key=lambda each: each.offset):
        key = stream(each.owner)
        _add_stream(streams.setdefault(key, _empty_stream(key)), each, shift_us(each.clock))
    for owner, job_id in part.jobs:
        streams[stream(owner)]["job_ids"].add(job_id)
    for owner, taskmanager, host in part.scopes:
        streams[stream(owner)]["scopes"].add((taskmanager, host))
    for mark in part.zones:
        _add_zone(zones, stream(mark.owner), mark, shift_us(mark.clock))
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


def _add_stream(row: dict[str, Any], each: StreamMarks, shift: int) -> None:
    for name in _SUMS:
        row[name] += getattr(each, name)
    row["oldest"] = max(row["oldest"], each.oldest)
    row["newest"] = min(row["newest"], each.newest)
    row["clock"] = row["clock"] or each.clock
    row["heard"] += [(low + shift, high + shift) for low, high in each.active_spans]
    for name, choose, value in (
        ("shown_us", min, _shift(each.shown_us, shift)),
        ("last_shown_us", max, _shift(each.last_shown_us, shift)),
        ("utc_us", min, each.utc_us),
        ("last_utc_us", max, each.last_utc_us),
    ):
        known = [known for known in (row[name], value) if known is not None]
        row[name] = choose(known) if known else None


def _add_zone(
    zones: dict[tuple[Stream, int | None], dict[str, Any]], key: Stream, mark: ZoneMarks, shift: int
) -> None:
    zone = _shift(mark.zone, shift // 1000)
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
        "heard": [],
    }


def _shift(value: int | None, by: int) -> int | None:
    return None if value is None else value + by


def _shifts(transitions: Mapping[Stream, Sequence[Transition]]) -> list[dict[str, Any]]:
    """Return the clock differences between streams that log the same transitions."""
    here: dict[Stream, dict[tuple[str, str], int]] = {}
    there: dict[tuple[str, str], dict[Stream, int]] = defaultdict(dict)
    for stream, found in transitions.items():
        first: dict[tuple[str, str], int] = {}
        for each in limit_transitions(found):
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
