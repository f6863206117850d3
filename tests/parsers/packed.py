"""Every codec that is read, undone: bytes packed as the programs do it, in several blocks and frames."""

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
    """Chunks of runs of literals, every other one with a copy of its own beginning."""
    result = b""
    for i in range(0, len(data), 600):
        raw = data[i : i + 600]
        packed = b"".join(
            bytes([len(raw[j : j + 32]) - 1]) + raw[j : j + 32] for j in range(0, len(raw), 32)
        )
        sizes = len(packed).to_bytes(2, "big") + len(raw).to_bytes(2, "big")
        result += b"ZV\1" + sizes + packed
    return result or b"ZV\0\0\0"


PACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: b"".join(map(gzip.compress, parts(data, 3))),
    "bz2": lambda data: b"".join(map(bz2.compress, parts(data, 2))),
    "xz": lambda data: b"".join(map(lzma.compress, parts(data, 2))),
    "zstd": lambda data: b"".join(map(zstandard.ZstdCompressor().compress, parts(data, 20))),
    "lz4": lambda data: b"".join(map(lz4_frame, parts(data, 2))),
    "snappy": lambda data: bytes(cramjam.snappy.compress(data)),
    "lz4-java": lambda data: _lz4_java(data) + _lz4_java(data[:0]),
    "snappy-java": _snappy_java,
    "lzf": _lzf,
}
