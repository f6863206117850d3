"""Decompresses files in bounded pieces, without exceptions for bad data.

Magic bytes identify the codec. Every codec is a generator that takes an open file and yields decoded pieces; `CODECS`
lists all codecs. A truncated or damaged stream yields everything before the damage and then sets `ByteStream.error`.
In addition to common formats, flowdiag decodes those of Spark's event logs: lz4-java blocks, snappy-java and lzf.
"""

from __future__ import annotations

import bz2
import codecs
import io
import lzma
import os
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final, Protocol, cast

from flowdiag.parsers.sources.remote import RemoteFile, is_url

CHUNK: Final = 64 * 1024
"""Bytes per read from a file, and maximum bytes per decoded piece."""

# For formats that state block sizes; a larger size means damage.
_MAX_BLOCK: Final = 64 * 1024 * 1024
_MAX_WINDOW: Final = 256 * 1024 * 1024  # as for zstd --long=28; limits memory
_BOMB_BYTES: Final = 1024 * 1024 * 1024
_BOMB_RATIO: Final = 1000  # logs compress by a factor of 10, metrics reports by a factor of 100
# The decoder does not limit its output: this much input gives at most 22 MB.
_ZSTD_PIECE: Final = 512


class Damaged(Exception):
    """A stream is truncated or damaged; the message explains how."""


