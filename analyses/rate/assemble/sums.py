"""Builds the totals of an application: executors, output operations, partitions, blocks and memory."""

from __future__ import annotations

from collections.abc import Iterable

from flowdiag.analyses.rate.assemble.rows import Row, event_of, field_of, optional_ref_of, ref_of
from flowdiag.analyses.rate.facts import Blocks, CachedRdd, Executor, Memory, Operation, Partition


def executors_of(events: Iterable[Row], loads: Iterable[Row]) -> tuple[Executor, ...]:
    """Return the executors by name, with the times of their addition and removal and the totals of their tasks."""
    added: dict[str, Row] = {}
    removed: dict[str, Row] = {}
    for row in events:
        name = field_of(row, "executor")
        (added if event_of(row) == "added" else removed).setdefault(name, row)
    by_name = {row.get("executor") or "": row for row in loads}
    result = []
    nothing: Row = {}
    for name in sorted({*added, *removed, *by_name}, key=lambda n: (len(n), n)):
        here, gone = added.get(name, nothing), removed.get(name, nothing)
        load, cores, origin = by_name.get(name, nothing), field_of(here, "cores"), gone or here
        result.append(
            Executor(
                executor=name,
                host=here.get("host") or load.get("host"),
                cores=int(cores) if cores.isdecimal() else None,
                added_us=here.get("time_us"),
                removed_us=gone.get("time_us"),
                reason=gone.get("cause"),
                tasks=load.get("tasks") or 0,
                total_ms=load.get("total") or 0,
                stages=load.get("stages") or 0,
                ratio=load.get("ratio"),
                ref=ref_of(origin) if origin else None,
            )
        )
    return tuple(result)


def operations_of(rows: Iterable[Row]) -> tuple[Operation, ...]:
    found = [
        Operation(
            output=int(row["output"]),
            name=row.get("name"),
            batches=row["batches"],
            total_ms=row.get("total") or 0,
        )
        for row in rows
        if str(row.get("output") or "").isdecimal() and row["batches"]
    ]
    return tuple(sorted(found, key=lambda one: one.output))


def partitions_of(rows: Iterable[Row]) -> tuple[Partition, ...]:
    found = [
        Partition(
            name=row["partition"],
            records=row["records"],
            tasks=row["tasks"],
            fewest=row.get("fewest"),
            most=row.get("most"),
            ref=optional_ref_of(row),
        )
        for row in rows
        if row.get("partition") and row.get("records") is not None
    ]
    return tuple(sorted(found, key=lambda one: one.name))


def blocks_of(rows: Iterable[Row]) -> tuple[Blocks, ...]:
    found = [
        Blocks(
            stream=int(row["stream"]),
            blocks=row["blocks"],
            bytes=row.get("bytes") or 0,
            first_ms=row.get("first"),
            last_ms=row.get("last"),
        )
        for row in rows
        if str(row.get("stream") or "").isdecimal()
    ]
    return tuple(sorted(found, key=lambda one: one.stream))


def cached_of(rows: Iterable[Row]) -> tuple[CachedRdd, ...]:
    found = [
        CachedRdd(rdd=row["rdd"], bytes=row.get("bytes") or 0, time_ms=row["first"])
        for row in rows
        if row.get("rdd") is not None and row.get("first") is not None
    ]
    return tuple(sorted(found, key=lambda one: one.rdd))


def memory_of(rows: Iterable[Row]) -> tuple[Memory, ...]:
    return tuple(
        Memory(
            host=row["host"],
            free_bytes=row.get("free"),
            bytes=row.get("bytes") or 0,
            first_ms=row.get("first"),
            last_ms=row.get("last"),
        )
        for row in sorted(rows, key=lambda row: str(row.get("host")))
        if row.get("host")
    )
