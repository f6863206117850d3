"""A source and its decoded stream, so that readers get an open stream and need not handle files.

`open_source` unpacks containers, decompresses, converts encodings, and turns documents with many events into lines.
It does not interpret the lines.
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
"""Maximum bytes read from a source that is read as a whole: a configuration, output of kubectl, a GC log."""

LINES: Final = ("log", "json-lines", "spark-events")
"""Kinds of sources that are read line by line and can be split between lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A file, container member or spooled stream, with its detected properties."""

    index: int  # position in the list of inputs; `source` in EVENTS
    name: str  # for display: path as given, `archive.zip!member` or `-`
    path: str  # path of the file to open (standard input is spooled to a private temporary file)
    member: str | None  # member of a zip container
    codec: str  # `none`, or a name from codecs.CODECS, detected by magic bytes
    encoding: str  # utf-8 | utf-16-le | utf-16-be | utf-32-le | utf-32-be | latin-1
    size: int  # bytes on disk; unpacked bytes for a member
    # log | json-lines | document | rest | archive | prometheus | spark-events | spark-rest | not-read
    kind: str
    engine: str  # flink | spark | unknown, from the first and some later lines
    role: (
        str  # jobmanager | taskmanager | client | driver | executor | mixed | unknown; only a hint
    )
    group: str  # name without rolling suffix, shared by the files of one process
    url: str | None  # REST path of a saved response; unknown IDs are `:jobid` and so on
    splittable: bool  # uncompressed UTF-8 or latin-1, which can be split at any byte
    reason: str | None  # why the kind is not-read: one clause for the user
    guessed: bool = False  # the engine is only a default, because no input shows it


def open_source(source: Source) -> BinaryIO:
    """Open the decoded stream of a source.

    A plain file is opened unbuffered and unchanged: read it with `readinto` into your own buffer. Other
    streams are decompressed, and converted from UTF-16 or UTF-32 to UTF-8. Latin-1 is not converted. Line endings and
    a UTF-8 byte-order mark at the start of a log are kept, so that offsets match the file.

    For kind `document`, the stream has one line per event: a JSON object written by `encode_event` of
    `flowdiag.parsers.envelopes.objects` and read by `unwrap_json`. Its keys are `message`, `timestamp_us`,
    `process`, `level`, `logger`, `thread`, and, if known, `trace` and `local_us`. The events are grouped by
    process, oldest first. If the document was damaged after its discovery, the stream contains its raw bytes.

    Reading never raises for bad data. Instead the stream ends early, and `stream_error` returns the reason. Only
    splittable sources are seekable.

    Raises:
        OSError: the file can no longer be opened.
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
    """Return the first `WHOLE_BYTES` of a source as text, or an empty string if it is unreadable or binary."""
    try:
        with open_source(source) as stream:
            content = read_first(stream, WHOLE_BYTES)
    except (OSError, ValueError, EOFError):
        return ""
    return "" if b"\0" in content[:4096] else content.decode("utf-8", "replace")


def stream_error(stream: BinaryIO) -> str | None:
    """Return the first error of a stream from `open_source` as one clause, or None."""
    return cast("str | None", getattr(stream, "error", None))


def _open_document(stream: codecs.ByteStream) -> codecs.ByteStream:
    result: codecs.ByteStream

    def lines() -> Iterator[bytes]:
        data = read_first(stream, DOCUMENT_BYTES + 1)
        events = read_document(data) if len(data) <= DOCUMENT_BYTES else None
        if events is None:
            result.note("damaged document: read as text")
            yield data
            return
        for event in events:
            yield encode_event(event)

    result = codecs.ByteStream(lines(), label="document", close=stream.close, below=stream)
    return result
