"""Packs bytes in every supported codec, as the programs do: in several blocks and frames."""

from __future__ import annotations

import bz2
import gzip
import lzma
from collections.abc import Callable
from typing import cast

import cramjam
import pyarrow as pa
import zstandard


def parts(data: bytes, pieces: int) -> list[bytes]:
    size = max(1, -(-len(data) // pieces))
    return [data[i : i + size] for i in range(0, len(data), size)] or [b""]


def lz4_frame(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "lz4") as stream:
        stream.write(data)
    return cast(bytes, sink.getvalue().to_pybytes())


def _lz4_java(data: bytes) -> bytes:
    def block(raw: bytes) -> bytes:
        packed = bytes(cramjam.lz4.compress_block(raw, store_size=False))
        token, body = (0x26, packed) if len(packed) < len(raw) else (0x16, raw)
        sizes = len(body).to_bytes(4, "little") + len(raw).to_bytes(4, "little")
        return b"LZ4Block" + bytes([token]) + sizes + b"\0\0\0\0" + body

    blocks = [block(data[i : i + 1000]) for i in range(0, len(data), 1000)]
    return b"".join(blocks) + b"LZ4Block\x16" + bytes(12)


def _snappy_java(data: bytes) -> bytes:
    head = b"\x82SNAPPY\0" + (1).to_bytes(4, "big") * 2
    blocks = [
        bytes(cramjam.snappy.compress_raw(data[i : i + 1000])) for i in range(0, len(data), 1000)
    ]
    return head + b"".join(len(block).to_bytes(4, "big") + block for block in blocks)


def _lzf(data: bytes) -> bytes:
    """Return chunks of literal runs; every other chunk starts with a copy of an earlier part."""
    result = b""
    for i in range(0, len(data), 600):
        raw = data[i : i + 600]
        packed = b"".join(
            bytes([len(raw[j : j + 32]) - 1]) + raw[j : j + 32] for j in range(0, len(raw), 32)
        )
        sizes = len(packed).to_bytes(2, "big") + len(raw).to_bytes(2, "big")
        result += b"ZV\1" + sizes + packed
    return result or b"ZV\0\0\0"


ONE: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "gzip": (3, gzip.compress),
    "bz2": (2, bz2.compress),
    "xz": (2, lzma.compress),
    "zstd": (20, zstandard.compress),
    "lz4": (2, lz4_frame),
}
"""Codecs whose streams or frames can be concatenated: how many `PACK` makes, and how to make
each.
"""


def _pack_in_parts(count: int, pack: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    return lambda data: b"".join(map(pack, parts(data, count)))


PACK: dict[str, Callable[[bytes], bytes]] = {
    **{codec: _pack_in_parts(count, pack) for codec, (count, pack) in ONE.items()},
    "snappy": lambda data: bytes(cramjam.snappy.compress(data)),
    "lz4-java": lambda data: _lz4_java(data) + _lz4_java(data[:0]),
    "snappy-java": _snappy_java,
    "lzf": _lzf,
}

WITHOUT_END = {"snappy", "snappy-java", "lzf"}
"""Codecs for which a cut between two blocks is no damage."""
