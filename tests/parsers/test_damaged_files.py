"""Tests truncated, damaged, hostile or changing files: flowdiag reads everything before the damage
once, and reports it.

`docs/reliability.md` has a row for each.
"""

from __future__ import annotations

import gzip
import io
import os
import random
import subprocess
import sys
import tarfile
import threading
import time
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
import zstandard

from flowdiag.parsers import discover as discovering
from flowdiag.parsers.discover import discover
from flowdiag.parsers.sources import codecs, containers
from flowdiag.parsers.split import parse_on_driver, parse_split, plan_splits
from tests.parsers.packed import ONE, PACK, WITHOUT_END, parts

JOB = "7c7769847d333438dd9ce845d5a2d980"
BEGIN = (
    "2026-11-21 06:{:02}:{:02},000 INFO  org.apache.flink.runtime.checkpoint.CheckpointCoordinator [] -"
    " Triggering checkpoint {} (type=CHECKPOINT) @ 1795240801000 for job " + JOB + ".\n"
)
# Random words, so that codecs produce several blocks.
NOISE = random.Random(5)
LOG = "".join(
    BEGIN.format(n // 60, n % 60, n)
    + f"2026-11-21 06:00:00,000 INFO  x [] - {NOISE.randbytes(30).hex()}\n"
    for n in range(1, 600)
).encode()


def read(*paths: Path) -> tuple[int, list[str]]:
    """Return the number of checkpoints, the warnings, and the errors of splits."""
    found = discover([str(path) for path in paths])
    rows = parse_on_driver(plan_splits(found.sources)).to_pylist()
    triggered = {row["checkpoint"] for row in rows if row["event"] == "checkpoint_triggered"}
    errors = [dict(row["fields"]).get("error") for row in rows if row["event"] == "split"]
    reasons = [source.reason for source in found.sources if source.kind == "not-read"]
    return len(triggered), [
        *map(str, (*found.warnings, *found.errors)), *filter(None, errors), *filter(None, reasons)
    ]  # fmt: skip


# -- cut and broken ----------------------------------------------------------------------------


def borders(codec: str, packed: bytes) -> list[int]:
    """Return the offsets of streams, frames or blocks in a packed text."""
    if codec in ONE:
        count, pack = ONE[codec]
        return [0, *accumulate(len(pack(part)) for part in parts(LOG, count))]
    if codec == "snappy":
        return _blocks(packed, 10, 4, lambda head: int.from_bytes(head[1:4], "little"))
    if codec == "snappy-java":
        return _blocks(packed, 16, 4, lambda head: int.from_bytes(head, "big"))
    if codec == "lz4-java":
        return _blocks(packed, 0, 21, lambda head: int.from_bytes(head[9:13], "little"))
    return _blocks(packed, 0, 5, lambda head: 2 + int.from_bytes(head[3:5], "big"))


def _blocks(packed: bytes, at: int, size: int, length: Callable[[bytes], int]) -> list[int]:
    found = [at]
    while at < len(packed):
        at += size + length(packed[at : at + size])
        found.append(at)
    return found


@pytest.mark.parametrize("codec", sorted(PACK))
def test_a_file_cut_at_any_border_keeps_all_blocks_before(codec: str) -> None:
    packed = PACK[codec](LOG)
    edges = borders(codec, packed)
    assert edges[-1] == len(packed) and len(edges) > 2
    before = more = 0
    for edge in edges[1:-1]:
        kept = {}
        for cut in (edge - 1, edge, edge + 1):
            stream = codecs.decode(io.BytesIO(packed[:cut]), codec)
            kept[cut] = stream.read() or b""
            assert LOG.startswith(kept[cut])
            if cut != edge:
                assert stream.error == f"truncated {codec} after {len(kept[cut])} bytes"
        assert before <= len(kept[edge - 1]) <= len(kept[edge]) <= len(kept[edge + 1])
        more += len(kept[edge]) > before
        before = len(kept[edge])
    assert more >= len(edges) - 4  # headers and trailers contain no data


@pytest.mark.parametrize("codec", sorted(PACK))
def test_flipped_bits_and_wrong_lengths_are_harmless(codec: str) -> None:
    packed, chance = PACK[codec](LOG[:20_000]), random.Random(3)
    edges = borders(codec, PACK[codec](LOG)) if codec not in ONE else [0]
    tracemalloc.start()
    try:
        for at in [*edges[:20], *(chance.randrange(len(packed)) for _ in range(50))]:
            broken = bytearray(packed)
            what = chance.choice((b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\0", None))
            if what is None:
                broken[min(at, len(packed) - 1)] ^= 1 << chance.randrange(8)
            else:
                broken[at : at + 4] = what
            stream = codecs.decode(io.BytesIO(bytes(broken)), codec)
            while stream.read(codecs.CHUNK):
                pass
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 80 * 2**20  # at most one block of the stated length


def test_text_before_the_damage_becomes_rows_with_one_warning(tmp_path: Path) -> None:
    for codec, pack in PACK.items():
        packed = pack(LOG)
        path = tmp_path / f"{codec}.log"
        path.write_bytes(packed[: len(packed) * 2 // 3])
        count, problems = read(path)
        # A block of snappy is a third of it; xz gives nothing of the truncated stream.
        assert count >= 220, codec
        assert len(problems) == (0 if codec in WITHOUT_END and not problems else 1), problems


# -- containers --------------------------------------------------------------------------------


def zipped(members: dict[str, bytes]) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as container:
        for name, data in members.items():
            container.writestr(name, data)
    return sink.getvalue()


def tarred(members: dict[str, bytes]) -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as tar:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return sink.getvalue()


CONTAIN = {"zip": zipped, "tar": tarred}


@pytest.mark.parametrize("inner", CONTAIN)
@pytest.mark.parametrize("outer", CONTAIN)
def test_a_truncated_nested_container_gives_its_readable_part(
    outer: str, inner: str, tmp_path: Path
) -> None:
    lines = LOG.splitlines(keepends=True)
    thirds = {f"{n}.log": b"".join(lines[n * 400 : (n + 1) * 400]) for n in range(3)}
    packed = CONTAIN[outer]({f"a.{inner}": CONTAIN[inner](thirds), "b.log": LOG[:4000]})
    path, least = tmp_path / "x", 0
    for share in (0.05, 0.35, 0.6, 0.8, 1):
        path.write_bytes(packed[: int(len(packed) * share)])
        count, problems = read(path)
        assert problems or share == 1
        assert count >= least
        least = count
    assert count == 599 and not problems


@contextmanager
def small_bombs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Reduce the limits a thousandfold."""
    with monkeypatch.context() as patch:
        patch.setattr(codecs, "_BOMB_BYTES", 2**20)
        patch.setattr(discovering, "_UNPACKED_BYTES", 4 * 2**20)
        yield


@pytest.mark.parametrize(
    "codec", ["bz2", "xz", "zstd"]
)  # not gzip: its maximum ratio is a thousand
def test_unpacking_of_a_bomb_stops(
    codec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.log"
    bomb = LOG[:300] + b"\n".join([b"a" * 4095] * 8000)
    path.write_bytes(ONE[codec][1](bomb))
    with small_bombs(monkeypatch):
        count, problems = read(path)
    assert count == 1
    (error,) = problems
    assert error.startswith(
        f"{codec} that expands to more than 1000 times its size: not unpacked any further, after"
    )


@pytest.mark.parametrize("inner", CONTAIN)
@pytest.mark.parametrize("outer", CONTAIN)
def test_nested_containers_have_a_limit(
    outer: str, inner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A single member is no bomb, but sixteen members in each of sixteen archives are.
    member = zstandard.compress(b"2026-11-21 06:00:00,000 INFO  x [] - y\n" * 9000)
    many = CONTAIN[inner]({f"{n}.log": member for n in range(8)})
    large = CONTAIN[inner]({f"{n}.log": bytes(65) + b"x\n" * 300_000 for n in range(8)})
    packed = CONTAIN[outer]({f"{n}": large for n in range(8)} | {"many": many})
    if outer == "tar":
        packed = zstandard.compress(packed, 19)
    path = tmp_path / "x"
    path.write_bytes(packed)
    written: list[int] = []

    def counted(read: Callable[[int], bytes | None], *rest: Any) -> str:
        kept = containers.spool(read, *rest)
        written.append(os.path.getsize(kept))
        return kept

    with small_bombs(monkeypatch):
        monkeypatch.setattr(discovering, "spool", counted)
        found = discover([str(path)])
    assert sum(written) <= max(4 * 2**20, 1000 * len(packed)) + 2**20
    warnings = [
        *map(str, found.warnings),
        *(source.reason for source in found.sources if source.reason),
    ]
    assert any("times its size" in text for text in warnings), warnings


def test_a_zip_archive_whose_members_overlap_is_rejected(tmp_path: Path) -> None:
    packed = bytearray(zipped({f"{n}.log": LOG[: 2000 + n] for n in range(3)}))
    first = packed.index(b"PK\x01\x02")
    second = packed.index(b"PK\x01\x02", first + 4)
    # The second entry of the directory points to the first member.
    packed[second + 42 : second + 46] = packed[first + 42 : first + 46]
    path = tmp_path / "x.zip"
    path.write_bytes(packed)
    assert read(path) == (
        0,
        ["it unpacks to more than 1000 times its size: unpack the logs first"],
    )


# -- odd files ---------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [300_000, pytest.param(200_000_000, marks=pytest.mark.full)])
@pytest.mark.parametrize(
    "begin",
    [b"", b'{"a":"', BEGIN.format(0, 1, 1).encode() + b"2026-11-21 06:00:00,000 INFO  x [] - "],
)
def test_one_line_of_any_length_is_read_in_bounded_memory(
    begin: bytes, size: int, tmp_path: Path
) -> None:
    path = tmp_path / "x.log"
    with path.open("wb") as file:
        file.write(begin)
        for _ in range(size // 100_000):
            file.write(b"x" * 100_000)
        file.write(b"\n" + BEGIN.format(0, 2, 2).encode())
    code = (
        "import resource, sys\nfrom flowdiag.parsers.discover import discover\n"
        "from flowdiag.parsers.split import parse_on_driver, plan_splits\n"
        "found = discover(sys.argv[1:])\nprint(parse_on_driver(plan_splits(found.sources)).num_rows)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)"
    )
    if size < 1_000_000:
        assert read(path)[0] >= 1
        return
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, check=True)
    rows, megabytes = map(int, done.stdout.split())
    assert rows >= 2
    # A line that may be a document is decoded once as a whole; other lines are never fully in memory.
    assert megabytes < (1100 if begin.startswith(b"{") else 250)


@pytest.mark.parametrize("opened", ["[", '{"a":', '{"hits":[', '{"Event":{"a":'])
def test_endless_json_is_not_a_fault(opened: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(opened * 100_000)
    assert read(path)[0] == 0
    closed = {"[": "]", '{"a":': "1}", '{"hits":[': "]}", '{"Event":{"a":': "}}"}[opened]
    path.write_text(opened * 100_000 + closed * 100_000 + "\n" + BEGIN.format(0, 1, 1))
    read(path)


def calls(act: Callable[[], object]) -> int:
    """Count function calls, which measure work independently of the load of the machine."""
    count = 0

    def counted(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count


def test_twice_as_many_files_are_twice_the_work(tmp_path: Path) -> None:
    """Check that the cost of a folder is not quadratic in the number of files."""
    counts = []
    for number in (300, 600):
        folder = tmp_path / str(number)
        folder.mkdir()
        for n in range(number):
            (folder / f"jobmanager.log.{n}").write_bytes(LOG[:300])
        paths = [str(folder)]
        discover(paths)
        counts.append(calls(lambda paths=paths: plan_splits(discover(paths).sources)))  # type: ignore[misc]
    assert counts[1] < 2.2 * counts[0]


def test_control_characters_in_names_are_escaped(tmp_path: Path) -> None:
    for number, name in enumerate(
        (b"a\nb", b"\x1b[2J", b"\xff\xfe", "\u202egol".encode(), b"-rf", b"a\tb")
    ):
        path = os.path.join(os.fsencode(tmp_path), name + b".log")
        with open(path, "wb") as file:
            file.write(BEGIN.format(0, number, number + 1).encode())
    found = discover([str(tmp_path)])
    assert all(source.name.isprintable() for source in found.sources)
    assert read(tmp_path) == (6, [])


def test_a_slow_pipe_is_read_to_its_end(tmp_path: Path) -> None:
    out, into = os.pipe()

    def feed() -> None:
        with open(into, "wb", buffering=0) as pipe:
            for at in range(0, len(LOG), 9001):
                pipe.write(LOG[at : at + 9001])
                time.sleep(0.005)

    thread = threading.Thread(target=feed)
    thread.start()
    with open(out, "rb") as stream:
        (source,) = discover(["-"], stdin=stream).sources
    thread.join()
    assert source.size == len(LOG)


# -- files that change -------------------------------------------------------------------------


def rows_when(path: Path, changed: Callable[[], None]) -> tuple[int, str | None]:
    """Return checkpoints and error of a log that changes between discovery and reading."""
    (source,) = discover([str(path)]).sources
    changed()
    rows = [
        row
        for task in plan_splits([source])
        for split in task
        for batch in parse_split(split)
        for row in batch.to_pylist()
    ]
    count = sum(row["event"] == "checkpoint_triggered" for row in rows)
    return count, dict(rows[-1]["fields"]).get("error")


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_files_that_change_while_they_are_read(
    codec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.log"
    data = LOG if codec == "none" else gzip.compress(LOG)

    def after(changed: Callable[[], object]) -> tuple[int, str | None]:
        path.write_bytes(data)
        return rows_when(path, lambda: void(changed()))

    def grow() -> None:
        more = BEGIN.format(59, 59, 999).encode()
        with path.open("ab") as file:
            file.write(more if codec == "none" else gzip.compress(more))

    assert after(lambda: None) == (599, None)
    assert after(grow) == (600, None)
    count, error = after(lambda: os.truncate(path, len(data) // 2))
    assert 250 < count < 350
    assert error is not None and error.startswith(("shrank", "truncated gzip"))
    assert after(path.unlink) == (0, "no such file or directory")
    count, error = after(lambda: path.write_bytes(b"\x1f\x8b" + os.urandom(500)))
    assert count == 0 and error is not None
    path.write_bytes(data)
    opened = codecs.open_file

    def refused(path: str, **options: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    count, error = after(lambda: monkeypatch.setattr(codecs, "open_file", refused))
    assert (count, error) == (0, "permission denied")
    monkeypatch.setattr(codecs, "open_file", opened)


def void(_: object) -> None: ...


def test_a_folder_that_changes_while_it_is_walked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(4):
        (tmp_path / f"{n}.log").write_bytes(LOG[:300])
    listed = os.listdir

    def vanishing(path: str) -> list[str]:
        names = listed(path)
        (tmp_path / "2.log").unlink()
        return names

    monkeypatch.setattr("os.listdir", vanishing)
    found = discover([str(tmp_path)])
    assert [Path(s.name).name for s in found.sources if s.kind == "log"] == [
        "0.log",
        "1.log",
        "3.log",
    ]
    assert [str(warning).rpartition("/")[2] for warning in found.warnings] == [
        "2.log: no such file or directory"
    ]