class _Inflater(Protocol):
    """The common interface of the decompressors for bz2 and lzma."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Codec:
    """A compression format: its name in `Source.codec`, its magic bytes, its decoder."""

    name: str
    magic: tuple[bytes, ...]
    decode: Callable[[BinaryIO], Iterator[bytes]]


def codec_of(head: bytes) -> str:
    """Return the name of the codec for a file that starts with `head`; `none` if the file is not compressed.

    >>> codec_of(bytes.fromhex("1f8b0800")), codec_of(b"2026-01-01 INFO")
    ('gzip', 'none')
    """
    for codec in CODECS:
        if head.startswith(codec.magic):
            return codec.name
    return "none"


class ByteStream(io.RawIOBase):
    """A readable, non-seekable stream of pieces. Errors end the stream instead of raising.

    `error` is one clause for the user about an error in this stream or the stream `below`, for example `truncated
    gzip after 4096 bytes` (decoded bytes), or None without an error. It is final once the stream has ended.
    """

    def __init__(
        self,
        pieces: Iterable[bytes],
        *,
        label: str = "stream",
        close: Callable[[], None] | None,
        below: ByteStream | None = None,
    ) -> None:
        """Read `pieces` on demand; call `close` when the stream is closed."""
        super().__init__()
        self._error: str | None = None
        self._below = below
        self._pieces = iter(pieces)
        self._rest = memoryview(b"")
        self._label = label
        self._close = close
        self._produced = 0

    @property
    def error(self) -> str | None:
        """The first error so far, or None."""
        # An error in the stream below also truncates this one.
        return (self._below.error if self._below is not None else None) or self._error

    def readable(self) -> bool:

        return True

    def readinto(self, buffer: memoryview | bytearray) -> int:  # type: ignore[override]
        """Fill the whole buffer, unless the stream ends first."""
        view = memoryview(buffer).cast("B")
        filled = 0
        while filled < len(view):
            if not self._rest:
                piece = self._next_piece()
                if piece is None:
                    break
                self._produced += len(piece)
                self._rest = memoryview(piece)
                continue
            taken = min(len(view) - filled, len(self._rest))
            view[filled : filled + taken] = self._rest[:taken]
            self._rest = self._rest[taken:]
            filled += taken
        return filled

    def _next_piece(self) -> bytes | None:
        try:
            return next(self._pieces, None)
        except Damaged as trouble:
            what = str(trouble)
        except OSError as trouble:
            what = f"unreadable ({trouble.strerror or type(trouble).__name__})"
        # The decoders convert the errors of their libraries to Damaged; the rest comes from absurd sizes or
        # types in damaged data.
        except (ValueError, EOFError, RuntimeError, MemoryError, OverflowError) as trouble:
            what = f"damaged ({type(trouble).__name__})"
        self._pieces = iter(())
        self.note(f"{what.format(label=self._label)} after {self._produced} bytes")
        return None

    def note(self, error: str) -> None:
        """Record an error that does not end the stream; only the first error is kept."""
        if self._error is None:
            self._error = error

    def close(self) -> None:
        """Close the stream and the file below."""
        if not self.closed:
            self._pieces = iter(())
            if self._close is not None:
                self._close()
        super().close()


def open_file(path: str, *, expected: int | None = None) -> PlainFile | RemoteFile:
    """Open a local path or URL for reading; raises OSError."""
    if is_url(path):
        return RemoteFile(path, expected=expected)
    return PlainFile(path, expected=expected)


class PlainFile(io.FileIO):
    """An unbuffered file. A read error ends it and sets `error`.

    `readinto` calls the operating system directly. `expected` is the size at discovery. If the file turns out to be
    shorter, it was truncated while it was read, and `error` reports that.
    """

    def __init__(self, path: str, *, expected: int | None = None) -> None:
        super().__init__(path, "rb")
        self.error: str | None = None
        self._expected = expected

    def size(self) -> int:
        """Return the size of the file in bytes."""
        return os.fstat(self.fileno()).st_size

    def readinto(self, buffer: memoryview | bytearray) -> int:  # type: ignore[override]
        """Read with one system call; return 0 at the end or after a read error."""
        try:
            count = super().readinto(buffer)
        except OSError as trouble:
            self._note(f"unreadable ({trouble.strerror or type(trouble).__name__})")
            return 0
        if not count and len(buffer):
            self._check_size()
        return count or 0

    def read(self, size: int | None = -1, /) -> bytes:
        """Read up to `size` bytes, or all remaining bytes."""
        try:
            data = super().read(-1 if size is None else size)
        except OSError as trouble:
            self._note(f"unreadable ({trouble.strerror or type(trouble).__name__})")
            return b""
        if not data and size:
            self._check_size()
        return data or b""

    def _check_size(self) -> None:
        if self._expected is None or self.error is not None:
            return
        try:
            size = os.fstat(self.fileno()).st_size
        except OSError:
            return
        if size < self._expected:
            self._note(f"shrank from {self._expected} to {size} bytes while it was read")

    def _note(self, error: str) -> None:
        if self.error is None:
            self.error = error


def decode(raw: BinaryIO, codec: str, *, close: Callable[[], None] | None = None) -> ByteStream:
    """Return a stream that decodes `raw` from its start.

    Args:
        raw: compressed file, read in pieces of `CHUNK`.
        codec: a name from `CODECS`, or `none`.
        close: called when the stream is closed; by default `raw.close`.

    Raises:
        KeyError: the codec does not exist.
    """
    if codec == "none":
        pieces = _pieces(raw)
    else:
        counted = _Counted(raw)
        unpack = {known.name: known for known in CODECS}[codec].decode
        pieces = limit_expansion(unpack(cast(BinaryIO, counted)), lambda: counted.taken)
    below = raw if isinstance(raw, ByteStream) else None
    return ByteStream(pieces, label=codec, close=close or raw.close, below=below)


def limit_expansion(pieces: Iterable[bytes], taken: Callable[[], int]) -> Iterator[bytes]:
    """Yield pieces until the compression ratio becomes implausible.

    Args:
        pieces: decompressed pieces.
        taken: returns the number of compressed bytes read so far.
    """
    given = 0
    for piece in pieces:
        given += len(piece)
        if given > _BOMB_BYTES and given > _BOMB_RATIO * taken():
            raise Damaged(
                f"{{label}} that expands to more than {_BOMB_RATIO} times its size: not unpacked any further,"
            )
        yield piece


class _Counted:
    """A file that counts the bytes that are read from it."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self.taken = 0
        self.seek, self.seekable = raw.seek, raw.seekable

    def read(self, size: int = -1) -> bytes:

        data = self._raw.read(size)
        self.taken += len(data)
        return data


Stream = ByteStream | PlainFile | RemoteFile
"""A decoded stream, or a file."""


