"""Finds the `file:line` and an excerpt of each cited record.

Rows contain only (source, offset), because counting the lines of every record in a large input would cost more than
judging it. This module counts lines once, in the few cited sources and up to the last cited record. In a large
record (a metric report, a REST response) it finds the sample or entry that proves the finding
(`flowdiag.parsers.quotes`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from io import BufferedIOBase
from types import MappingProxyType
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from flowdiag.analyses.contract.redact import clean
from flowdiag.analyses.contract.report import DOCUMENTS
from flowdiag.analyses.model.finding import Evidence
from flowdiag.analyses.model.fmt import shorten
from flowdiag.parsers.focus import Focus
from flowdiag.parsers.notes import InputNote, Kind

if TYPE_CHECKING:
    from flowdiag.parsers.quotes import Sample

EXCERPT_CHARACTERS: Final = 500
_CHUNK: Final = 1 << 20
_RECORD: Final = 64 << 10  # bytes of a record to read for its excerpt
MAX_BLOCK: Final = 2 << 20  # bytes of a record to search for the relevant part
_MOST: Final = {
    False: _RECORD,
    True: MAX_BLOCK,
}  # bytes to read, by whether to search the whole record
_READERS: Final = 2  # parallel sources; reading and counting release the GIL


@dataclass(frozen=True, slots=True)
class LocatedRecord:
    """A record as shown to readers: its 1-based line, cleaned text and time."""

    line: int
    excerpt: str
    time_us: int | None = None


Key = tuple[int, int, Focus | None]


def key_of(item: Evidence) -> Key:
    return item.source, item.offset, item.focus


def locate(
    evidence: Iterable[Evidence],
    open_stream: Callable[[int], BinaryIO],
    zones: Mapping[int, int] = MappingProxyType({}),
    kinds: Mapping[int, str] = MappingProxyType({}),
) -> tuple[dict[Key, LocatedRecord], list[tuple[int, InputNote]]]:
    """Find the line and an excerpt of every cited record.

    Args:
        evidence: cited records in any order, possibly repeated.
        open_stream: opens the decoded stream of a source by its index.
        zones: milliseconds by which the clock of each source is ahead of UTC, if known. Without it, only records
            that print an instant get a time.
        kinds: kinds of the sources. A missing source is a log.

    Returns:
        the records by source, offset and focus, and (source, note) for each source that could not be read again, for
        example because the file was rotated. Records of such a source are missing; no error is raised.
    """
    cited: defaultdict[int, defaultdict[int, set[Focus | None]]] = defaultdict(
        lambda: defaultdict(set)
    )
    for item in evidence:
        cited[item.source][item.offset].add(item.focus)
    found: dict[Key, LocatedRecord] = {}
    problems: list[tuple[int, InputNote]] = []

    def read(source: int) -> list[tuple[Key, LocatedRecord]]:
        kind, zone, focuses_by_offset = kinds.get(source, "log"), zones.get(source), cited[source]
        whole = kind in DOCUMENTS or kind == "prometheus"
        blocks = {at for at, focuses in focuses_by_offset.items() if whole or focuses != {None}}
        with open_stream(source) as stream:
            return [
                ((source, offset, focus), _quote(record, line, focus, kind, zone))
                for offset, line, record in _records(stream, sorted(focuses_by_offset), blocks)
                for focus in focuses_by_offset[offset]
            ]

    with ThreadPoolExecutor(_READERS) as readers:
        for source, reading in [(one, readers.submit(read, one)) for one in sorted(cited)]:
            try:
                found.update(reading.result())
            except Exception as error:  # noqa: BLE001 - codecs raise their own errors
                text = f"cannot be read again for line numbers: {error}"
                problems.append((source, InputNote(Kind.CHANGED, text)))
    return found, problems


def _quote(
    record: bytes, line: int, focus: Focus | None, kind: str, zone: int | None
) -> LocatedRecord:
    """Quote the relevant part of a record, or its first line if that part is not found."""
    from flowdiag.parsers import quotes

    time_us = instant(record, zone)
    is_document = kind in DOCUMENTS or (
        kind == "prometheus" and record.lstrip()[:1] in (b"{", b"[")
    )
    part = None
    if kind == "spark-events":
        part = quotes.event_text(record.split(b"\n", 1)[0])
    elif is_document:
        part = quotes.entry_text(record, focus)
    if part is not None:
        return LocatedRecord(line, clean(part, EXCERPT_CHARACTERS), time_us)
    # Only now, because the first line of a document may be all of it.
    first = LocatedRecord(line, excerpt(record), time_us)
    if is_document:
        return replace(first, excerpt=shorten(first.excerpt.replace('\\"', '"'), 200))
    if kind == "spark-events":
        return first
    if focus is None:
        return first
    text, numbers = _unwrap_lines(record)
    best, best_us = _nearest_sample(text, focus, zone)
    if best is None:
        return first
    return LocatedRecord(
        line + numbers(best.line),
        clean(best.text, EXCERPT_CHARACTERS),
        first.time_us if best_us is None else best_us,
    )


def _nearest_sample(
    text: bytes, focus: Focus, zone: int | None
) -> tuple[Sample | None, int | None]:
    """Return the sample closest to the focus and the time of its report, if known. If all are too late, the first."""
    from flowdiag.parsers.quotes import samples_in

    best, best_us = None, None
    for sample in samples_in(text, focus):
        when = _report_us(text, sample.start, zone)
        late = when is not None and focus.until_us is not None and when > focus.until_us
        if best is None or not (late or sample.distance >= best.distance):
            best, best_us = sample, when
    return best, best_us


def _unwrap_lines(record: bytes) -> tuple[bytes, Callable[[int], int]]:
    """Unwrap JSON log lines, and return the original line number of each resulting line."""
    if record.lstrip()[:1] != b"{":
        return record, lambda line: line
    from flowdiag.parsers.envelopes.objects import unwrap_json

    texts: list[bytes] = []
    numbers: list[int] = []
    for number, line in enumerate(record.split(b"\n")):
        unwrapped = unwrap_json(line.rstrip(b"\r")) if line.lstrip()[:1] == b"{" else None
        text = line if unwrapped is None else unwrapped.text.encode("utf-8", "replace")
        for part in text.rstrip(b"\n").split(b"\n"):
            texts.append(part)
            numbers.append(number)
    return b"\n".join(texts), lambda line: numbers[line]


def _report_us(text: bytes, at: int, zone: int | None) -> int | None:
    """Return the time of the metric report that contains a sample, from the line before the report's title."""
    title = text.rfind(b"Starting metrics report", 0, at)
    before = text.rfind(b"\n", 0, title) if title >= 0 else -1
    if before < 0:
        return None
    return instant(text[text.rfind(b"\n", 0, before) + 1 : before], zone)


