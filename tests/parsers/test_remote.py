"""Tests inputs behind URLs, in an in-memory file system."""

from __future__ import annotations

import gzip
import io
import uuid
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import fsspec
import pytest

from flowdiag.parsers.discover import discover
from flowdiag.parsers.extras import pip_install
from flowdiag.parsers.source import open_source, stream_error
from flowdiag.parsers.sources import remote
from flowdiag.parsers.sources.remote import BACKENDS, RemoteFile, list_files, without_credentials
from flowdiag.parsers.split import parse_on_driver, plan_splits

LINE = (
    "2026-01-31 18:43:{:02},001 INFO  org.apache.flink.runtime.checkpoint.CheckpointCoordinator"
    " [] - Checkpoint {} of job 7c7769847d333438dd9ce845d5a2d980 expired before completing.\n"
)
LOG = "".join(LINE.format(number, number) for number in range(50)).encode()


@pytest.fixture
def folder() -> Iterator[str]:
    """Return the URL of a folder with logs; its name is unique, because all tests share the
    memory.
    """
    system = fsspec.filesystem("memory")
    name = f"/{uuid.uuid4().hex}"
    system.pipe(f"{name}/jobmanager.log", LOG)
    system.pipe(f"{name}/old/jobmanager.log.1.gz", gzip.compress(LOG))
    system.pipe(f"{name}/.hidden/x.log", LOG)
    container = io.BytesIO()
    with zipfile.ZipFile(container, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inside.log", LOG)
    system.pipe(f"{name}/saved.zip", container.getvalue())
    yield f"memory://{name}"
    system.rm(name, recursive=True)


def test_a_folder_is_read_like_a_local_one(folder: str, tmp_path: Path) -> None:
    system = fsspec.filesystem("memory")
    system.get(folder.removeprefix("memory://"), str(tmp_path / "copy"), recursive=True)
    there, here = discover([folder]), discover([str(tmp_path / "copy")])
    names = [source.name.removeprefix(folder) for source in there.sources]
    assert names == ["/jobmanager.log", "/old/jobmanager.log.1.gz", "/saved.zip!inside.log"]
    assert names == [source.name.removeprefix(f"{tmp_path}/copy") for source in here.sources]
    assert not there.errors + there.warnings
    tables = [parse_on_driver(plan_splits(found.sources, 1000)) for found in (there, here)]
    assert tables[0].num_rows > 150
    assert tables[0].equals(tables[1])


def test_globs_and_single_files(folder: str) -> None:
    assert len(discover([f"{folder}/*.log"]).sources) == 1
    assert len(discover([f"{folder}/*/*.gz", f"{folder}/jobmanager.log"]).sources) == 2
    assert len(discover([f"{folder}/jobmanager.log"] * 2).sources) == 1


def test_unreadable_inputs_are_reported_in_one_line(folder: str) -> None:
    found = discover([f"{folder}/none.log", f"{folder}/*.none"])
    assert [error.text for error in found.errors] == ["no such file or folder"] * 2
    (unknown,) = discover(["gopher://host/x.log"]).errors
    assert str(unknown).startswith("gopher://host/x.log: unsupported URL scheme; supported are ")
    assert set(BACKENDS) > {"s3", "gs", "hdfs", "https"}


def test_a_missing_backend_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(url: str) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr("fsspec.core.url_to_fs", missing)
    (error,) = discover(["s3://bucket/logs/"]).errors
    assert str(error) == (
        f"s3://bucket/logs/: reading s3 requires another package: {pip_install('s3')}"
    )


@pytest.mark.parametrize("top", ["webhdfs://nn:9870", "hdfs://nn:8020", "sftp://ann@host"])
def test_files_of_a_host_keep_its_name(top: str, monkeypatch: pytest.MonkeyPatch) -> None:
    system = SimpleNamespace(
        exists=lambda path: True,
        find=lambda path, detail: {"/logs/a.log": {"type": "file", "size": 3}},
    )
    monkeypatch.setattr(remote, "system_of", lambda url: (system, "/logs"))
    assert remote.list_files(f"{top}/logs") == [remote.FoundFile(f"{top}/logs/a.log", 3)]


@pytest.mark.parametrize("library", ["libjvm", "libhdfs"])
def test_a_missing_native_library_of_hadoop_is_named_with_an_alternative(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(url: str) -> None:
        raise OSError(f"Unable to load {library} dlopen(/x/{library}.so) failed:\n/x/{library}.so")

    monkeypatch.setattr("fsspec.core.url_to_fs", missing)
    (error,) = discover(["hdfs://namenode:9000/logs"]).errors
    assert "requires Hadoop's libhdfs" in str(error) and "webhdfs://" in str(error)
    assert "dlopen" not in str(error)


def test_a_shrunken_file_is_reported(folder: str) -> None:
    (source,) = discover([f"{folder}/jobmanager.log"]).sources
    fsspec.filesystem("memory").pipe(source.path.removeprefix("memory://"), LOG[:1000])
    with open_source(source) as stream:
        assert stream.read() == LOG[:1000]
        assert (stream_error(stream) or "").startswith(f"shrank from {len(LOG)} to 1000 bytes")


def test_a_connection_that_breaks_ends_the_file(folder: str) -> None:
    class Broken(Exception):
        pass

    def fail(size: int) -> bytes:
        raise Broken("reset by\npeer")

    file = RemoteFile(f"{folder}/jobmanager.log")
    file._file = type("Failing", (), {"read": staticmethod(fail), "close": lambda self: None})()
    with file:
        assert file.read(10) == b""
        assert file.error == "unreadable (Broken: reset by peer)"


def test_secrets_are_not_shown() -> None:
    assert without_credentials("sftp://me:secret@host/logs/a b.log") == "sftp://host/logs/a b.log"
    assert without_credentials("https://bucket.s3.amazonaws.com/x.log?X-Amz-Signature=1") == (
        "https://bucket.s3.amazonaws.com/x.log"
    )


def test_a_file_url_is_a_local_path(tmp_path: Path) -> None:
    path = tmp_path / "job manager.log"
    path.write_bytes(LOG)
    (source,) = discover([path.as_uri()]).sources
    assert source.path == source.name == str(path)


def test_sizes_are_reported(folder: str) -> None:
    assert [(file.url, file.size) for file in list_files(f"{folder}/jobmanager.log")] == [
        (f"{folder}/jobmanager.log", len(LOG))
    ]