def open_decoded(path: str, codec: str) -> ByteStream:
    """Open and decompress a file; raises OSError if it cannot be opened."""
    return decode(cast(BinaryIO, open_file(path)), codec)


def read_first(stream: Stream | BinaryIO, count: int, head: bytes = b"") -> bytes:
    """Return the first `count` bytes of a stream, including `head`, which was already read."""
    # Use small reads, because each read allocates its full size.
    parts = [head]
    count -= len(head)
    while count > 0 and (part := stream.read(min(count, CHUNK))):
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def transcode(stream: ByteStream, encoding: str) -> ByteStream:
    """Convert a UTF-16 or UTF-32 stream to UTF-8 without a byte-order mark; invalid bytes become U+FFFD."""

    def pieces() -> Iterator[bytes]:
        decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
        at_start = True
        while data := stream.read(CHUNK):
            text = decoder.decode(data)
            if at_start and text:
                text, at_start = text.removeprefix("\ufeff"), False
            yield text.encode("utf-8", "replace")
        yield decoder.decode(b"", final=True).encode("utf-8", "replace")

    return ByteStream(pieces(), label=encoding, close=stream.close, below=stream)


def _pieces(raw: BinaryIO) -> Iterator[bytes]:
    while piece := raw.read(CHUNK):
        yield piece


def _gzip(raw: BinaryIO) -> Iterator[bytes]:
    """Decode consecutive members; zero padding after the last member is allowed."""
    data = raw.read(CHUNK)
    while data:
        member = zlib.decompressobj(wbits=31)
        while not member.eof:
            data = data or raw.read(CHUNK)
            if not data:
                yield member.flush()
                raise Damaged("truncated {label}")
            yield from _inflate_pieces(member, data)
            data = member.unused_data
        data = _skip_padding(data, raw, b"\x1f\x8b")


def inflate(raw: BinaryIO) -> Generator[bytes, None, bytes]:
    """Decode a raw deflate stream, such as a zip member, up to its end.

    The generator returns the bytes that it read from `raw` beyond that end.
    """
    member = zlib.decompressobj(wbits=-15)
    while not member.eof:
        data = raw.read(CHUNK)
        if not data:
            yield member.flush()
            raise Damaged("truncated {label}")
        yield from _inflate_pieces(member, data)
    return member.unused_data


def _inflate_pieces(member: zlib._Decompress, data: bytes) -> Iterator[bytes]:
    """Decode `data` in bounded pieces, up to the last byte before any damage."""
    before, fed, given = member.copy(), data, 0
    while True:
        try:
            piece = member.decompress(data, CHUNK)
        except zlib.error:
            # The failed call discarded its output, so repeat it byte by byte.
            try:
                for i in range(len(fed)):
                    piece = before.decompress(fed[i : i + 1])
                    yield piece[max(0, given) :] if given < len(piece) else b""
                    given -= min(given, len(piece))
            except zlib.error:
                pass
            raise Damaged("damaged {label}") from None
        given += len(piece)
        yield piece
        data = member.unconsumed_tail
        if member.eof or (not data and len(piece) < CHUNK):
            return


def _skip_padding(data: bytes, raw: BinaryIO, magic: bytes) -> bytes:
    """Skip zero padding after a finished stream. Anything but another stream is damage."""
    while True:
        data = data.lstrip(b"\0")
        if len(data) >= len(magic):
            break
        more = raw.read(CHUNK)
        if not more:
            break
        data += more
    if data and not data.startswith(magic):
        if magic.startswith(data):
            raise Damaged("truncated {label}")
        raise Damaged("{label} followed by other data")
    return data


def _bz2(raw: BinaryIO) -> Iterator[bytes]:
    return _streams(raw, bz2.BZ2Decompressor, b"BZh")


def _xz(raw: BinaryIO) -> Iterator[bytes]:
    def new() -> _Inflater:
        return lzma.LZMADecompressor(format=lzma.FORMAT_XZ, memlimit=2 * _MAX_WINDOW)

    return _streams(raw, new, b"\xfd7zXZ\0")


