"""A library that is only looked for stays out of a command's process."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
from flowdiag.cli.lean import without_pandas
with without_pandas():
    import pyarrow
    assert pyarrow.array([{"a": 1}]).to_pylist() == [{"a": 1}]
    assert "pandas" not in sys.modules
    try:
        import pandas
    except ImportError as error:
        assert error.name == "pandas"
    else:
        raise SystemExit("it is there")
import pandas
with without_pandas():
    import pandas.core
"""


def test_pandas_stays_out_until_it_is_wanted() -> None:
    subprocess.run([sys.executable, "-c", SCRIPT], check=True, timeout=120)
