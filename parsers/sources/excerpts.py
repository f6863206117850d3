"""Extracts excerpts of a large text around lines that may report a failure.

In a text with an unknown layout, there are no known messages, and only failures can be read. Logs, too, contain
failures without a known message. Reading all lines for them is slow. So a single pattern, or the search for known
messages, finds the places, and only the text around them is read line by line.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from typing import BinaryIO, Final, NamedTuple

from flowdiag.parsers.sources.codecs import read_first

TEXT_BYTES: Final = 8 * 1024 * 1024
"""Maximum size of a text to search."""
_AROUND: Final = 6 * 1024  # bytes kept before and after a sign, for a header and a stack trace
_PART: Final = 128 * 1024  # bytes kept for the first signs, and again for the last ones
_SIGN: Final = re.compile(
    rb"Exception\b|Error\b|ERROR|FATAL|SEVERE|CRITICAL|Traceback \(most|\baborted due to|terminated with"
)


class Excerpts(NamedTuple):
    """Parts of a text, joined. `at` maps an offset in the parts to the offset in the text."""

    data: bytes
    starts: list[int]  # offset of each part in `data`
    begins: list[int]  # offset of each part in the text

    def at(self, offset: int) -> int:
        """Map an offset in the excerpts to the offset in the text."""
        part = bisect_right(self.starts, offset) - 1
        return self.begins[part] + offset - self.starts[part]


def excerpts(data: bytes) -> Excerpts:
    r"""Return the whole lines around the first and the last signs of a failure.

    >>> text = b"fine\n" * 4000 + b"java.io.IOException: gone\n" + b"fine\n" * 4000
    >>> found = excerpts(text)
    >>> len(found.data) < 40_000, found.at(found.data.index(b"java")) == text.index(b"java")
    (True, True)
    """
    regions = _regions(data)
    first = _take_up_to(regions, _PART)
    last = _take_up_to(regions[len(first) :][::-1], _PART)[::-1]
    parts, starts, begins, size = [], [], [], 0
    for begin, end in (*first, *last):
        starts.append(size)
        begins.append(begin)
        parts.append(data[begin:end])
        size += end - begin
    return Excerpts(b"".join(parts), starts, begins)


def _regions(data: bytes) -> list[tuple[int, int]]:
    """Return the regions around all signs, without overlaps, each at most about a quarter of `_PART`."""
    regions: list[tuple[int, int]] = []
    at = 0
    while (sign := _SIGN.search(data, at)) is not None:
        begin = max(at, sign.start() - _AROUND)
        if begin > at:
            line = data.find(b"\n", begin, sign.start())
            begin = line + 1 if line >= 0 else begin
        line = data.find(b"\n", sign.end() + _AROUND, sign.end() + 2 * _AROUND)
        at = line + 1 if line >= 0 else min(len(data), sign.end() + 2 * _AROUND)
        regions.append((begin, at))
    return regions


def _take_up_to(regions: list[tuple[int, int]], size: int) -> list[tuple[int, int]]:
    """Return the first regions whose total size does not exceed this size."""
    for number, (begin, end) in enumerate(regions):
        size -= end - begin
        if size < 0:
            return regions[:number]
    return regions


def excerpts_at(stream: BinaryIO, places: Iterable[int], *, seekable: bool) -> Excerpts:
    r"""Return the whole lines around places in a stream.

    Args:
        stream: stream at its beginning.
        places: offsets in ascending order.
        seekable: whether the stream can skip bytes without reading them.

    >>> import io
    >>> text = b"fine\n" * 40_000 + b"ERROR lost\n" + b"fine\n" * 40_000
    >>> found = excerpts_at(io.BytesIO(text), [text.index(b"ERROR")], seekable=True)
    >>> len(found.data) < 40_000, found.at(found.data.index(b"ERROR")) == text.index(b"ERROR")
    (True, True)
    """
    parts, starts, begins, size, at = [], [], [], 0, 0
    for begin, end in _merge((max(0, place - _AROUND), place + 2 * _AROUND) for place in places):
        if seekable:
            stream.seek(begin)
        else:
            _skip(stream, begin - at)
        data = read_first(stream, end - begin)
        at = begin + len(data)
        cut = data.find(b"\n") + 1 if begin else 0
        last = data.rfind(b"\n") + 1 if len(data) == end - begin else len(data)
        if cut < last:
            starts.append(size)
            begins.append(begin + cut)
            parts.append(data[cut:last])
            size += last - cut
    return Excerpts(b"".join(parts), starts, begins)


def _merge(regions: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for begin, end in regions:
        if merged and begin <= merged[-1][1]:
            merged[-1] = merged[-1][0], end
        else:
            merged.append((begin, end))
    return merged


def _skip(stream: BinaryIO, size: int) -> None:
    while size > 0 and (data := stream.read(min(size, 1 << 20))):
        size -= len(data)
