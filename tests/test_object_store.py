"""Inputs on a real server of the S3 API on loopback (moto), read with s3fs: `.ci/full` installs both."""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flowdiag.parsers.discover import discover
from flowdiag.parsers.source import open_source, stream_error
from flowdiag.parsers.split import parse_on_driver, plan_splits

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(
        not all(map(importlib.util.find_spec, ("moto", "s3fs"))), reason="needs moto and s3fs"
    ),
    pytest.mark.filterwarnings("default"),  # of the packages that are tested here
]
LINE = (
    "2026-01-31 18:43:{:02},001 INFO  org.apache.flink.runtime.checkpoint.CheckpointCoordinator"
    " [] - Checkpoint {} of job 7c7769847d333438dd9ce845d5a2d980 expired before completing.\n"
)
LINES = 4_000
LOG = "".join(LINE.format(number % 60, number) for number in range(LINES)).encode()
FOLDER = "s3://logs/prod"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Return the address of a server, which ends with the module."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    program = Path(__file__).parent / "s3_server.py"
    with subprocess.Popen(
        [sys.executable, str(program), str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            deadline = time.monotonic() + 120
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                except OSError:
                    assert process.poll() is None and time.monotonic() < deadline
                    time.sleep(0.2)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.kill()


@pytest.fixture
def storage(server: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the file system with the owner's credentials, which flowdiag also uses."""
    import s3fs

    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "good")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    s3fs.S3FileSystem.clear_instance_cache()
    system = s3fs.S3FileSystem()
    if not system.exists("logs"):
        system.mkdir("logs")
    yield system
    s3fs.S3FileSystem.clear_instance_cache()


def test_a_folder_is_listed_and_read_in_ranges(storage: Any, tmp_path: Path) -> None:
    storage.pipe("logs/prod/jobmanager.log", LOG)
    found = discover([f"{FOLDER}/"])
    assert f"{FOLDER}/jobmanager.log" in [source.name for source in found.sources]
    assert not found.errors
    (source,) = discover([f"{FOLDER}/jobmanager.log"]).sources
    splits = plan_splits((source,), 100_000)
    assert len(splits) > 5
    (tmp_path / "jobmanager.log").write_bytes(LOG)
    here = plan_splits(discover([str(tmp_path)]).sources, 100_000)
    assert parse_on_driver(splits).num_rows == parse_on_driver(here).num_rows > LINES


@pytest.mark.parametrize("url", [f"{FOLDER}/none/", "s3://no-such-bucket/x.log"])
def test_missing_objects_and_buckets(url: str, storage: Any) -> None:
    (error,) = discover([url]).errors
    assert str(error) == f"{url}: no such file or folder"


def test_wrong_credentials_are_an_error_without_the_key(
    storage: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "stolen")
    type(storage).clear_instance_cache()
    found = discover([f"{FOLDER}/jobmanager.log"])
    assert not found.sources
    (error,) = found.errors
    assert "stolen" not in str(error) and "\n" not in str(error)
    assert "no such file" not in str(error)


def test_short_throttling_is_waited_for(storage: Any) -> None:
    storage.pipe("logs/prod/slow.log", LOG[:200_000])
    found = discover([f"{FOLDER}/slow.log"])
    assert not found.errors + found.warnings
    assert parse_on_driver(plan_splits(found.sources, 1_000_000)).num_rows > 1000


def test_lasting_throttling_is_reported(storage: Any) -> None:
    storage.pipe("logs/prod/slowest.log", LOG[:2000])
    found = discover([f"{FOLDER}/slowest.log"])
    texts = [str(note) for note in (*found.errors, *found.warnings)]
    assert any("reduce your request rate" in text for text in texts), texts


def test_an_object_that_shrinks_is_reported(storage: Any) -> None:
    storage.pipe("logs/prod/shrinks.log", LOG)
    (source,) = discover([f"{FOLDER}/shrinks.log"]).sources
    storage.pipe("logs/prod/shrinks.log", LOG[:1000])
    with open_source(source) as stream:
        assert len(stream.read()) == 1000
        assert (stream_error(stream) or "").startswith(f"shrank from {len(LOG)} to 1000 bytes")


def test_an_object_that_is_replaced_while_it_is_read_is_reported(storage: Any) -> None:
    """Two halves of two files are not a log."""
    old = LOG * 8  # more than one request
    storage.pipe("logs/prod/changes.log", old)
    (source,) = discover([f"{FOLDER}/changes.log"]).sources
    with open_source(source) as stream:
        begin = stream.read(1000)
        storage.pipe("logs/prod/changes.log", old[::-1])
        rest = stream.read()
        assert begin + rest == old or stream_error(stream)
