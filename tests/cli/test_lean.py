"""Libraries that are only looked for stay out of a command's process, which works without them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HIDDEN = """
import importlib.metadata, importlib.util, sys
from flowdiag.cli.spark.lean import without_unused
finders = list(sys.meta_path)
with without_unused():
    import pyarrow, pyarrow.compute
    assert pyarrow.array([{"a": 1}]).to_pylist() == [{"a": 1}]
    for name in ("numpy", "pandas", "pyarrow.dataset"):
        assert importlib.util.find_spec(name) is None
        try:
            __import__(name)
        except ImportError as error:
            assert error.name == name
        else:
            raise SystemExit(f"{name} is there")
    assert importlib.metadata.version("pyarrow") == pyarrow.__version__
assert sys.meta_path == finders
import pandas
with without_unused():
    import numpy, pandas.core
    assert numpy.zeros(2).sum() == 0
"""

# Compiled code, too, is told that there is no pandas, where NumPy was there before.
ONE_THERE = """
import numpy, pyarrow
from flowdiag.cli.spark.lean import without_unused
with without_unused():
    assert pyarrow.array(["a"], pyarrow.string()).to_pylist() == ["a"]
    assert pyarrow.array([{"a": 1}]).to_pylist() == [{"a": 1}]
"""

# What has looked for NumPy in vain still reads and groups, and Spark takes its tables and gives them.
USED = """
import sys
from flowdiag.cli.spark.early import spark_for
from flowdiag.cli.options.settings import Settings
with spark_for(Settings(), []) as starter:
    import pyarrow as pa
    table = pa.table({"a": ["x", "x", None], "n": [1, None, 3], "m": [[("k", "v")], [], None]},
        pa.schema([("a", pa.string()), ("n", pa.int64()), ("m", pa.map_(pa.string(), pa.string()))]))
    grouped = table.group_by("a", use_threads=False).aggregate([("n", "sum")])
    assert grouped.to_pylist() == [{"a": "x", "n_sum": 1}, {"a": None, "n_sum": 3}]
    frame = starter.session().createDataFrame(table)
    assert frame.toArrow().to_pylist() == table.to_pylist()
    assert frame.selectExpr("sum(n) AS n").collect()[0].n == 4
    unused = {"numpy", "pandas", "pyarrow.dataset"}
    assert not unused & sys.modules.keys()
"""


@pytest.mark.parametrize(
    "script",
    [HIDDEN, ONE_THERE, pytest.param(USED, marks=pytest.mark.spark)],
    ids=["hidden", "one-there", "used"],
)
def test_what_is_unused_stays_out_until_it_is_wanted(script: str, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120, cwd=tmp_path)
