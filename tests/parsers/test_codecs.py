"""Checks that any codec, truncated or damaged anywhere, gives the decodable part and never
raises.
"""

import bz2
import gzip
import io
import lzma
import os
import random
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, cast

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from flowdiag.parsers.sources import codecs
from flowdiag.parsers.sources.codecs import (
    ByteStream,
    Damaged,
    PlainFile,
    codec_of,
    decode,
    transcode,
)
from tests.parsers.packed import PACK, WITHOUT_END, lz4_frame, parts

CODEC = st.sampled_from(sorted(PACK))
TEXT = st.builds(
    lambda seed, size: (
        random.Random(seed).randbytes(size // 4).hex().encode() + b"\n" * (size // 2)
    ),
    st.integers(0, 2**32),
    st.integers(0, 6000),
)


def unpack(data: bytes, codec: str) -> tuple[bytes, str | None]:
    stream = decode(io.BytesIO(data), codec)
    result = stream.read()
    stream.close()
    return result or b"", stream.error


def test_every_codec_is_tested() -> None:
    assert sorted(PACK) == sorted(codec.name for codec in codecs.CODECS)


@settings(max_examples=40, deadline=None)
@given(codec=CODEC, data=TEXT, size=st.integers(1, 5000))
def test_any_chunking_gives_the_same_bytes(codec: str, data: bytes, size: int) -> None:
    packed = PACK[codec](data)
    if data:
        assert codec_of(packed[:16]) == codec
    stream = decode(io.BytesIO(packed), codec)
    buffer = bytearray(size)
    result = b""
    while count := stream.readinto(buffer):
        result += buffer[:count]
    assert result == data
    assert stream.error is None


@settings(max_examples=80, deadline=None)
@given(codec=CODEC, data=TEXT, share=st.floats(0, 1))
def test_a_truncated_stream_gives_a_prefix_and_an_error(
    codec: str, data: bytes, share: float
) -> None:
    packed = PACK[codec](data)
    cut = packed[: int(share * len(packed))]
    result, error = unpack(cut, codec)
    assert data.startswith(result)
    if len(result) < len(data) and cut and codec not in WITHOUT_END:
        whole_parts = {
            b"".join(parts(data, n)[:i]) for n in (2, 3, 20) for i in range(len(parts(data, n)))
        }
        assert error is not None or result in whole_parts
    if error is not None:
        assert error.startswith(f"truncated {codec} after {len(result)} ")


@settings(max_examples=80, deadline=None)
@given(
    codec=CODEC,
    data=TEXT,
    at=st.floats(0, 0.999),
    byte=st.integers(0, 255),
    noise=st.binary(max_size=40),
)
def test_a_broken_stream_never_raises(
    codec: str, data: bytes, at: float, byte: int, noise: bytes
) -> None:
    packed = bytearray(PACK[codec](data))
    if packed:
        packed[int(at * len(packed))] = byte
    unpack(bytes(packed), codec)
    unpack(bytes(packed[:30]) + noise, codec)
    unpack(noise, codec)


@pytest.mark.parametrize("codec", ["gzip", "zstd", "lz4"])
def test_a_truncated_stream_loses_no_decodable_byte(codec: str) -> None:
    lines = b"".join(
        b"2026-01-01 00:00:00,%03d INFO  X - %x\n" % (i % 1000, i * i) for i in range(40_000)
    )
    packed = PACK[codec](lines)
    result, error = unpack(packed[:-1], codec)
    assert len(result) > len(lines) - 140_000  # one block
    assert error == f"truncated {codec} after {len(result)} bytes"
    if codec == "gzip":
        assert result == lines


def test_gzip_gives_all_bytes_before_the_damage() -> None:
    lines = b"".join(b"line %d %x\n" % (i, i * i) for i in range(20_000))
    packed = bytearray(gzip.compress(lines))
    middle = len(packed) // 2
    intact = zlib.decompressobj(wbits=31).decompress(bytes(packed[:middle]))
    packed[middle : middle + 100] = bytes(100)
    result, error = unpack(bytes(packed), "gzip")
    assert result.startswith(intact)
    assert error is not None and error.startswith("damaged gzip after ")


def test_only_padding_may_follow_gzip() -> None:
    packed = gzip.compress(b"log\n")
    assert unpack(packed + bytes(700), "gzip") == (b"log\n", None)
    assert unpack(packed + bytes(3) + packed, "gzip") == (b"log\nlog\n", None)
    result, error = unpack(packed + b"garbage", "gzip")
    assert result == b"log\n"
    assert error == "gzip followed by other data after 4 bytes"


def test_skippable_frames_of_zstd() -> None:
    skippable = b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"abcd"
    packed = skippable + zstandard.compress(b"one\n") + skippable + zstandard.compress(b"two\n")
    assert codec_of(packed[:16]) == "zstd"
    assert unpack(packed, "zstd") == (b"one\ntwo\n", None)


def test_lzf_with_copies() -> None:
    # "ab", a copy of 5 bytes from 2 back, and a long copy of 12 from 7 back
    packed = bytes([1]) + b"ab" + bytes([3 << 5, 1]) + bytes([7 << 5, 3, 6])
    chunk = b"ZV\1" + len(packed).to_bytes(2, "big") + (19).to_bytes(2, "big") + packed
    assert unpack(chunk + b"ZV\0\0\3end", "lzf") == (b"abababaabababaababaend"[:19] + b"end", None)


@pytest.mark.parametrize(
    "codec",
    ["gzip", "bz2", "xz", "zstd", "lz4"],
)
def test_memory_stays_flat_on_bombs(codec: str) -> None:
    size = 32 * 1024 * 1024
    pack: dict[str, Callable[[bytes], bytes]] = {
        "gzip": gzip.compress,
        "bz2": bz2.compress,
        "xz": lambda data: lzma.compress(data, preset=0),
        "zstd": zstandard.compress,
        "lz4": lz4_frame,
    }
    packed = pack[codec](bytes(size))
    stream = decode(io.BytesIO(packed), codec)
    buffer, seen = bytearray(256 * 1024), 0
    tracemalloc.start()
    try:
        while count := stream.readinto(buffer):
            seen += count
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert seen == size
    # zstd's decoder has no limit of its own, so its input arrives in small pieces.
    assert peak < (40 if codec == "zstd" else 4) * 1024 * 1024


def test_an_impossible_block_length_is_damage() -> None:
    head = b"\x82SNAPPY\0" + (1).to_bytes(4, "big") * 2
    assert (
        unpack(head + b"\x7f\xff\xff\xff", "snappy-java")[1] == "damaged snappy-java after 0 bytes"
    )
    huge = b"LZ4Block\x26" + b"\xff\xff\xff\x7f" * 2 + bytes(4)
    assert unpack(huge, "lz4-java")[1] == "damaged lz4-java after 0 bytes"


class _Failing(io.RawIOBase):
    def read(self, size: int | None = -1, /) -> bytes:
        raise OSError(5, "Input/output error")


def test_a_read_error_ends_the_stream() -> None:
    stream = decode(cast(BinaryIO, _Failing()), "none")
    assert stream.read() == b""
    assert stream.error == "unreadable (Input/output error) after 0 bytes"


def test_a_stream_keeps_its_first_error_and_closes_the_source() -> None:
    closed = []

    def pieces() -> object:
        yield b"abc"
        raise Damaged("damaged {label}")

    stream = ByteStream(
        cast("list[bytes]", pieces()), label="thing", close=lambda: closed.append(True)
    )
    assert stream.read() == b"abc"
    stream.note("another")
    assert stream.error == "damaged thing after 3 bytes"
    stream.close()
    stream.close()
    assert closed == [True]


@settings(max_examples=40, deadline=None)
@given(
    text=st.text(max_size=300),
    name=st.sampled_from(["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"]),
    mark=st.booleans(),
    cut=st.integers(0, 3),
)
def test_other_encodings_become_utf_8(text: str, name: str, mark: bool, cut: int) -> None:
    text = "".join(c for c in text if not 0xD800 <= ord(c) < 0xE000).removeprefix("\ufeff")
    data = (("\ufeff" if mark else "") + text).encode(name)
    data = data[: len(data) - cut]
    stream = transcode(decode(io.BytesIO(data), "none"), name)
    result = (stream.read() or b"").decode()
    if not cut:
        assert result == text
    assert stream.error is None


def test_recoding_reports_the_error_of_its_source() -> None:
    packed = gzip.compress("log\n".encode("utf-16-le"))[:-4]
    stream = transcode(decode(io.BytesIO(packed), "gzip"), "utf-16-le")
    assert stream.read() == b"log\n"
    assert stream.error == "truncated gzip after 8 bytes"


def test_a_shrinking_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(b"x" * 1000)
    with PlainFile(str(path), expected=1000) as file:
        assert file.read(100) == b"x" * 100
        path.write_bytes(b"x" * 150)
        assert file.read() == b"x" * 50
        assert file.read() == b""
        assert file.error == "shrank from 1000 to 150 bytes while it was read"


def test_a_file_that_grows_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(b"x" * 10)
    with PlainFile(str(path), expected=10) as file:
        path.write_bytes(b"x" * 20)
        buffer = bytearray(64)
        assert file.readinto(buffer) == 20
        assert file.readinto(buffer) == 0
        assert file.error is None


def test_a_plain_file_that_becomes_unreadable(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes(b"x")
    with PlainFile(str(path)) as file:
        os.close(file.fileno())
        assert file.readinto(bytearray(10)) == 0
        assert file.error == "unreadable (Bad file descriptor)"
        assert file.read(10) == b""
        with pytest.raises(OSError):
            file.close()
