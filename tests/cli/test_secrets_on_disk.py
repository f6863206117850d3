"""Secrets from inputs in written files: temporary files during a command, and tables."""

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
    """Write a log with each kind of secret in an option and in two exceptions, and `more` checkpoints without."""
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


def parquet_text(folder: Path) -> str:
    """Return all values of all Parquet files below a folder, as one text."""
    return "\n".join(str(pq.read_table(path).to_pylist()) for path in folder.rglob("*.parquet"))


def is_complete(parquet: bytes) -> bool:
    """Return whether the file ends with the magic bytes."""
    return len(parquet) > 12 and parquet.endswith(b"PAR1")


def wait_for_rows(process: subprocess.Popen[bytes], folder: Path) -> list[Path]:
    """Wait until a file of rows below the temporary folder is complete, and return all complete files."""
    while process.poll() is None:
        found = [path for path in folder.rglob("*.parquet") if is_complete(path.read_bytes())]
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("the command ended before it wrote rows")


def start_command(place: Path, temporary: Path) -> subprocess.Popen[bytes]:
    """Start a command with too many rows for memory."""
    temporary.mkdir()
    return subprocess.Popen(
        [*FLOWDIAG, "checkpoints", str(logs(place, 16_000)), "-q"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(temporary)},
    )


@pytest.mark.spark
@pytest.mark.command
def test_tables_contain_no_secret_and_nothing_else_remains(tmp_path: Path) -> None:
    temporary, tables = tmp_path / "temporary", tmp_path / "tables"
    temporary.mkdir()
    subprocess.run(
        [*FLOWDIAG, "checkpoints", str(logs(tmp_path / "logs")), "-q", "--data-dir", str(tables)],
        stdout=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(temporary)},
        check=False,
        timeout=300,
    )
    text_of_tables = parquet_text(tables)
    assert "deepest" in text_of_tables and "env.java.opts.0" in text_of_tables
    none_shown(text_of_tables, SEED)
    assert not list(temporary.iterdir())


def test_the_tables_of_memory_contain_no_secret(tmp_path: Path) -> None:
    conf = tmp_path / "flink-conf.yaml"
    lines = ["taskmanager.memory.process.size: 1728m"]
    for number, kind in enumerate(KINDS):
        text = secret_of(kind, SEED)[0].replace("\n", " ")
        lines += [f"env.java.opts.{number}: {text}", f"env.java.opts.taskmanager: {text}"]
    conf.write_text("\n".join(lines))
    tables = tmp_path / "tables"
    assert main(["memory", str(conf), "-q", "-f", "json", "--data-dir", str(tables)]) in (0, 1, 3)
    text_of_tables = parquet_text(tables)
    assert {path.name for path in tables.iterdir()} & {table.name for table in TABLES}
    none_shown(text_of_tables, SEED)


@pytest.mark.full
@pytest.mark.spark
@pytest.mark.command
@pytest.mark.skipif(sys.platform != "linux", reason="uses signals and folder permissions")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_rows_are_private_and_removed_after_any_signal(
    number: signal.Signals, tmp_path: Path
) -> None:
    # The rows are not masked yet: evidence quotes the parsed text.
    temporary = tmp_path / "temporary"
    with start_command(tmp_path / "logs", temporary) as process:
        rows = wait_for_rows(process, temporary)
        assert shown_of(secret_of("github-classic", SEED)[1], parquet_text(temporary))
        for path in rows:
            top = temporary / path.relative_to(temporary).parts[0]
            assert stat.S_IMODE(top.stat().st_mode) == 0o700
        process.send_signal(number)
        process.wait(timeout=60)
    if number is signal.SIGKILL:  # the next run removes the files of a killed process
        until = time.monotonic() + 30
        while list(temporary.glob("flowdiag-*")) and time.monotonic() < until:
            remove_leftovers(temporary)
            time.sleep(0.1)
    assert not list(temporary.glob("flowdiag-*"))


@pytest.mark.skipif(sys.platform != "linux", reason="uses SIGKILL")
@pytest.mark.command
def test_unpacked_files_are_removed_after_a_kill(tmp_path: Path) -> None:
    program = (
        "import sys, time\n"
        "from flowdiag.parsers.discover import discover\n"
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
        assert copy.is_relative_to(temporary) and copy.exists()  # in use
        process.kill()
    remove_leftovers(temporary)
    assert not list(temporary.iterdir())
