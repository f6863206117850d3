"""What all tests share: one Spark session for the whole run."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Where a script runs the tests in its background, SIGINT is ignored, and every process started here
# would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session that `flowdiag` itself would use, started once."""
    from flowdiag.cli.spark.starter import SparkStarter

    with SparkStarter.begin() as starter:
        session = starter.session()
        starter.tune(0)
        yield session
