"""Builds the `inputs` of the report: how much of each was read and recognized, or why it was not read."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from flowdiag.analyses.contract.redact import clean, printable
from flowdiag.analyses.contract.report import DOCUMENTS, Input, Note, iso
from flowdiag.analyses.contract.report import Process as WireProcess
from flowdiag.analyses.flink.clocks.settle import zone_name
from flowdiag.analyses.model.keys import Process
from flowdiag.parsers.notes import Kind

if TYPE_CHECKING:
    from flowdiag.parsers.source import Source

MAX_SAMPLES: Final = 3
NOT_READ: Final = "not-read"
_DATED_US: Final = 365 * 86_400 * 1_000_000  # smaller values are times of day or elapsed times

Value = TypeVar("Value")


def describe_inputs(
    sources: Sequence[Source],
    splits: Iterable[Mapping[str, Any]],
    processes: Iterable[Process] = (),
    *,
    excerpts: bool = True,
) -> list[Input]:
    """Return one entry per source, in source order.

    Args:
        sources: all discovered sources, including unread ones.
        splits: the `split` rows (`flowdiag.parsers.rows.Event.SPLIT`) with at least the keys
            `source` and `fields` (a mapping, or pairs as Arrow gives them), in any order.
        processes: the processes that wrote the inputs, after their clocks were settled.
        excerpts: False drops the samples, which are log text.
    """
    rows: defaultdict[int, list[dict[str, str]]] = defaultdict(list)
    for split in splits:
        rows[split["source"]].append(dict(split["fields"] or {}))
    owners: defaultdict[int, list[Process]] = defaultdict(list)
    for process in processes:
        owners[process.source].append(process)
    return [
        _input(source, rows[source.index], owners[source.index], excerpts) for source in sources
    ]


def input_problems(inputs: Iterable[Input]) -> list[Note]:
    """Return warnings about inputs that were not read completely. With `--strict-inputs`, they are errors."""
    return [
        Note(
            kind=Kind.UNREADABLE if item.kind == NOT_READ else Kind.DAMAGED,
            text=item.error,
            source=item.source,
        )
        for item in inputs
        if item.error is not None
    ]


def missing_parts(inputs: Iterable[Input]) -> list[Note]:
    """Return warnings about gaps in rolled files, such as `x.log.1` and `x.log.3` without `x.log.2`."""
    names: set[str] = set()
    series: defaultdict[tuple[str, str], dict[int, str]] = defaultdict(dict)
    for item in inputs:
        names.add(item.source)
        found = _ROLLED.fullmatch(item.source)
        if found is not None:
            series[found["name"], found["packed"] or ""][int(found["number"])] = item.source
    notes = []
    for (name, packed), known in series.items():
        # If the current log is present, its rolled files should start at 1.
        first = 1 if name in names and not packed else min(known)
        gone = [n for n in range(first, max(known)) if n not in known]
        if gone and len(gone) <= len(known):
            shown = ", ".join(f"{_base(name)}.{n}{packed}" for n in gone[:MAX_SAMPLES])
            more = f" and {len(gone) - MAX_SAMPLES} more" if len(gone) > MAX_SAMPLES else ""
            notes.append(
                Note(
                    kind=Kind.MISSING_FILE,
                    text=f"some of its rolled files are missing: {shown}{more}",
                    source=known[min(known)],
                )
            )
    return notes


def _base(name: str) -> str:
    """Return the last part of a path, including paths within an archive."""
    return re.split(r"[/!]", name)[-1]


# File names of log4j and logrotate, with a number after the extension.
_ROLLED: Final = re.compile(
    r"(?P<name>.+\.(?:log|out|err|txt|json|jsonl))\.(?P<number>\d{1,3})"
    r"(?P<packed>\.(?:gz|zst|bz2|xz|lz4))?",
    re.IGNORECASE | re.DOTALL,
)


def unknown_days(inputs: Sequence[Input], processes: Iterable[Process]) -> list[Note]:
    """Return warnings about inputs that print times without a date, if no input shows the date."""
    found = {
        process.source
        for process in processes
        if process.first_us is not None and process.first_us < _DATED_US and process.zone_from
    }
    return [
        Note(
            kind=Kind.NO_TIME,
            text="prints times without a date, and no input shows the date:"
            " its records are dated from 1970-01-01",
            source=inputs[source].source,
        )
        for source in sorted(found)
    ]


def _input(
    source: Source, rows: Sequence[Mapping[str, str]], owners: Sequence[Process], excerpts: bool
) -> Input:
    samples = [row[key] for row in rows for key in sorted(row) if key.startswith("sample_")]
    return Input(
        source=printable(source.name),
        kind=source.kind,
        role=_role(source, {owner.role for owner in owners}),
        version=_common_value({owner.version for owner in owners if owner.version}),
        bytes=_total(rows, "bytes") if rows else source.size,
        candidates=_total(rows, "candidates"),
        recognised=_total(rows, "recognised"),
        not_understood=_total(rows, "not_understood"),
        first=iso(_dated_instant(min(_instants(rows, owners, "first_us"), default=None))),
        last=iso(_dated_instant(max(_instants(rows, owners, "last_us"), default=None))),
        zone=_common_value({_zone(owner) for owner in owners}),
        zone_from=_common_value({owner.zone_from for owner in owners}),
        clock_offset_ms=_common_value({owner.clock_offset_ms for owner in owners}),
        path=_rest_path(source),
        reason=clean(source.reason) if source.reason else None,
        error=_error(source, rows),
        samples=[clean(sample, 300) for sample in samples[:MAX_SAMPLES]] if excerpts else [],
        processes=[_process(owner) for owner in owners],
    )


def _rest_path(source: Source) -> str | None:
    return clean(source.url) if source.kind in DOCUMENTS and source.url else None


def _error(source: Source, rows: Iterable[Mapping[str, str]]) -> str | None:
    """Return why a source is unreadable, or which errors its parts reported."""
    if source.kind == NOT_READ and (source.reason or "").startswith("unreadable"):
        return clean(source.reason or "")
    return clean("; ".join(dict.fromkeys(row["error"] for row in rows if row.get("error")))) or None


def _role(source: Source, written: set[str]) -> str:
    """Return the role of the process that wrote an input. Clients run no part of a job, so only the format detection
    identifies them.
    """
    if not written:
        return source.role
    role = _common_value(written) or "mixed"
    return source.role if role == "unknown" and source.role == "client" else role


def _total(rows: Iterable[Mapping[str, str]], key: str) -> int:
    return sum(int(row.get(key) or 0) for row in rows)


def _instants(rows: Sequence[Mapping[str, str]], owners: Sequence[Process], key: str) -> list[int]:
    """Return the first or last instant of each process.

    If none is settled, but all processes have the same zone, return the printed instants.
    """
    settled = [us for owner in owners if (us := getattr(owner, key)) is not None]
    zone = _common_value({owner.zone_offset_ms for owner in owners})
    if settled or zone is None:
        return settled
    printed = [int(row[key]) for row in rows if row.get(key)]
    return [us - zone * 1000 for us in printed if us > _DATED_US]


def _dated_instant(us: int | None) -> int | None:
    """Return the instant if its date is known, or None."""
    return us if us is not None and us >= _DATED_US else None


def _common_value(values: set[Value]) -> Value | None:
    """Return the value if all are equal, otherwise None."""
    return next(iter(values)) if len(values) == 1 else None


def _zone(process: Process) -> str | None:
    return None if process.zone_offset_ms is None else zone_name(process.zone_offset_ms)


def _process(process: Process) -> WireProcess:
    return WireProcess(
        label=process.label,
        role=process.role,
        version=process.version,
        taskmanager=process.taskmanager,
        host=process.host,
        zone=_zone(process),
        zone_from=process.zone_from,
        clock_offset_ms=process.clock_offset_ms,
        first=iso(_dated_instant(process.first_us)),
        last=iso(_dated_instant(process.last_us)),
        events=process.events,
    )