def _streams(raw: BinaryIO, new: Callable[[], _Inflater], magic: bytes) -> Iterator[bytes]:
    """Decode the concatenated streams of bz2 or xz."""
    data = raw.read(CHUNK)
    while data:
        stream = new()
        while not stream.eof:
            if stream.needs_input:
                data = data or raw.read(CHUNK)
                if not data:
                    raise Damaged("truncated {label}")
            try:
                # In small steps, because a failed call discards its output.
                piece = stream.decompress(data, CHUNK // 8)
            except (OSError, lzma.LZMAError, ValueError):
                raise Damaged("damaged {label}") from None
            data = b""
            yield piece
        data = _skip_padding(stream.unused_data, raw, magic)


def _zstd(raw: BinaryIO) -> Iterator[bytes]:
    """Decode frame by frame to detect truncation, because Spark's event logs have hundreds of frames."""
    import zstandard

    context = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW)
    data = memoryview(raw.read(CHUNK))
    while data:
        frame = context.decompressobj()
        while not frame.eof:
            data = data or memoryview(raw.read(CHUNK))
            if not data:
                raise Damaged("truncated {label}")
            try:
                yield frame.decompress(data[:_ZSTD_PIECE])
            except zstandard.ZstdError:
                raise Damaged("damaged {label}") from None
            data = data[_ZSTD_PIECE:]
        data = memoryview(frame.unused_data + bytes(data)) or memoryview(raw.read(CHUNK))


