"""A source, and its decoded stream: who reads gets an open stream, and knows no file.

`open_source` undoes whatever a file is wrapped in (a container, a codec, an encoding, a document of many
events). It does not know what the lines mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final, cast

from flowdiag.parsers.envelopes.documents import DOCUMENT_BYTES, read_document
from flowdiag.parsers.envelopes.objects import encode_event
from flowdiag.parsers.sources import codecs
from flowdiag.parsers.sources.codecs import read_first
from flowdiag.parsers.sources.containers import open_member

WHOLE_BYTES: Final = 16 * 1024 * 1024
"""Up to here a source that is read as a whole is read at all: configurations, texts of kubectl, GC logs."""

LINES: Final = ("log", "json-lines", "spark-events")
"""Kinds that are read line by line, and can be cut between any two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One file, container member or spooled stream, and what it was found to be."""

    index: int  # position in the input list, = EVENTS.source
    name: str  # what the user sees: path as given, `archive.zip!member`, `-`
    path: str  # what is opened (standard input is spooled to a private temporary file)
    member: str | None  # member of a zip container
    codec: str  # none or a name from codecs.CODECS, by magic bytes
    encoding: str  # utf-8 | utf-16-le | utf-16-be | utf-32-le | utf-32-be | latin-1
    size: int  # bytes on disk; of a member, when unpacked
    # log | json-lines | document | rest | archive | prometheus | spark-events | spark-rest | not-read
    kind: str
    engine: str  # flink | spark | unknown: what the first and some later lines look like
    role: str  # jobmanager | taskmanager | client | driver | executor | mixed | unknown: a hint
    group: str  # name without rolling suffix: files of one process share it
    url: str | None  # of rest files: the REST path, unknown ids as `:jobid`
    splittable: bool  # plain bytes in UTF-8 or latin-1 that can be cut at any byte
    reason: str | None  # why it is not read (kind not-read): one clause for the user


def open_source(source: Source) -> BinaryIO:
    """Open the decoded stream of a source that is read.

    A plain file is opened unbuffered as it is: read it with `readinto` on a buffer of your own.
    Other streams are decompressed and, if UTF-16 or UTF-32, turned into UTF-8. Line ends are
    kept, and so is a byte-order mark of UTF-8 in front of logs, so that offsets are those of the
    file; latin-1 stays as it is.

    For kind `document` the stream has one JSON object per line and event, as `encode_event` of
    `flowdiag.parsers.envelopes.objects` writes and `unwrap_json` there reads: keys `message`,
    `timestamp_us`, `process`, `level`, `logger`, `thread`, and where known `trace` and
    `local_us`; the events of one process stand together, oldest first. If such a document is
    found damaged meanwhile, the stream is its bytes.

    Reading never raises for bad data: the stream ends early, and `stream_error` says why. It is
    not seekable unless the source is splittable.

    Raises:
        OSError: the file cannot be opened any more.
    """
    if source.codec == "none" and source.member is None:
        plain = codecs.open_file(source.path, expected=source.size)
        if source.kind in LINES and source.encoding in ("utf-8", "latin-1"):
            return cast(BinaryIO, plain)
        stream = codecs.decode(cast(BinaryIO, plain), "none")
    elif source.member is None:
        stream = codecs.decode(cast(BinaryIO, codecs.open_file(source.path)), source.codec)
    else:
        stream = open_member(source.path, source.member, source.codec)
    if source.encoding.startswith("utf-") and source.encoding != "utf-8":
        stream = codecs.transcode(stream, source.encoding)
    if source.kind == "document":
        stream = _open_document(stream)
    return cast(BinaryIO, stream)


def source_text(source: Source) -> str:
    """The first `WHOLE_BYTES` of a source as text; empty where it cannot be read, or holds binary data."""
    try:
        with open_source(source) as stream:
            content = read_first(stream, WHOLE_BYTES)
    except (OSError, ValueError, EOFError):
        return ""
    return "" if b"\0" in content[:4096] else content.decode("utf-8", "replace")


def stream_error(stream: BinaryIO) -> str | None:
    """What went wrong while a stream of `open_source` was read: one clause, or None."""
    return cast("str | None", getattr(stream, "error", None))


def _open_document(stream: codecs.ByteStream) -> codecs.ByteStream:
    result: codecs.ByteStream

    def lines() -> Iterator[bytes]:
        data = read_first(stream, DOCUMENT_BYTES + 1)
        events = read_document(data) if len(data) <= DOCUMENT_BYTES else None
        if events is None:
            result.note("damaged document: it is read as text")
            yield data
            return
        for event in events:
            yield encode_event(event)

    result = codecs.ByteStream(lines(), label="document", close=stream.close, below=stream)
    return result