def excerpt(record: bytes) -> str:
    """Return the first line of a record without JSON wrapping, cleaned, at most 500 characters.

    >>> excerpt(b"connecting with password=hunter2\\n\\tat some.Frame")
    'connecting with password=***'
    """
    from flowdiag.parsers.envelopes.objects import unwrap_json
    from flowdiag.parsers.lines.prefix import strip_progress_bar

    line = record.split(b"\n", 1)[0].rstrip(b"\r")
    unwrapped = unwrap_json(line) if line.lstrip()[:1] == b"{" else None
    text = unwrapped.text.split("\n", 1)[0] if unwrapped else line.decode("utf-8", "replace")
    return clean(strip_progress_bar(text), EXCERPT_CHARACTERS)


def instant(record: bytes, zone_ms: int | None = None) -> int | None:
    """Return the time of a record in microseconds since the epoch, or None if its line prints no time.

    Args:
        record: at least its first line.
        zone_ms: milliseconds by which its clock is ahead of UTC.

    >>> instant(b"2026-01-31 18:43:01,500 INFO  o.a.f.Some [] - it did", 8 * 3_600_000)
    1769856181500000
    """
    from flowdiag.parsers.logs.records import open_record

    line = record.split(b"\n", 1)[0].rstrip(b"\r")
    head = open_record(line.decode("utf-8", "replace")).head
    if head.utc_us is not None:
        return head.utc_us
    # Times without a date and elapsed times need the settled rows.
    if head.local_us is None or head.clock is not None or zone_ms is None:
        return None
    return head.local_us - zone_ms * 1000


def _records(
    stream: BinaryIO, offsets: Sequence[int], blocks: Collection[int] = ()
) -> Iterator[tuple[int, int, bytes]]:
    """Yield offset, line number and first line (at most 64 KiB) of the records at `offsets` (ascending).

    For offsets in `blocks`, yield the text that follows (at most `MAX_BLOCK`) instead of the first line.
    """
    buffer = bytearray(_CHUNK)
    fill = cast(BufferedIOBase, stream).readinto
    count = _line_counter(buffer)
    line, position, following = 1, 0, 0
    started: list[tuple[int, int, bytearray]] = []  # records that end in the next chunk
    while following < len(offsets) or started:
        size = fill(buffer) or 0
        continued, started = started, []
        for offset, number, record in continued:
            most = _MOST[offset in blocks]
            end = _end(buffer, 0, min(size, most - len(record)), whole=offset in blocks)
            record += buffer[:end]
            if end < size or not size or len(record) >= most:
                yield offset, number, bytes(record)
            else:
                started.append((offset, number, record))
        counted = 0
        while following < len(offsets) and offsets[following] < position + size:
            offset, at = offsets[following], offsets[following] - position
            following += 1
            line += count(counted, at)
            counted = at
            most = _MOST[offset in blocks]
            end = _end(buffer, at, min(size, at + most), whole=offset in blocks)
            if end < size or end - at >= most:
                yield offset, line, bytes(memoryview(buffer)[at:end])
            else:
                started.append((offset, line, buffer[at:end]))
        if following < len(offsets):
            line += count(counted, size)
        position += size
        if not size:
            return


def _end(buffer: bytearray, start: int, stop: int, *, whole: bool) -> int:
    """Return the end of the line that starts at `start`, at most `stop`. For a `whole` record, return `stop`."""
    found = -1 if whole else buffer.find(b"\n", start, stop)
    return stop if found < 0 else found


def _line_counter(buffer: bytearray) -> Callable[[int, int], int]:
    """Return a function that counts the line ends between two positions of a buffer.

    Arrow compares many characters at once, whereas `bytes.count` stops at every line.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    shared, line_end = pa.py_buffer(buffer), pa.scalar(ord("\n"), pa.uint8())

    def count(start: int, end: int) -> int:
        part = pa.Array.from_buffers(pa.uint8(), end - start, [None, shared], offset=start)
        return int(pc.equal(part, line_end).true_count)

    return count
