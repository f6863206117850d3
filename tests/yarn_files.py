"""Writes files as YARN's log aggregation does, after the source of Hadoop."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping

from flowdiag.parsers.yarn.aggregated import TFILE_MAGIC

Logs = Mapping[str, Mapping[str, bytes]]
"""By container, then by file name."""
UUID = b"0a1b2c3d-0000-4000-8000-0123456789ab"


def number(value: int) -> bytes:
    """Encode a number with TFile's variable length."""
    if -32 <= value < 128:
        return struct.pack(">b", value)
    for size, first, limit in ((1, -52, 20), (2, -88, 16), (3, -112, 8)):
        high, low = value >> (8 * size), value & ((1 << (8 * size)) - 1)
        if -limit <= high < limit:
            return struct.pack(">b", high + first) + low.to_bytes(size)
    for size in (4, 5, 6, 7, 8):
        if -(1 << (8 * size - 1)) <= value < 1 << (8 * size - 1):
            return struct.pack(">b", size - 129) + value.to_bytes(size, signed=True)
    raise OverflowError


def text(value: str) -> bytes:
    data = value.encode()
    return number(len(data)) + data


def utf(value: str) -> bytes:
    """Encode a text as `DataOutput.writeUTF` does."""
    data = value.encode()
    return struct.pack(">H", len(data)) + data


def tfile(logs: Logs, *, compression: str = "none", chunk: int = 1 << 20) -> bytes:
    """Return a TFile with one block per container."""
    packed = zlib.compress if compression == "gz" else bytes
    out = bytearray(TFILE_MAGIC)
    places: list[tuple[int, int, int]] = []
    owner = {"APPLICATION_OWNER": utf("flink"), "VERSION": struct.pack(">i", 1)}
    values = owner | {
        container: b"".join(
            utf(name) + utf(str(len(data))) + data for name, data in sorted(files.items())
        )
        for container, files in logs.items()
    }
    for key, value in values.items():
        named = utf(key)
        record = number(len(named)) + named
        parts = [value[at : at + chunk] for at in range(0, len(value), chunk)] or [b""]
        for part in parts[:-1]:
            record += number(-len(part)) + part
        record += number(len(parts[-1])) + parts[-1]
        block = packed(record)
        places.append((len(out), len(block), len(record)))
        out += block
    index = text(compression) + number(len(places))
    index += b"".join(number(each) for place in places for each in place)
    packed_index = packed(index)
    at = len(out)
    out += packed_index
    metas = [("data:BCFile.index", compression, at, len(packed_index), len(index))]
    begin = len(out)
    out += number(len(metas))
    for name, algorithm, *place in metas:
        out += text(name) + text(algorithm) + b"".join(map(number, place))
    out += struct.pack(">q", begin) + struct.pack(">hh", 1, 0) + TFILE_MAGIC
    return bytes(out)
