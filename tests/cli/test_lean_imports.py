"""Commands work without the libraries that they never use, and do not import them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BLOCKED = """
import importlib.metadata, importlib.util, sys
from flowdiag.cli.spark.lean_imports import unused_imports_blocked
finders = list(sys.meta_path)
with unused_imports_blocked():
    import pyarrow, pyarrow.compute
    assert pyarrow.array([{"a": 1}]).to_pylist() == [{"a": 1}]
    for name in ("numpy", "pandas", "pyarrow.dataset"):
        assert importlib.util.find_spec(name) is None
        try:
            __import__(name)
        except ImportError as error:
            assert error.name == name
        else:
            raise SystemExit(f"{name} can be imported")
    assert importlib.metadata.version("pyarrow") == pyarrow.__version__
assert sys.meta_path == finders
import pandas
with unused_imports_blocked():
    import numpy, pandas.core
    assert numpy.zeros(2).sum() == 0
"""

# Compiled code also finds no pandas if NumPy was imported before.
NUMPY_LOADED = """
import numpy, pyarrow
from flowdiag.cli.spark.lean_imports import unused_imports_blocked
with unused_imports_blocked():
    assert pyarrow.array(["a"], pyarrow.string()).to_pylist() == ["a"]
    assert pyarrow.array([{"a": 1}]).to_pylist() == [{"a": 1}]
"""

# PyArrow without NumPy still groups tables, and exchanges tables with Spark.
WITH_SPARK = """
import sys
from flowdiag.cli.spark.launch import start_spark
from flowdiag.cli.settings import Settings
with start_spark(Settings(), []) as starter:
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
    [BLOCKED, NUMPY_LOADED, pytest.param(WITH_SPARK, marks=pytest.mark.spark)],
    ids=["blocked", "numpy-loaded", "with-spark"],
)
def test_unused_libraries_are_not_imported(script: str, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120, cwd=tmp_path)


WITHOUT_NUMPY = """
import sys
sys.modules["numpy"] = None
from flowdiag.cli.app import main
raise SystemExit(main(["memory", "--process-size", "4g"]))
"""


def test_memory_needs_no_numpy(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-c", WITHOUT_NUMPY],
        check=True,
        timeout=120,
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
    )
