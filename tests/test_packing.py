"""Checks that recordings are packed reproducibly, and that archives read like their folders."""

from __future__ import annotations

import os
import tarfile
from collections import Counter
from pathlib import Path

import pytest
import zstandard

from fixtures.packing import (
    OUTSIDE,
    WINDOW_LOG,
    add,
    archive_of,
    members,
    pack,
    provenances,
    store_provenance,
    unpack,
)
from flowdiag.parsers.discover import discover
from flowdiag.parsers.split import parse_on_driver, plan_splits

from .archives import FIXTURES, unpacked

RECORDED = sorted(path.parent for path in (FIXTURES / "recordings").glob("**/truth.json"))
FILES = {
    "archive/0a": b"{}",
    "logs/x.log": b"one\r\ntwo",
    "logs/x.log.1": b"",
    "logs-2/" + "y" * 150 + ".log": os.urandom(70_000),
    "notes.txt": "größer".encode(),
}


def write_run(folder: Path) -> Path:
    for name, content in (FILES | dict.fromkeys(OUTSIDE, b"{}")).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def test_packing_leaves_out_the_truth(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "hot-key")
    archive = pack(folder)
    assert archive == folder / "hot-key.tar.zst"
    assert sorted(path.name for path in folder.iterdir()) == sorted([archive.name, *OUTSIDE])
    assert members(archive) == FILES
    unpack(archive, tmp_path / "again")
    found = {
        path.relative_to(tmp_path / "again").as_posix(): path.read_bytes()
        for path in (tmp_path / "again").rglob("*")
        if path.is_file()
    }
    assert found == FILES
    with pytest.raises(ValueError, match="nothing to pack"):
        pack(folder)


def test_the_same_files_give_the_same_bytes(tmp_path: Path) -> None:
    first, second = write_run(tmp_path / "a" / "run"), write_run(tmp_path / "b" / "run")
    os.utime(second / "notes.txt", (1, 1))
    (second / "notes.txt").chmod(0o600)
    assert pack(first).read_bytes() == pack(second).read_bytes()


def test_recordings_of_one_folder_share_a_provenance_file(tmp_path: Path) -> None:
    store_provenance(tmp_path / "1.20.5" / "hot-key", {"flink": "1.20.5", "seed": 1})
    store_provenance(tmp_path / "1.20.5" / "hang", {"flink": "1.20.5", "events": [{"t": 1}]})
    store_provenance(tmp_path / "1.20.5" / "hot-key", {"flink": "1.20.5", "seed": 2})
    assert provenances(tmp_path / "1.20.5") == {
        "hang": {"flink": "1.20.5", "events": [{"t": 1}]},
        "hot-key": {"flink": "1.20.5", "seed": 2},
    }


def test_each_provenance_entry_has_a_recording() -> None:
    folders = {folder.parent for folder in RECORDED}
    assert folders
    for folder in folders:
        expected = provenances(folder)
        assert sorted(expected) == sorted(path.name for path in RECORDED if path.parent == folder)


def test_an_archive_grows(tmp_path: Path) -> None:
    archive = tmp_path / "new" / "x.tar.zst"
    add(archive, {"b": b"1", "a": b"1"})
    add(archive, {"b": b"2", "c": b"2"})
    assert members(archive) == {"a": b"1", "b": b"2", "c": b"2"}


@pytest.mark.parametrize(
    "folder", RECORDED, ids=lambda path: str(path.relative_to(FIXTURES / "recordings"))
)
def test_every_recording_is_an_archive(folder: Path) -> None:
    archive = archive_of(folder)
    assert sorted(path.name for path in folder.iterdir()) == sorted([archive.name, *OUTSIDE])
    assert provenances(folder.parent)[folder.name]
    data = archive.read_bytes()
    assert zstandard.get_frame_parameters(data).window_size <= 1 << WINDOW_LOG
    with (
        zstandard.open(archive, "rb") as stream,
        tarfile.open(fileobj=stream, mode="r|") as container,
    ):
        infos = list(container)
    names = [info.name for info in infos]
    assert names == sorted(set(names), key=lambda name: name.split("/"))
    assert {(info.mtime, info.uid, info.gid, info.uname, info.gname) for info in infos} == {
        (0, 0, 0, "", "")
    }
    assert all(info.isreg() for info in infos)
    # Compressed by us, once: this excludes files that Spark compressed.
    assert not [name for name in names if name.endswith(".gz")]


@pytest.mark.parametrize(
    "name",
    [
        "collected/1.20.5-hot-key",
        "flink/2.3.0/async-failure",  # a rolled log
        "flink/1.10.3/two-jobs",
        "queues/1.14.6/pressed",
        "spark/4.3.0/query-failing",
        "startup/2.3.0/client",
    ],
)
def test_an_archive_gives_the_rows_of_its_folder(name: str) -> None:
    """The recording contains REST responses, whose type depends on neighbouring files."""
    folder = FIXTURES / "recordings" / name
    archive, plain = archive_of(folder), unpacked(folder)

    def rows(path: Path, prefix: str) -> Counter[str]:
        sources = discover([str(path)]).sources
        names = [source.name.removeprefix(prefix) for source in sources]
        found = parse_on_driver(plan_splits(sources)).to_pylist()
        return Counter(repr(row | {"source": names[row["source"]]}) for row in found)

    expected = rows(plain, f"{plain}/")
    assert expected.total() > 100
    assert rows(archive, f"{archive}!") == expected
