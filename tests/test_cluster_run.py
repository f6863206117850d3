"""Checks that a standalone Spark cluster yields the same report, even if processes die.

The master and workers run from the installed pyspark, on loopback, and are started and stopped
here.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
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
reading.DRIVER_BYTES = reading.LOCAL_BYTES = 0
parse.plan_splits.__defaults__ = (500_000,)
from flowdiag.cli.app import main
sys.exit(main())
"""
# The same as a process that handles signals.
SIGNALLED = DRIVER[: DRIVER.index("from flowdiag.cli.app")] + (
    "from flowdiag.cli.__main__ import start\nstart()\n"
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
    """Return the report of a local run."""
    done = subprocess.run(
        command(str(inputs)), capture_output=True, check=False, timeout=PATIENCE_S
    )
    assert done.returncode in (0, 1), done.stderr.decode()
    assert b'"expired"' in done.stdout
    return done.stdout


@contextlib.contextmanager
def started(
    cluster: Cluster, inputs: Path, python: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Start the same command on the cluster, and stop it at the end of the test.

    Args:
        python: the Python of the executors, if it is not that of the driver.
    """
    with subprocess.Popen(
        command("--master", cluster.master, inputs.as_uri()),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=cluster.environ | ({"PYSPARK_PYTHON": str(python)} if python else {}),
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


def python_without(folder: Path, *packages: str) -> Path:
    """Return the Python of an environment with the packages of this one, except some."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not any(name in path.name for name in packages):
            (site / path.name).symlink_to(path)
    python = folder / "bin" / "python"
    for name in packages:
        done = subprocess.run(
            [str(python), "-I", "-c", f"import {name}"], capture_output=True, check=False
        )
        assert b"ModuleNotFoundError" in done.stderr
    return python


def other_python() -> Path | None:
    """Return a Python of another version than this one, if this host has any."""
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    names = [f"python3.{minor}" for minor in range(14, 9, -1)]
    found = [path for name in names for path in sorted(root.glob(f"versions/3*/bin/{name}"))]
    found += [Path(path) for name in names if (path := shutil.which(name))]
    here = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return next((path for path in found if path.name != here and "shims" not in str(path)), None)


@pytest.mark.full
def test_executors_need_no_flowdiag(
    cluster: Cluster, inputs: Path, expected: bytes, tmp_path: Path
) -> None:
    with started(cluster, inputs, python_without(tmp_path / "bare", "flowdiag")) as process:
        out, complaints = process.communicate(timeout=PATIENCE_S)
    assert process.returncode in (0, 1), complaints.decode()
    assert with_local_path(out, inputs) == expected


@pytest.mark.full
def test_a_missing_package_on_the_executors_is_one_error_with_a_remedy(
    cluster: Cluster, inputs: Path, tmp_path: Path
) -> None:
    with started(
        cluster, inputs, python_without(tmp_path / "bare", "flowdiag", "msgspec")
    ) as process:
        out, complaints = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, b"cannot import msgspec" in complaints) == (2, True), complaints
    assert "install flowdiag's dependencies on the executors" in complaints.decode()
    assert_is_one_error(out, complaints)


@pytest.mark.full
@pytest.mark.skipif(other_python() is None, reason="needs another version of Python")
def test_another_python_on_the_executors_is_one_error_with_a_remedy(
    cluster: Cluster, inputs: Path
) -> None:
    with started(cluster, inputs, other_python()) as process:
        out, complaints = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 2, complaints
    assert "cannot run Python tasks" in complaints.decode()
    assert "install the same Python version as on this host" in complaints.decode()
    assert_is_one_error(out, complaints)


@pytest.mark.full
def test_a_worker_of_three_that_dies_during_the_scan_changes_nothing(
    cluster: Cluster, inputs: Path, expected: bytes
) -> None:
    cluster.start_worker("worker-3")
    cluster.wait_for_worker("worker-3")
    before = finished(cluster)
    with started(cluster, inputs) as process:
        # Some tasks are done, most are not.
        wait_until(lambda: process.poll() is not None or finished(cluster) >= before + 6, cluster)
        assert process.poll() is None, "it ended before a worker could be killed"
        assert executors_of(cluster, "worker-3")
        cluster.stop("worker-2")
        out, complaints = process.communicate(timeout=PATIENCE_S)
    assert process.returncode in (0, 1), complaints.decode()
    assert with_local_path(out, inputs) == expected


def assert_is_one_error(out: bytes, complaints: bytes) -> None:
    """Check that the user sees one error with a hint and no stack trace."""
    assert out == b""
    lines = complaints.decode().splitlines()
    assert [line.split(":")[0].strip() for line in lines] == ["error", "hint"], lines


def with_local_path(report: bytes, inputs: Path) -> bytes:
    """Replace the path of the other run in the suggested command."""
    return report.replace(inputs.as_uri().encode(), str(inputs).encode())


def executors_of(cluster: Cluster, worker: str) -> list[Path]:
    return list((cluster.folder / worker).glob("app-*/*/stderr"))


def finished(cluster: Cluster) -> int:
    """Return the number of tasks that the executors have finished so far."""
    return sum(
        len(re.findall(r"Finished task \S+ in stage", log.read_text(errors="replace")))
        for worker in ("worker-1", "worker-2", "worker-3")
        for log in executors_of(cluster, worker)
    )
