"""Packs metric rows for Spark into one row per subject and minute, instead of one per series and minute.

A TaskManager reports about fifteen known metrics per subtask. Most columns of their rows contain the same texts,
which Spark would otherwise read, resolve and compare fifteen times.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from flowdiag.parsers.rows import EVENTS, METRIC

LOADS: Final = (
    "busyTimeMsPerSecond",
    "idleTimeMsPerSecond",
    "backPressuredTimeMsPerSecond",
    "isBackPressured",
    "Shuffle.Netty.Input.Buffers.inputQueueLength",
    "buffers.inputQueueLength",
    "Shuffle.Netty.Input.Buffers.inPoolUsage",
    "buffers.inPoolUsage",
    "Shuffle.Netty.Output.Buffers.outPoolUsage",
    "buffers.outPoolUsage",
    "checkpointAlignmentTime",
    "checkpointStartDelayNanos",
    "numRecordsIn",
    "numRecordsOut",
    "numBytesIn",
)
"""The metrics of a subtask that also have separate columns, because most diagnoses read them."""
_NAMING: Final = ("name", "scope", "operator")
VALUES: Final = pa.struct([each for each in METRIC if each.name not in _NAMING])
"""The values of one metric in a packed row."""
LOAD: Final = pa.struct([METRIC.field(name) for name in ("count", "first", "last", "sum")])
"""The values of a metric in its separate column."""
PACKED: Final = pa.schema(
    [
        *(each for each in EVENTS if each.name != "metric"),
        pa.field("scope", pa.string()),
        pa.field("operator", pa.string()),
        pa.field("metrics", pa.map_(pa.string(), VALUES)),
        pa.field("loads", pa.struct([(name, LOAD) for name in LOADS])),
    ]
)
"""`EVENTS` with all metrics of a row, by name, in place of `metric`; the metrics in `LOADS` are repeated as columns."""


def packed(rows: pa.Table) -> pa.Table:
    """Pack adjacent rows that differ only in their metrics, while the metric names are in ascending order.

    Args:
        rows: rows of the schema `EVENTS`; rows that are already packed are returned unchanged.
    """
    if rows.num_rows == 0:
        return PACKED.empty_table()
    if rows.schema == PACKED:
        return rows
    columns = {name: _in_one_chunk(rows[name]) for name in EVENTS.names}
    metric = columns.pop("metric")
    parts = dict(zip(METRIC.names, metric.flatten(), strict=True))
    columns |= {"scope": parts["scope"], "operator": parts["operator"]}
    names = pc.fill_null(parts["name"], "")
    starts = _starts(columns, names, metric)
    measured = metric.is_valid()
    before = pc.subtract(pc.cumulative_sum(measured.cast(pa.int32())), measured.cast(pa.int32()))
    offsets = pc.if_else(measured.take(starts), before.take(starts), None)
    end = pa.array([measured.true_count], pa.int32())
    values = pa.StructArray.from_arrays([parts[each.name] for each in VALUES], fields=[*VALUES])
    if measured.true_count < len(metric):
        names, values = names.filter(measured), values.filter(measured)
    maps = pa.MapArray.from_arrays(pa.concat_arrays([offsets, end]), names, values)
    if len(starts) < len(metric):
        columns = {name: column.take(starts) for name, column in columns.items()}
    loads = _loads(maps)
    return pa.Table.from_arrays([*columns.values(), maps, loads], schema=PACKED)


def _loads(maps: pa.MapArray) -> pa.StructArray:
    """Return one column per metric in `LOADS`, with the metric's value in each row."""
    names, values = maps.keys, maps.items
    rows = pc.list_parent_indices(pa.ListArray.from_arrays(maps.offsets, names))
    numbers = pa.array(range(len(maps)), rows.type)
    load_columns = [values.field(each.name) for each in LOAD]
    columns = []
    for name in LOADS:
        found = pc.indices_nonzero(pc.equal(names, name))
        if len(found) == 0:
            columns.append(pa.nulls(len(maps), LOAD))
            continue
        places = found.take(pc.index_in(numbers, value_set=rows.take(found)))
        columns.append(
            pa.StructArray.from_arrays(
                [column.take(places) for column in load_columns],
                fields=[*LOAD],
                mask=places.is_null(),
            )
        )
    fields = [*PACKED.field("loads").type]
    return pa.StructArray.from_arrays(columns, fields=fields, mask=maps.is_null())


def _starts(columns: Mapping[str, pa.Array], names: pa.Array, metric: pa.Array) -> pa.Array:
    """Return the positions of the rows that start a new packed row."""
    above, below = slice(None, -1), slice(1, None)
    begins = pc.or_(pc.less_equal(names[below], names[above]), pc.invert(metric[below].is_valid()))
    for column in columns.values():
        if column.null_count == len(column):
            continue
        known = column.is_valid()
        if pa.types.is_nested(column.type):  # Arrow cannot compare maps
            begins = pc.or_(begins, pc.or_(known[below], known[above]))
            continue
        differs = pc.fill_null(pc.not_equal(column[below], column[above]), False)
        if column.null_count:
            differs = pc.or_(differs, pc.xor(known[below], known[above]))
        begins = pc.or_(begins, differs)
    return pc.indices_nonzero(pa.concat_arrays([pa.array([True]), begins]))


def _in_one_chunk(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
