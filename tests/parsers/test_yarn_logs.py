"""Aggregated logs of YARN: files that Hadoop's own classes wrote, files written after its source, and damaged ones."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdiag.parsers.sources.codecs import Damaged
from flowdiag.parsers.sources.discover import discover
from flowdiag.parsers.sources.open import open_source
from flowdiag.parsers.yarn.aggregated import _Reader, is_aggregated_log, members
from tests.yarn_files import UUID, Logs, number, tfile

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
    assert found.warnings[0].text == "truncated aggregated log; its first 1 logs are read"


def test_a_text_that_begins_with_a_uuid_is_no_aggregated_log() -> None:
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
