"""What all tests share: one Spark session for the whole run."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.measured import Recorded


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


@pytest.fixture(scope="session")
def recorded(request: pytest.FixtureRequest) -> Callable[..., Recorded]:
    """What Spark measures of inputs, once for all tests that ask: `recorded(path, …, topics=(…))`."""
    from tests.measured import Recorded

    known: dict[tuple[Any, ...], Recorded] = {}

    def of(*paths: Path, topics: tuple[str, ...]) -> Recorded:
        asked = (paths, topics)
        if asked not in known:
            spark: SparkSession = request.getfixturevalue("spark")
            known[asked] = Recorded(paths, topics, spark)
        return known[asked]

    return of


@pytest.hookimpl(tryfirst=True)  # before xdist looks for groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run what concerns one recording in one process, where it is measured once; the slow ones first."""
    for item in items:
        about = recording_of(item)
        if about is not None:
            item.add_marker(pytest.mark.xdist_group(about))
    items.sort(
        key=lambda item: (item.get_closest_marker("spark") is None, recording_of(item) or "")
    )


def recording_of(item: pytest.Item) -> str | None:
    """The recording that a test is about, by its parameters."""
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    for value in (parameters.get("recording"), parameters.get("folder")):
        folder = getattr(value, "folder", value)
        if isinstance(folder, Path) and "recordings" in folder.parts:
            return "/".join(folder.parts[folder.parts.index("recordings") + 1 :][:3])
    return None
