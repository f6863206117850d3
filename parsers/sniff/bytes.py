"""Recognizes binary formats and text encodings by the first bytes of a file."""

from __future__ import annotations

import codecs
import re
from typing import Final

_FORMATS: Final = (
    (b"\xca\xfe\xba\xbe", "Java class file"),
    (b"JAVA PROFILE 1.0", "Java heap dump"),
    (b"FLR\0", "Java Flight Recorder file: convert it with `jfr print --json --stack-depth 64`"),
    (b"\xca\xfe\xd0\x0d", "packed Java archive"),
    (b"\xac\xed\0\x05", "serialized Java object"),
    (b"\x49\x60\x67\x2d", "metadata of a Flink checkpoint or savepoint"),
    (b"LPKSHHRH", "systemd journal: convert it to text with `journalctl -o short-iso`"),
    (b"\x7fELF", "program or core dump"),
    (b"MZ", "Windows program"),
    (b"\x89PNG", "image"),
    (b"\xff\xd8\xff", "image"),
    (b"GIF8", "image"),
    (b"%PDF-", "PDF document"),
    (b"PAR1", "Parquet file"),
    (b"Obj\x01", "Avro file"),
    (b"ORC", "ORC file"),
    (b"SQLite format 3\0", "SQLite database"),
    (b"7z\xbc\xaf\x27\x1c", "7z archive: unpack it first"),
    (b"Rar!\x1a\x07", "rar archive: unpack it first"),
    (b"\x1f\x9d", "compressed with `compress`: unpack it first"),
    (b"LZIP", "compressed with lzip: unpack it first"),
    (b"\x89LZO", "compressed with lzop: unpack it first"),
    (b"\x02\x21\x4c\x18", "compressed with lz4's legacy format: unpack it first"),
    (b"!<arch>\n", "ar archive"),
    (b"\xd4\xc3\xb2\xa1", "packet capture"),
)
# A profile in protobuf has no magic number. The type of its samples, or of their period, follows a few numbers.
_PPROF: Final = re.compile(
    rb"(?:[\x40\x48\x50\x60\x68\x70][\x80-\xff]{0,9}[\0-\x7f]){0,6}"
    rb"[\x0a\x5a][\x04-\x06]\x08[\x80-\xff]?[\0-\x7f]\x10[\x80-\xff]?[\0-\x7f][\x0a\x12\x1a\x22\x2a\x32\x40-\x72]"
)
_PPROF_REASON: Final = (
    "profile in pprof's format: convert it with `go tool pprof -raw FILE | stackcollapse-go.pl`"
)
# Text can contain tabs, newlines, form feeds, backspaces, and the escape character of terminal codes.
_CONTROLS: Final = bytes(set(range(32)) - set(b"\t\n\r\f\b\x1b\0"))
_WORD_LIKE: Final = frozenset(b"MZ ORC LZIP".split())


def binary_reason(head: bytes) -> str | None:
    """Return why a file that starts like this is not text, or None if it may be text."""
    return binary_format(head) or ("binary file" if is_binary(head, 0.3) else None)


def binary_format(head: bytes) -> str | None:
    """Return the binary format that these magic bytes identify, or None."""
    for magic, reason in _FORMATS:
        if head.startswith(magic):
            # Text can start with a short magic word as well.
            if magic in _WORD_LIKE and not is_binary(head[:4096]):
                continue
            return reason
    return _PPROF_REASON if _PPROF.match(head) else None


def is_binary(data: bytes, share: float = 0.05) -> bool:
    """Return whether data has too many control characters for text. NUL bytes do not count: sparse files have them."""
    rest = data.replace(b"\0", b"")
    return len(rest) - len(rest.translate(None, _CONTROLS)) > share * len(rest)


def encoding_of(data: bytes) -> str:
    """Detect the encoding from the byte-order mark, the positions of NUL bytes, or whether the bytes are valid
    UTF-8.

    >>> [encoding_of(text.encode(name)) for text, name in (("a log", "utf-16-be"), ("é!", "latin-1"))]
    ['utf-16-be', 'latin-1']
    """
    for mark, name in (
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),
        (codecs.BOM_UTF32_BE, "utf-32-be"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
    ):
        if data.startswith(mark):
            return name
    piece = data[: 64 * 1024]
    if b"\0" in piece:
        even, odd = piece[0::2], piece[1::2]
        # In ASCII text as UTF-16, every other byte is NUL. A sparse file has NULs in both positions.
        if odd and odd.count(0) > 0.4 * len(odd) and even.count(0) < 0.05 * len(even):
            return "utf-16-le"
        if odd and even.count(0) > 0.4 * len(even) and odd.count(0) < 0.05 * len(odd):
            return "utf-16-be"
    if data.isascii():
        return "utf-8"
    # The decoder ignores a truncated last character. A few stray bytes do not mean latin-1.
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(data)
    stray = text.count("\ufffd")
    return "latin-1" if stray > sum(not c.isascii() for c in text) - stray else "utf-8"


def to_utf8(data: bytes, encoding: str) -> bytes:
    """Convert text to UTF-8 without a byte-order mark, and replace damaged characters."""
    text = data.decode(encoding, "replace").removeprefix("\ufeff")
    return text.encode("utf-8", "replace")
