"""Frames are computed once, however many queries use them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from flowdiag.analyses.engine.frames import cached_frame

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


@pytest.mark.spark
@pytest.mark.parametrize("large", [False, True])
def test_a_kept_frame_is_made_once(spark: SparkSession, tmp_path: Path, large: bool) -> None:
    seen = str(tmp_path)

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import tempfile

        for batch in batches:
            with tempfile.NamedTemporaryFile(dir=seen, delete=False):
                yield batch

    frame = cached_frame(
        spark.range(30, numPartitions=3).mapInArrow(rows, schema="id long"), large=large
    )
    twice = spark.sql(
        "SELECT a.id, b.n FROM {frame} AS a JOIN (SELECT max(id) AS n FROM {frame}) AS b"
        " WHERE a.id > 27 ORDER BY 1",
        frame=frame,
    )
    assert [tuple(row) for row in twice.collect()] == [(28, 29), (29, 29)]
    assert frame.where("id < 5").count() == 5
    assert len(list(tmp_path.iterdir())) == 3
