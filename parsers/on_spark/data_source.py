"""`spark.read.format("flowdiag").load(path)`: raw events as a Spark data source (PySpark 4.0 and later).

Records are returned as printed. Clocks and processes are not resolved, because that requires all records (use
`flowdiag.read`). Everything runs in Spark's Python processes, where flowdiag must be installed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from flowdiag.parsers.discover import STDIN, discover
from flowdiag.parsers.errors import FlowdiagError, InputError, nearest
from flowdiag.parsers.on_spark.frame import spark_schema
from flowdiag.parsers.plugins import Messages, messages, use_messages
from flowdiag.parsers.rows import EVENTS, Event
from flowdiag.parsers.sources.containers import is_private
from flowdiag.parsers.split import Split, parse_splits, plan_splits

COLUMNS: Final = pa.schema(
    [pa.field("input", pa.string(), nullable=False), *list(EVENTS)[1:]],
)
"""The columns of `parsers.rows.EVENTS`, with the name of the input instead of its index."""

_OPTIONS: Final = ("path", "paths")
_BOOKKEEPING: Final = (Event.SPLIT.value, Event.MARKS.value)


@dataclass
class _Task(InputPartition):
    """The input of a Spark task: splits, or a container that the task unpacks."""

    splits: Sequence[Split]
    container: str | None
    added: tuple[Messages, ...]


class FlowdiagDataSource(DataSource):
    """The data source; `flowdiag.register(spark)` registers it with a session."""

    @classmethod
    def name(cls) -> str:
        """Return the name to use in `format(…)`."""
        return "flowdiag"

    def schema(self) -> T.StructType:
        """Return the schema of the rows, which have the columns of `COLUMNS`."""
        return spark_schema(COLUMNS)

    def reader(self, schema: T.StructType) -> DataSourceReader:
        """Return a reader for the columns of a schema. The user's schema may reorder or omit columns.

        Raises:
            FlowdiagError: a column or option is unknown, or there is no path.
        """
        known = {each.name: each for each in spark_schema(COLUMNS)}
        for each in schema:
            if each.name not in known:
                raise FlowdiagError(_with_hint(f"unknown column '{each.name}'", each.name, known))
            if each.dataType != known[each.name].dataType:
                kind = known[each.name].dataType.simpleString()
                raise FlowdiagError(f"column '{each.name}' has type {kind}")
        return _Reader(_paths(dict(self.options)), [each.name for each in schema])


class _Reader(DataSourceReader):
    def __init__(self, paths: Sequence[str], columns: Sequence[str]) -> None:
        self._paths = paths
        self._columns = list(columns)

    def partitions(self) -> Sequence[InputPartition]:
        """Plan the tasks.

        Raises:
            InputError: no input is readable.
        """
        discovery = discover(self._paths)
        if not discovery.sources:
            raise InputError(str(next(iter(discovery.errors), "no input found")))
        # Files that are unpacked here are deleted before the tasks run.
        packed = [source for source in discovery.sources if is_private(source.path)]
        containers = dict.fromkeys(source.name.partition("!")[0] for source in packed)
        missing = next((name for name in containers if not os.path.exists(name)), None)
        if missing is not None:
            raise InputError(f"{missing}: Spark tasks cannot unpack this file; unpack it first")
        plain = [source for source in discovery.sources if not is_private(source.path)]
        added = messages()
        return [
            *(_Task(splits, None, added) for splits in plan_splits(plain)),
            *(_Task((), os.path.abspath(name), added) for name in containers),
        ]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the rows of a task as Arrow batches."""
        assert isinstance(partition, _Task)
        use_messages(partition.added)
        splits = partition.splits
        if partition.container is not None:
            sources = discover([partition.container]).sources
            splits = [split for task in plan_splits(sources) for split in task]
        names = {split.source.index: split.source.name for split in splits}
        schema = pa.schema([COLUMNS.field(name) for name in self._columns])
        for batch in parse_splits(splits):
            kinds = batch.column("event").to_pylist()
            if any(kind in _BOOKKEEPING for kind in kinds):
                batch = batch.filter(pa.array([kind not in _BOOKKEEPING for kind in kinds]))
            if batch.num_rows:
                inputs = [names[number] for number in batch.column("source").to_pylist()]
                arrays = [
                    pa.array(inputs, pa.string()) if name == "input" else batch.column(name)
                    for name in self._columns
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _paths(options: Mapping[str, str]) -> list[str]:
    """Return the paths passed to `load`: a single path, or several as JSON.

    Raises:
        FlowdiagError: there is no path, or an option is unknown.
    """
    for name in options:
        if name.lower() not in _OPTIONS:
            raise FlowdiagError(_with_hint(f"unknown option '{name}'", name, _OPTIONS))
    given = {name.lower(): value for name, value in options.items()}
    paths = json.loads(given["paths"]) if "paths" in given else []
    paths += [given["path"]] if "path" in given else []
    if not paths or STDIN in paths:
        raise InputError("no path given; use spark.read.format('flowdiag').load('logs/')")
    return [str(path) for path in paths]


def _with_hint(message: str, word: str, known: Any) -> str:
    """Append the hint to the message, because Spark passes on only an exception's message."""
    return f"{message}: {nearest(word, known)}"
