"""From cited records to `file:line` and an excerpt.

Rows carry only (source, offset), since counting the lines of every record of a large input would
cost more than judging it. Here the lines of the few cited sources are counted once, up to the last
cited record.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BufferedIOBase
from types import MappingProxyType
from typing import BinaryIO, Final, cast

from flowdiag.analyses.finding import Evidence
from flowdiag.analyses.report.redact import clean

EXCERPT_CHARACTERS: Final = 500
_CHUNK: Final = 1 << 20
_RECORD: Final = 64 << 10  # bytes of a record that are looked at for its excerpt
_READERS: Final = 2  # sources at once: reading and counting leave Python to others


@dataclass(frozen=True, slots=True)
class Located:
    """Where a record stands for people: its 1-based line, what it says (cleaned), and when."""

    line: int
    excerpt: str
    time_us: int | None = None


Key = tuple[int, int]  # source, offset


def locate(
    evidence: Iterable[Evidence],
    open_stream: Callable[[int], BinaryIO],
    zones: Mapping[int, int] = MappingProxyType({}),
) -> tuple[dict[Key, Located], list[tuple[int, str]]]:
    """Find line and excerpt of every cited record.

    Args:
        evidence: cited records, in any order, repetitions allowed.
        open_stream: opens the decoded stream of a source by its index.
        zones: by source what its clock is ahead of UTC (milliseconds), where that is known; without
            it only records that print an instant are dated.

    Returns:
        What was found by (source, offset), and (source, message) for each source that could not be
        read again: a file may have been rotated away since it was parsed. Its records are missing
        from the first part; nothing is raised.
    """
    cited: defaultdict[int, set[int]] = defaultdict(set)
    for item in evidence:
        cited[item.source].add(item.offset)
    found: dict[Key, Located] = {}
    problems: list[tuple[int, str]] = []

    def read(source: int) -> list[tuple[int, int, bytes]]:
        with open_stream(source) as stream:
            return list(_records(stream, sorted(cited[source])))

    with ThreadPoolExecutor(_READERS) as readers:
        for source, reading in [(one, readers.submit(read, one)) for one in sorted(cited)]:
            try:
                for offset, line, record in reading.result():
                    found[source, offset] = Located(
                        line, excerpt(record), instant(record, zones.get(source))
                    )
            except Exception as error:  # noqa: BLE001 - codecs have errors of their own
                problems.append((source, f"cannot be read again for line numbers: {error}"))
    return found, problems


def excerpt(record: bytes) -> str:
    """The first line of a record, out of its JSON wrapping, cleaned, at most 500 characters.

    >>> excerpt(b"connecting with password=hunter2\\n\\tat some.Frame")
    'connecting with password=***'
    """
    from flowdiag.parsers.envelopes.objects import unwrap_json

    line = record.split(b"\n", 1)[0].rstrip(b"\r")
    unwrapped = unwrap_json(line) if line.lstrip()[:1] == b"{" else None
    text = unwrapped.text.split("\n", 1)[0] if unwrapped else line.decode("utf-8", "replace")
    return clean(text, EXCERPT_CHARACTERS)


def instant(record: bytes, zone_ms: int | None = None) -> int | None:
    """When a record was written, in microseconds since the epoch; None where its line does not tell.

    Args:
        record: at least its first line.
        zone_ms: what its clock is ahead of UTC.

    >>> instant(b"2026-01-31 18:43:01,500 INFO  o.a.f.Some [] - it did", 8 * 3_600_000)
    1769856181500000
    """
    from flowdiag.parsers.lines.records import open_record

    line = record.split(b"\n", 1)[0].rstrip(b"\r")
    head = open_record(line.decode("utf-8", "replace")).head
    if head.utc_us is not None:
        return head.utc_us
    # A time of day or a time since a start needs what only the settled rows know.
    if head.local_us is None or head.clock is not None or zone_ms is None:
        return None
    return head.local_us - zone_ms * 1000


def _records(stream: BinaryIO, offsets: Sequence[int]) -> Iterator[tuple[int, int, bytes]]:
    """Offset, line number and first line (64 KiB at most) of the records at `offsets` (ascending)."""
    buffer = bytearray(_CHUNK)
    fill = cast(BufferedIOBase, stream).readinto
    count = _line_counter(buffer)
    line, position, following = 1, 0, 0
    started: list[tuple[int, int, bytearray]] = []  # lines whose end lies in the next chunk
    while following < len(offsets) or started:
        size = fill(buffer) or 0
        going_on, started = started, []
        for offset, number, record in going_on:
            end = _end(buffer, 0, min(size, _RECORD - len(record)))
            record += buffer[:end]
            if end < size or not size or len(record) >= _RECORD:
                yield offset, number, bytes(record)
            else:
                started.append((offset, number, record))
        counted = 0
        while following < len(offsets) and offsets[following] < position + size:
            at = offsets[following] - position
            following += 1
            line += count(counted, at)
            counted = at
            end = _end(buffer, at, min(size, at + _RECORD))
            if end < size or end - at >= _RECORD:
                yield position + at, line, bytes(memoryview(buffer)[at:end])
            else:
                started.append((position + at, line, buffer[at:end]))
        if following < len(offsets):
            line += count(counted, size)
        position += size
        if not size:
            return


def _end(buffer: bytearray, start: int, stop: int) -> int:
    """Where a line ends that begins at `start`: at its line end, or where one has to stop."""
    found = buffer.find(b"\n", start, stop)
    return stop if found < 0 else found


def _line_counter(buffer: bytearray) -> Callable[[int, int], int]:
    """What counts the line ends of a part of a buffer.

    Arrow compares and counts many characters at once; `bytes.count` stops at every line.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    shared, line_end = pa.py_buffer(buffer), pa.scalar(ord("\n"), pa.uint8())

    def count(start: int, end: int) -> int:
        part = pa.Array.from_buffers(pa.uint8(), end - start, [None, shared], offset=start)
        return int(pc.equal(part, line_end).true_count)

    return count
