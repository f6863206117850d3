"""Unpacks recordings for tests that read or change single files."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

from fixtures.packing import OUTSIDE, archive_of, unpack
from fixtures.synthetic import make, make_spark

FIXTURES = Path(__file__).parents[1] / "fixtures"


@cache
def unpacked(recording: Path) -> Path:
    """Return a folder with all files of a recording, including its truth.

    The files are unpacked once per process and shared: change copies only.

    Args:
        recording: the path of the recording below `fixtures/`.
    """
    folder = _place() / recording.relative_to(FIXTURES)
    unpack(archive_of(recording), folder)
    for name in OUTSIDE:
        shutil.copy(recording / name, folder)
    return folder


@cache
def synthetic() -> Path:
    """Return a folder with all files that `fixtures/synthetic` generates. It is shared: change
    copies only."""
    folder = _place() / "synthetic"
    make.write_all(folder)
    make_spark.write_all(folder / "spark")
    return folder


@cache
def _place() -> Path:
    # Not pytest's own temporary folder: pytest keeps the last three runs, 400 MB each.
    folder = tempfile.mkdtemp(prefix="flowdiag-recordings-")
    atexit.register(_remove, folder, os.getpid())
    return Path(folder)


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # not in a forked child
        shutil.rmtree(folder, ignore_errors=True)
