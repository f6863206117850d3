"""Writes a DataFrame as Parquet files in Spark tasks, with secrets masked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from flowdiag.parsers.secrets import MASK, is_secret_key, mask_secrets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

GROUP_ROWS: Final = 32_768
"""Rows per row group, which a task holds in memory."""

_TEXTS: Final = ("cause", "thread")


def write_parts(
    frame: DataFrame, folder: str, schema: pa.Schema, *, name: str, excerpts: bool
) -> list[tuple[str, int]]:
    """Write each partition that has rows to a file; return the file names with their row counts.

    If Spark repeats a task, the other attempt's file stays in the folder but is not in the result.

    Args:
        frame: a DataFrame with the columns of the schema.
        folder: a path or URL that tasks can write to.
        schema: schema of the files.
        name: prefix of the file names.
        excerpts: whether to include log text.

    Raises:
        Exception: a task could not write; the type is Spark's.
    """

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        task = TaskContext.get()
        assert task is not None
        file = f"{name}-{task.partitionId():05d}-{task.taskAttemptId()}.parquet"
        # No rows, no file.
        rows = write_file(f"{folder}/{file}", schema, _mask_batches(batches, schema, excerpts))
        found = [(file, rows)] if rows else []
        yield pa.RecordBatch.from_pydict(
            {"file": [file for file, _ in found], "rows": [rows for _, rows in found]},
            schema=pa.schema([("file", pa.string()), ("rows", pa.int64())]),
        )

    written = frame.mapInArrow(write, schema="file string, rows long").collect()
    return sorted((row["file"], row["rows"]) for row in written)


def write_file(
    path: str, schema: pa.Schema, batches: Iterator[pa.RecordBatch], *, always: bool = False
) -> int:
    """Write batches to a Parquet file; return the number of rows.

    Args:
        path: a path or URL.
        schema: schema of the batches.
        batches: the batches, consumed one by one.
        always: whether to write a file even without rows.

    Raises:
        OSError: the file is not writable.
    """
    rows = 0
    writer: Any = None
    stream: Any = None
    try:
        for batch in batches:
            if batch.num_rows == 0:
                continue
            if writer is None:
                stream, writer = _open_parquet(path, schema)
            writer.write_batch(batch, row_group_size=GROUP_ROWS)
            rows += batch.num_rows
        if writer is None and always:
            stream, writer = _open_parquet(path, schema)
    finally:
        if writer is not None:
            writer.close()
        if stream is not None:
            stream.close()
    return rows


def _open_parquet(path: str, schema: pa.Schema) -> tuple[Any, Any]:
    import fsspec
    import pyarrow.parquet as pq

    from flowdiag.parsers.sources.remote import is_url

    stream = fsspec.open(path, "wb").open() if is_url(path) else open(path, "wb")  # noqa: SIM115
    return stream, pq.ParquetWriter(stream, schema, compression="zstd")


def _mask_batches(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, excerpts: bool
) -> Iterator[pa.RecordBatch]:
    """Convert batches to the types of the schema, and mask possible secrets."""
    for batch in batches:
        arrays = []
        for field in schema:
            column = batch.column(field.name)
            if field.name in _TEXTS:
                values = [text and mask_secrets(text) for text in column.to_pylist()]
                column = pa.array(values if excerpts else [None] * len(values), field.type)
            elif field.name == "fields":
                pairs = [_masked_fields(each) for each in column.to_pylist()]
                column = pa.array(pairs if excerpts else [None] * len(pairs), field.type)
            arrays.append(column if column.type == field.type else column.cast(field.type))
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _masked_fields(pairs: list[tuple[str, str]] | None) -> list[tuple[str, str | None]] | None:
    """Mask secrets in captured texts, and the whole value of an option with a secret.

    >>> _masked_fields([("key", "s3.secret-key"), ("value", "abc")])
    [('key', 's3.secret-key'), ('value', '***')]
    """
    if pairs is None:
        return None
    masked = {name for name, _ in pairs if is_secret_key(name)}
    if any(name == "key" and is_secret_key(text) for name, text in pairs):
        masked.add("value")
    return [
        (name, text if text is None else MASK if name in masked else mask_secrets(text))
        for name, text in pairs
    ]
