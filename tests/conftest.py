"""What all tests share: one Spark session for the whole run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session that `flowdiag` itself would use, started once."""
    from flowdiag.cli.session import SparkStarter

    with SparkStarter.begin() as starter:
        session = starter.session()
        starter.tune(small=True)
        yield session
