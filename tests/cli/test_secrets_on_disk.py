"""Secrets of the inputs, and what commands write: temporary files while they run, tables for good."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from benchmarks.load import checkpoint, deployed, job_id, stamped
from flowdiag.analyses.report.tables import TABLES
from flowdiag.cli.app import main
from flowdiag.cli.spark.folder import remove_leftovers
from tests.ending import FLOWDIAG
from tests.kinds_of_secrets import KINDS, secret_of
from tests.test_secrets import none_shown, shown_of

SEED = 23
CONFIGURATION = "INFO  org.apache.flink.configuration.GlobalConfiguration            [] -"
GRAPH = "INFO  org.apache.flink.runtime.executiongraph.ExecutionGraph       [] -"


def logs(folder: Path, more: int = 0) -> Path:
    """A log with each kind of secret in an option and in two exceptions, and so many checkpoints without."""
    folder.mkdir()
    job = job_id(0)
    with (folder / "jobmanager.log").open("w", encoding="utf-8", newline="\n") as file:
        for number, kind in enumerate(KINDS):
            text = secret_of(kind, SEED)[0]
            option = f"Loading configuration property: env.java.opts.{number}, {text}"
            file.write(stamped(number, f"{CONFIGURATION} {option}"))
        file.writelines(deployed(job, 2, 2, 1_000_000))
        for number, kind in enumerate(KINDS, 1):
            text = secret_of(kind, SEED)[0].replace("\n", " ")
            us = number * 60_000_000
            file.writelines(checkpoint(job, number, us))
            failed = f"Job orders ({job}) switched from state RUNNING to FAILING."
            trace = f"org.apache.flink.runtime.JobException: planted {text}\n\tat a.B.c(B.java:1)"
            cause = f"Caused by: java.io.IOException: deepest {text}\n\tat a.B.c(B.java:1)"
            file.write(stamped(us + 300_000, f"{GRAPH} {failed}\n{trace}\n{cause}"))
        for number in range(len(KINDS) + 1, len(KINDS) + 1 + more):
            file.writelines(checkpoint(job, number, number * 60_000_000))
    return folder


def told(folder: Path) -> str:
    """All values of all Parquet files below a folder, as one text."""
    return "\n".join(str(pq.read_table(path).to_pylist()) for path in folder.rglob("*.parquet"))


def is_whole(parquet: bytes) -> bool:
    """It begins and ends with the same four bytes."""
    return len(parquet) > 12 and parquet.endswith(b"PAR1")


def at_work(process: subprocess.Popen[bytes], folder: Path) -> list[Path]:
    """The files of rows below a folder of temporary files, as soon as one of them is whole."""
    while process.poll() is None:
        found = [path for path in folder.rglob("*.parquet") if is_whole(path.read_bytes())]
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("it ended before it wrote rows")


def running(place: Path, temporary: Path) -> subprocess.Popen[bytes]:
    """A command that has too many rows to hand them over in memory."""
    temporary.mkdir()
    return subprocess.Popen(
        [*FLOWDIAG, "checkpoints", str(logs(place, 16_000)), "-q"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(temporary)},
    )


@pytest.mark.spark
@pytest.mark.command
def test_tables_hold_no_secret_and_nothing_else_stays(tmp_path: Path) -> None:
    temporary, tables = tmp_path / "temporary", tmp_path / "tables"
    temporary.mkdir()
    subprocess.run(
        [*FLOWDIAG, "checkpoints", str(logs(tmp_path / "logs")), "-q", "--data-dir", str(tables)],
        stdout=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(temporary)},
        check=False,
        timeout=300,
    )
    kept = told(tables)
    assert "deepest" in kept and "env.java.opts.0" in kept
    none_shown(kept, SEED)
    assert not list(temporary.iterdir())


def test_the_tables_of_memory_hold_no_secret(tmp_path: Path) -> None:
    conf = tmp_path / "flink-conf.yaml"
    lines = ["taskmanager.memory.process.size: 1728m"]
    for number, kind in enumerate(KINDS):
        text = secret_of(kind, SEED)[0].replace("\n", " ")
        lines += [f"env.java.opts.{number}: {text}", f"env.java.opts.taskmanager: {text}"]
    conf.write_text("\n".join(lines))
    tables = tmp_path / "tables"
    assert main(["memory", str(conf), "-q", "-f", "json", "--data-dir", str(tables)]) in (0, 1, 3)
    kept = told(tables)
    assert {path.name for path in tables.iterdir()} & {table.name for table in TABLES}
    none_shown(kept, SEED)


@pytest.mark.full
@pytest.mark.spark
@pytest.mark.command
@pytest.mark.skipif(sys.platform != "linux", reason="signals, and rights of folders")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_rows_are_private_and_gone_however_it_ends(number: signal.Signals, tmp_path: Path) -> None:
    # The rows are what was parsed, so that evidence can be told: they are not masked yet.
    temporary = tmp_path / "temporary"
    with running(tmp_path / "logs", temporary) as process:
        rows = at_work(process, temporary)
        assert shown_of(secret_of("github-classic", SEED)[1], told(temporary))
        for path in rows:
            top = temporary / path.relative_to(temporary).parts[0]
            assert stat.S_IMODE(top.stat().st_mode) == 0o700
        process.send_signal(number)
        process.wait(timeout=60)
    if number is signal.SIGKILL:  # nobody was left to remove them: the next run does
        until = time.monotonic() + 30
        while list(temporary.glob("flowdiag-*")) and time.monotonic() < until:
            remove_leftovers(temporary)
            time.sleep(0.1)
    assert not list(temporary.glob("flowdiag-*"))


@pytest.mark.skipif(sys.platform != "linux", reason="kills")
@pytest.mark.command
def test_what_was_unpacked_is_gone_after_a_kill(tmp_path: Path) -> None:
    program = (
        "import sys, time\n"
        "from flowdiag.parsers.sources.discover import discover\n"
        "print(discover(sys.argv[1:]).sources[0].path, flush=True)\n"
        "time.sleep(60)\n"
    )
    archive = tmp_path / "logs.tar"
    with tarfile.open(archive, "w") as container:
        container.add(logs(tmp_path / "logs"), "logs")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    with subprocess.Popen(
        [sys.executable, "-P", "-c", program, str(archive)],
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(temporary)},
    ) as process:
        assert process.stdout is not None
        copy = Path(process.stdout.readline().decode().rstrip("\n"))
        remove_leftovers(temporary)
        assert copy.is_relative_to(temporary) and copy.exists()  # it is in use
        process.kill()
    remove_leftovers(temporary)
    assert not list(temporary.iterdir())
