"""Checks that a standalone Spark cluster yields the same report, even if processes die.

The master and workers run from the installed pyspark, on loopback, and are started and stopped
here.
"""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import logs
from tests.standalone import Cluster, standalone, wait_until

pytestmark = [
    pytest.mark.application,
    pytest.mark.timeout(900),
    pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc"),
]

# Many small tasks on the executors, although the input is small.
DRIVER = """
import sys
import flowdiag.analyses.engine.reading as reading
import flowdiag.parsers.split as parse
reading.DRIVER_BYTES = reading.HERE_BYTES = 0
parse.plan_splits.__defaults__ = (500_000,)
from flowdiag.cli.app import main
sys.exit(main())
"""
# The same as a process that handles signals.
SIGNALLED = DRIVER[: DRIVER.index("from flowdiag.cli.app")] + (
    "from flowdiag.cli.process import start\nstart()\n"
)
UNREGISTERED = "Received unregister request from application"
PATIENCE_S = 280


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Run a master and two workers of one core each."""
    with standalone(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return logs.make(tmp_path_factory.mktemp("inputs"), 10, reports=True)


def command(*arguments: str, driver: str = DRIVER) -> list[str]:
    return [sys.executable, "-c", driver, "checkpoints", *arguments, "-q", "--format", "json"]


@pytest.fixture(scope="module")
def expected(inputs: Path) -> bytes:
    """Return the report of a run without a cluster."""
    done = subprocess.run(
        command(str(inputs)), capture_output=True, check=False, timeout=PATIENCE_S
    )
    assert done.returncode in (0, 1), done.stderr.decode()
    assert b'"expired"' in done.stdout
    return done.stdout


@contextlib.contextmanager
def started(cluster: Cluster, inputs: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start the same command on the cluster; it is stopped with the test at the latest."""
    with subprocess.Popen(
        command("--master", cluster.master, inputs.as_uri()),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=cluster.environ,
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


def test_a_cluster_gives_the_same_report_byte_for_byte(
    cluster: Cluster, inputs: Path, expected: bytes
) -> None:
    with started(cluster, inputs) as process:
        out, complaints = process.communicate(timeout=PATIENCE_S)
    assert process.returncode in (0, 1), complaints.decode()
    assert with_local_path(out, inputs) == expected
    assert executors_of(cluster, "worker-1") and executors_of(cluster, "worker-2")


def test_a_signal_frees_the_executors(cluster: Cluster, inputs: Path, tmp_path: Path) -> None:
    """Check that the driver deregisters from the master before it ends."""
    before, unregistered = finished(cluster), cluster.log_of("master").count(UNREGISTERED)
    with subprocess.Popen(
        command("--master", cluster.master, inputs.as_uri(), driver=SIGNALLED),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**cluster.environ, "TMPDIR": str(tmp_path)},
    ) as process:
        try:
            wait_until(lambda: process.poll() is not None or finished(cluster) > before, cluster)
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=30)
        finally:
            process.kill()
    assert (process.returncode, out, err) == (143, b"", b"")
    wait_until(lambda: cluster.log_of("master").count(UNREGISTERED) > unregistered, cluster)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.full
def test_a_worker_that_dies_during_the_scan_changes_nothing(
    cluster: Cluster, inputs: Path, expected: bytes
) -> None:
    before = finished(cluster)
    with started(cluster, inputs) as process:
        # Some tasks are done, most are not.
        wait_until(lambda: process.poll() is not None or finished(cluster) >= before + 6, cluster)
        assert process.poll() is None, "it ended before a worker could be killed"
        cluster.stop("worker-2")
        out, complaints = process.communicate(timeout=PATIENCE_S)
    assert process.returncode in (0, 1), complaints.decode()
    assert with_local_path(out, inputs) == expected


def with_local_path(report: bytes, inputs: Path) -> bytes:
    """Return the report with the path of the other run in the command to run next."""
    return report.replace(inputs.as_uri().encode(), str(inputs).encode())


def executors_of(cluster: Cluster, worker: str) -> list[Path]:
    return list((cluster.folder / worker).glob("app-*/*/stderr"))


def finished(cluster: Cluster) -> int:
    """Return the number of tasks that the executors have finished so far."""
    return sum(
        len(re.findall(r"Finished task \S+ in stage", log.read_text(errors="replace")))
        for worker in ("worker-1", "worker-2")
        for log in executors_of(cluster, worker)
    )
