"""Fixtures that all tests share, such as one Spark session for the whole run."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.measured import Recorded


# CI judges a change by fixed examples; every local run draws others. The duration of an example
# depends on the load of the machine, not on flowdiag.
settings.register_profile("desk", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("desk"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "desk")

# A script that runs the tests in the background ignores SIGINT, and every process started here
# would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _faults_are_raised(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail the test on every fault that flowdiag would report as its own, unless the test
    planted it.
    """
    if "planted" not in request.fixturenames:
        from flowdiag.analyses.faults import Faults

        def add(self: Faults, error: Exception, *_: Any, **__: Any) -> None:
            raise error

        monkeypatch.setattr(Faults, "add", add)
        monkeypatch.setattr("flowdiag.parsers.split.is_internal_fault", lambda error: False)


@pytest.fixture
def planted() -> None:
    """Keep planted faults in the report, as users see them."""


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Return the session that `flowdiag` would use, started once.

    It enables Java's second compiler, which pays off after about 15 diagnoses in one process.
    """
    from flowdiag.cli.spark.optimizations import VARIABLE, Optimization
    from flowdiag.cli.spark.starter import SparkStarter

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, Optimization.FIRST_COMPILER)
        starter = SparkStarter.begin()
    with starter:
        session = starter.session()
        starter.tune(0)
        yield session


@pytest.fixture(scope="module")
def sampled(request: pytest.FixtureRequest) -> list[Path]:
    """Return the recordings that the selected tests of this file use, in order."""
    items = (item for item in request.session.items if item.path == request.path)
    return sorted({folder for item in items if (folder := _recording_of(item)) is not None})


@pytest.fixture(scope="session")
def recorded(request: pytest.FixtureRequest) -> Callable[..., Recorded]:
    """Return Spark's measurements of inputs, shared by all tests: `recorded(path, …,
    topics=(…))`.
    """
    from tests.measured import Recorded

    known: dict[tuple[Any, ...], Recorded] = {}

    def of(*paths: Path, topics: tuple[str, ...]) -> Recorded:
        key = (paths, topics)
        if key not in known:
            spark: SparkSession = request.getfixturevalue("spark")
            known[key] = Recorded(paths, topics, spark)
        return known[key]

    return of


SAMPLED = 4
"""`.ci/run` tests every fourth recording with Spark, and `.ci/full` the others. All tests use the same ones, because a
recording is measured once."""


def _recording_of(item: pytest.Item) -> Path | None:
    """Return the folder of the recording that is a parameter of a test, or None."""
    call = getattr(item, "callspec", None)
    values = () if call is None else call.params.values()
    folders = (getattr(value, "folder", value) for value in values)
    return next((f for f in folders if isinstance(f, Path) and (f / "truth.json").exists()), None)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave most recordings to `.ci/full`, and start with the slowest files, so that no process is
    left with one at the end.
    """
    for item in items:
        folder = _recording_of(item) if item.get_closest_marker("spark") else None
        if folder is not None and crc32("/".join(folder.parts[-2:]).encode()) % SAMPLED:
            item.add_marker(pytest.mark.full)
    slow = {item.path for item in items if item.get_closest_marker("spark")}
    items.sort(key=lambda item: (item.path not in slow, "recordings" not in item.path.name))


_RECORDING = re.compile(r"\[(?:flink/|queues/)?(\d+\.\d+\.\d+/[\w-]+?)(?:-logs)?\]$")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Distribute tests by file, but keep those on the same recording together: it is measured
    once. `test_rate_recordings` stays together, because it measures many recordings in one run.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByRecording(LoadScopeScheduling):  # type: ignore[misc,unused-ignore]
        def _split_scope(self, nodeid: str) -> str:
            path, _, test = nodeid.partition("::")
            about = _RECORDING.search(test)
            together = about is None or path.endswith("test_rate_recordings.py")
            return path if together or about is None else about[1]

    return ByRecording(config, log)