def _lz4_frame(raw: BinaryIO) -> Iterator[bytes]:
    """Decode LZ4 frames, whose blocks can depend on each other, with Arrow's decoder."""
    import pyarrow as pa

    def reader() -> Callable[[int], bytes]:
        stream = pa.CompressedInputStream(pa.PythonFile(_NonClosing(raw), mode="r"), "lz4")
        return cast(Callable[[int], bytes], stream.read)

    read, given = reader(), 0
    try:
        while piece := read(CHUNK // 8):
            given += len(piece)
            yield piece
        return
    except (OSError, pa.ArrowException) as trouble:
        what = "truncated {label}" if "runcated" in str(trouble) else "damaged {label}"
    # The failed call discarded its output, so repeat it with single bytes.
    if raw.seekable():
        raw.seek(0)
        read = reader()
        try:
            while given:
                given -= len(read(min(given, CHUNK)))
            while byte := read(1):
                yield byte
        except (OSError, pa.ArrowException):
            pass
    raise Damaged(what)


class _NonClosing:
    """A wrapper whose file stays open when the wrapper is closed."""

    closed = False

    def __init__(self, raw: BinaryIO) -> None:
        self.read = raw.read

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        """Leave the file open."""


class _Blocks:
    """Reads exact numbers of bytes, for formats that consist of blocks with stated lengths."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw

    def take(self, size: int) -> bytes:
        """Read exactly `size` bytes; an implausible size means damage."""
        if not 0 <= size <= _MAX_BLOCK:
            raise Damaged("damaged {label}")
        data = self._read(size)
        if len(data) < size:
            raise Damaged("truncated {label}")
        return data

    def take_or_end(self, size: int) -> bytes:
        """Read exactly `size` bytes, or none at the end of the file."""
        data = self._read(size)
        if data and len(data) < size:
            raise Damaged("truncated {label}")
        return data

    def _read(self, size: int) -> bytes:
        parts, missing = [], size
        while missing and (data := self._raw.read(missing)):
            parts.append(data)
            missing -= len(data)
        return b"".join(parts)


def _decompress_snappy(block: bytes) -> bytes:
    import cramjam

    try:
        if cramjam.snappy.decompress_raw_len(block) > _MAX_BLOCK:
            raise Damaged("damaged {label}")
        return bytes(cramjam.snappy.decompress_raw(block))
    except (cramjam.DecompressionError, OSError, ValueError):
        raise Damaged("damaged {label}") from None


def _snappy_framed(raw: BinaryIO) -> Iterator[bytes]:
    """Decode the snappy framing format: chunks of type, 3-byte length, 4-byte checksum."""
    blocks = _Blocks(raw)
    while head := blocks.take_or_end(4):
        kind, body = head[0], blocks.take(int.from_bytes(head[1:], "little"))
        if kind == 0x00:
            yield _decompress_snappy(body[4:])
        elif kind == 0x01:
            yield body[4:]
        elif kind < 0x80:
            raise Damaged("damaged {label}")


def _snappy_java(raw: BinaryIO) -> Iterator[bytes]:
    """Decode snappy-java: a 16-byte header, then blocks that each follow a big-endian length."""
    blocks = _Blocks(raw)
    blocks.take(16)
    while head := blocks.take_or_end(4):
        if head == b"\x82SNA":  # another stream begins
            blocks.take(12)
            continue
        yield _decompress_snappy(blocks.take(int.from_bytes(head, "big")))


def _lz4_java(raw: BinaryIO) -> Iterator[bytes]:
    """Decode lz4-java's block streams, which may be concatenated; an empty block ends a stream."""
    import cramjam

    blocks = _Blocks(raw)
    ended = True
    while head := blocks.take_or_end(21):
        if not head.startswith(b"LZ4Block"):
            raise Damaged("damaged {label}")
        size = int.from_bytes(head[13:17], "little")
        body = blocks.take(int.from_bytes(head[9:13], "little"))
        ended = size == 0
        if head[8] & 0xF0 == 0x10:
            yield body
        elif size:
            if size > _MAX_BLOCK:
                raise Damaged("damaged {label}")
            try:
                yield bytes(cramjam.lz4.decompress_block(body, output_len=size))
            except (cramjam.DecompressionError, OSError, ValueError):
                raise Damaged("damaged {label}") from None
    if not ended:
        raise Damaged("truncated {label}")


def _lzf(raw: BinaryIO) -> Iterator[bytes]:
    """Decode LZF chunks: `ZV`, type, length and, if compressed, the uncompressed length."""
    blocks = _Blocks(raw)
    while head := blocks.take_or_end(5):
        if head[:2] != b"ZV" or head[2] > 1:
            raise Damaged("damaged {label}")
        size = int.from_bytes(head[3:5], "big")
        if head[2] == 0:
            yield blocks.take(size)
        else:
            blocks.take(2)
            yield _decompress_lzf(blocks.take(size))


def _decompress_lzf(block: bytes) -> bytes:
    """Decompress an LZF chunk, which consists of literal runs and copies of earlier output."""
    out, at = bytearray(), 0
    try:
        while at < len(block):
            control = block[at]
            at += 1
            if control < 32:
                out += block[at : at + control + 1]
                at += control + 1
                continue
            length = control >> 5
            if length == 7:
                length += block[at]
                at += 1
            start = len(out) - ((control & 31) << 8) - block[at] - 1
            at += 1
            if start < 0:
                raise Damaged("damaged {label}")
            for i in range(start, start + length + 2):  # a copy can overlap its own output
                out.append(out[i])
    except IndexError:
        raise Damaged("damaged {label}") from None
    return bytes(out)


CODECS: Final[tuple[Codec, ...]] = (
    Codec("gzip", (b"\x1f\x8b\x08",), _gzip),
    Codec("bz2", tuple(b"BZh%d1AY&SY" % n for n in range(1, 10)), _bz2),
    Codec("xz", (b"\xfd7zXZ\0",), _xz),
    # The other magic bytes are those of skippable frames, which parallel compressors write first.
    Codec(
        "zstd", (b"\x28\xb5\x2f\xfd", *(b"%c\x2a\x4d\x18" % n for n in range(0x50, 0x60))), _zstd
    ),
    Codec("lz4", (b"\x04\x22\x4d\x18",), _lz4_frame),
    Codec("snappy", (b"\xff\x06\0\0sNaPpY",), _snappy_framed),
    Codec("lz4-java", (b"LZ4Block",), _lz4_java),
    Codec("snappy-java", (b"\x82SNAPPY\0",), _snappy_java),
    Codec("lzf", (b"ZV\0", b"ZV\1"), _lzf),
)
"""All codecs, the most frequent first."""
