"""Rows that Spark returns to Python, with any empty columns."""

from __future__ import annotations

from unittest.mock import patch

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from flowdiag.analyses.flink.settled import dictionaries

SCHEMA = pa.schema(
    [
        ("what", pa.string()),
        ("count", pa.int64()),
        ("fields", pa.map_(pa.string(), pa.string())),
        ("first", pa.struct([("time_us", pa.int64()), ("offset", pa.int64())])),
        ("events", pa.list_(pa.string())),
    ]
)
ROWS = st.fixed_dictionaries(
    {
        "what": st.none() | st.text(max_size=3),
        "count": st.none() | st.integers(-9, 9),
        "fields": st.none()
        | st.dictionaries(st.text(max_size=2), st.none() | st.text(max_size=2), max_size=2),
        "first": st.none()
        | st.fixed_dictionaries({"time_us": st.none() | st.integers(0, 9), "offset": st.just(1)}),
        "events": st.none() | st.lists(st.text(max_size=2), max_size=2),
    }
)


@given(st.lists(st.lists(ROWS, max_size=4), max_size=4))
def test_rows_equal_the_table(parts: list[list[dict[str, object]]]) -> None:
    """A run of rows with an empty column next to runs with values."""
    table = pa.Table.from_batches(
        [pa.RecordBatch.from_pylist(part, schema=SCHEMA) for part in parts], schema=SCHEMA
    )
    with patch("flowdiag.analyses.flink.settled._RUN_ROWS", 3):
        found = dictionaries(table)
    assert found == [row for part in parts for row in part]
