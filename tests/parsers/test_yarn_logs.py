"""Aggregated logs of YARN: files that Hadoop's own classes wrote, files written after its source, and damaged ones."""

from __future__ import annotations

import io
import json
import struct
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdiag.parsers.discover import discover
from flowdiag.parsers.source import open_source
from flowdiag.parsers.sources.codecs import Damaged
from flowdiag.parsers.yarn.aggregated import JavaObjects, _Reader, is_aggregated_log, members
from tests.yarn_files import UUID, Logs, number, text, tfile

MASTER = "container_1700000000000_0007_01_000001"
WORKER = "container_e17_1700000000000_0007_01_000002"
PREFIX = "container_1700000000000_0007_01"
FILES = ("jobmanager.log", "taskmanager.log", "taskmanager.log")
WRITTEN = Path(__file__).parents[2] / "fixtures" / "yarn_aggregated"
"""Written by `fixtures/yarn_recorder/java/Aggregate.java` with Hadoop 3.3.6."""
LOGS: Logs = {
    MASTER: {"jobmanager.log": b"2026-01-01 00:00:00,000 INFO  a\n" * 9000, "stdout": b""},
    WORKER: {"taskmanager.log": b"b\n"},
}


def read(data: bytes) -> dict[str, bytes]:
    file = io.BytesIO(data)
    assert is_aggregated_log(file, data[:4096], len(data))
    found: dict[str, bytes] = {}
    for name, take in members(file, data[:4096], len(data)):
        content = b""
        while piece := take(1000):
            content += piece
        found[name] = content
    return found


def expected(logs: Logs) -> dict[str, bytes]:
    return {f"{one}/{name}": data for one, files in logs.items() for name, data in files.items()}


@pytest.mark.parametrize("compression", ["none", "gz"])
@pytest.mark.parametrize("chunk", [1 << 20, 1000])
def test_a_tfile(compression: str, chunk: int) -> None:
    assert read(tfile(LOGS, compression=compression, chunk=chunk)) == expected(LOGS)


@pytest.mark.parametrize("name", ["TFile-none", "TFile-gz", "IFile-none", "IFile-gz"])
def test_files_of_hadoop(name: str) -> None:
    found = {log: data for log, data in read((WRITTEN / name).read_bytes()).items() if data}
    assert sorted(found) == sorted(f"{PREFIX}_00000{n}/{file}" for n, file in enumerate(FILES, 1))
    for which, file in enumerate(FILES, 1):
        lines = [
            f"2026-01-01 00:00:00,000 INFO  container {which} line {n}\n" for n in range(30 * which)
        ]
        assert found[f"{PREFIX}_00000{which}/{file}"].decode() == "".join(lines)


def test_an_older_indexed_file_has_a_uuid() -> None:
    data = (WRITTEN / "IFile-none").read_bytes()
    found = read(UUID + data[len(UUID) : -32] + UUID)
    assert found[f"{PREFIX}_000003/taskmanager.log"].endswith(b"container 3 line 89\n")


def test_members_may_be_left_unread() -> None:
    data = tfile(LOGS)
    names = [name for name, _ in members(io.BytesIO(data), data[:4096], len(data))]
    assert names == [f"{MASTER}/jobmanager.log", f"{MASTER}/stdout", f"{WORKER}/taskmanager.log"]


def test_discovery_reads_each_log_as_a_file_of_its_container(tmp_path: Path) -> None:
    path = tmp_path / "worker-1_45454"
    path.write_bytes(tfile(LOGS, compression="gz"))
    found = {source.name: source for source in discover([str(path)]).sources}
    assert sorted(found) == [f"{path}!{MASTER}/jobmanager.log", f"{path}!{WORKER}/taskmanager.log"]
    with open_source(found[f"{path}!{WORKER}/taskmanager.log"]) as stream:
        assert stream.read() == b"b\n"


def test_a_cut_file_gives_the_logs_before_the_cut(tmp_path: Path) -> None:
    path = tmp_path / "worker-1_45454"
    path.write_bytes(tfile(LOGS)[:200_000])
    found = discover([str(path)])
    (source,) = found.sources
    assert source.name.endswith("jobmanager.log")
    assert 150_000 < source.size < 200_000
    assert found.warnings[0].text == "truncated aggregated log; only the first log was read"


def test_a_text_that_begins_with_a_uuid_is_not_an_aggregated_log() -> None:
    data = UUID + b"\n2026-01-01 INFO a\n" + UUID[::-1]
    assert not is_aggregated_log(io.BytesIO(data), data, len(data))


@given(st.integers(-(2**63), 2**63 - 1))
def test_numbers(value: int) -> None:
    assert _Reader(iter([number(value)])).number() == value


@given(st.binary(max_size=60), st.integers(0, 700), st.integers(0, 3))
def test_damage_is_reported(noise: bytes, at: int, way: int) -> None:
    logs: Logs = {WORKER: {"taskmanager.log": b"line\n" * 40, "gc.log": b"x"}}
    data = tfile(logs, compression="gz" if way & 1 else "none")
    at = min(at, len(data))
    broken = data[:at] + noise + (data[at + len(noise) :] if way & 2 else b"")
    file = io.BytesIO(broken)
    if is_aggregated_log(file, broken[:4096], len(broken)):
        try:
            read(broken)
        except Damaged as damage:
            assert json.dumps(str(damage))


@given(st.data())
def test_damage_in_an_index_is_reported(data: st.DataObject) -> None:
    whole = (WRITTEN / "IFile-none").read_bytes()
    begin = whole.index(b"\xac\xed\0\5")
    broken = bytearray(whole)
    for at in data.draw(st.lists(st.integers(begin, len(whole) - 37), min_size=1, max_size=4)):
        broken[at] = data.draw(st.integers(0, 255))
    with suppress(Damaged):
        read(bytes(broken))


STREAM = b"\xac\xed\0\5"
CLASS = b"\x72\0\1A" + bytes(8) + b"\3\0\0\x78"  # without fields; a parent follows
A_MAP, A_LIST = CLASS.replace(b"\1A", b"\4AMap"), CLASS.replace(b"\1A", b"\5AList")


def test_a_class_that_is_its_own_parent_is_damage() -> None:
    with pytest.raises(ValueError, match="its own parent"):
        JavaObjects(STREAM + b"\x73" + CLASS + b"\x71\0\x7e\0\0").read()


def test_an_index_with_other_types_is_damage() -> None:
    an_object_as_key = b"\x73" + A_MAP + b"\x70" + (b"\x73" + A_MAP + b"\x70\x78") * 2 + b"\x78"
    for index in (STREAM + b"\x70", STREAM + b"\x74\0\1a", STREAM + an_object_as_key):
        data = UUID + index + struct.pack(">i", len(index)) + UUID
        with pytest.raises(Damaged):
            read(data)


def test_lists_within_a_list() -> None:
    an_empty_list = b"\x73\x71\0\x7e\0\0\x78"
    found = JavaObjects(STREAM + b"\x73" + A_LIST + b"\x70" + an_empty_list * 3 + b"\x78").read()
    assert found == [[]] * 3


def test_blocks_that_overlap_are_damage() -> None:
    content = tfile(LOGS)
    length = content.index(text("none") + number(4)) - 16
    name, one = text("data:BCFile.index"), text("none")
    index = one + number(9) + (number(16) + number(length) + number(length)) * 9
    begin, places = len(content), len(content) + len(index)
    found = content + index + number(1) + name + one
    found += b"".join(map(number, (begin, len(index), len(index))))
    found += struct.pack(">q", places) + content[-20:]
    with pytest.raises(Damaged):
        read(found)
