"""Filter and extract the late acknowledgements of a folder of logs with Polars."""

import sys

import polars as pl

lines = pl.scan_csv(
    sys.argv[1] + "/*.log",
    has_header=False,
    separator="\x01",
    quote_char=None,
    new_columns=["line"],
    schema_overrides={"column_1": pl.String},
    infer_schema=False,
    truncate_ragged_lines=True,
    ignore_errors=True,
)
late = lines.filter(
    pl.col("line").str.contains("Received late message for now expired checkpoint", literal=True)
).select(
    pl.col("line").str.extract_groups(
        r"attempt (?<checkpoint>\d+) from task (?<attempt>\S+) of job (?<job>\S+) at (?<tm>\S+)"
    )
)
print(late.collect(engine="streaming").height)
