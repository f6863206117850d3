"""Compressed bytes in, plain bytes out: by magic bytes, in bounded pieces, never raising.

Every codec is a generator from an opened file to decoded pieces; `CODECS` lists them in one
place. A stream that ends too early or is damaged gives all that decodes before, and then says
so in `ByteStream.error`; reading it never raises for bad data. The formats of Spark's event
logs (lz4-java blocks, snappy-java, lzf) stand beside the common ones: catalogue, spark section 5.
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
"""Bytes read from a file, and at most given back by a decoder, in one go."""

MAGIC_BYTES: Final = 16
"""So many leading bytes are enough for `codec_of`."""

_MAX_BLOCK: Final = 64 * 1024 * 1024  # of formats that state a block's size: more is damage
_MAX_WINDOW: Final = 256 * 1024 * 1024  # zstd --long=28; beyond it memory would not be bounded
_BOMB_BYTES: Final = 1024 * 1024 * 1024
_BOMB_RATIO: Final = 1000  # logs shrink by ten, reports of metrics by a hundred
_ZSTD_PIECE: Final = 512  # its decoder has no output limit: these give 22 MB at the very most


class Damaged(Exception):
    """The stream is cut or broken: the message says which of the two, in two or three words."""


class _Inflater(Protocol):
    """What bz2's and lzma's decompressors share."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Codec:
    """One kind of compression: its name in `Source.codec`, how it begins, how it is undone."""

    name: str
    magic: tuple[bytes, ...]
    decode: Callable[[BinaryIO], Iterator[bytes]]


def codec_of(head: bytes) -> str:
    """Name the compression of a file that begins with `head`; `none` if it has none.

    >>> codec_of(bytes.fromhex("1f8b0800")), codec_of(b"2026-01-01 INFO")
    ('gzip', 'none')
    """
    for codec in CODECS:
        if head.startswith(codec.magic):
            return codec.name
    return "none"


class ByteStream(io.RawIOBase):
    """A readable, not seekable stream of pieces whose troubles end it instead of raising.

    `error` is None or one clause for the user, for example `truncated gzip after 4096 bytes`
    (decoded bytes), its own or that of the stream `below`. It is complete once the stream has
    been read to its end.
    """

    def __init__(
        self,
        pieces: Iterable[bytes],
        *,
        label: str = "stream",
        close: Callable[[], None] | None,
        below: ByteStream | None = None,
    ) -> None:
        """Read `pieces` as they are asked for; call `close` when the stream is closed."""
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
        """What went wrong so far, or None."""
        # What ended the stream below is the reason why this one found itself cut.
        return (self._below.error if self._below is not None else None) or self._error

    def readable(self) -> bool:
        """Tell `io` that this stream can be read."""
        return True

    def readinto(self, buffer: memoryview | bytearray) -> int:  # type: ignore[override]
        """Fill `buffer` completely, unless the stream ends first."""
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
        # The decoders turn what their libraries raise into Damaged; what is left is a size or
        # a type that no sane stream has.
        except (ValueError, EOFError, RuntimeError, MemoryError, OverflowError) as trouble:
            what = f"damaged ({type(trouble).__name__})"
        self._pieces = iter(())
        self.note(f"{what.format(label=self._label)} after {self._produced} bytes")
        return None

    def note(self, error: str) -> None:
        """Report a trouble that does not end the stream; the first one is kept."""
        if self._error is None:
            self._error = error

    def close(self) -> None:
        """Close the file below, too."""
        if not self.closed:
            self._pieces = iter(())
            if self._close is not None:
                self._close()
        super().close()


def open_file(path: str, *, expected: int | None = None) -> PlainFile | RemoteFile:
    """Open a local path or a URL; raises OSError."""
    if is_url(path):
        return RemoteFile(path, expected=expected)
    return PlainFile(path, expected=expected)


class PlainFile(io.FileIO):
    """An unbuffered file that ends, with `error` set, where reading it fails.

    `readinto` goes straight to the operating system. `expected` is the size seen earlier: a
    file found shorter at its end was cut while it was read, and `error` says so.
    """

    def __init__(self, path: str, *, expected: int | None = None) -> None:
        """Open `path` for reading."""
        super().__init__(path, "rb")
        self.error: str | None = None
        self._expected = expected

    def size(self) -> int:
        """Bytes of the file."""
        return os.fstat(self.fileno()).st_size

    def readinto(self, buffer: memoryview | bytearray) -> int:  # type: ignore[override]
        """Read what one system call gives: 0 bytes at the end and where reading fails."""
        try:
            count = super().readinto(buffer)
        except OSError as trouble:
            self._note(f"unreadable ({trouble.strerror or type(trouble).__name__})")
            return 0
        if not count and len(buffer):
            self._check_size()
        return count or 0

    def read(self, size: int | None = -1, /) -> bytes:
        """Read up to `size` bytes, or to the end."""
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
    """Decode `raw`, which stands at its beginning, with the codec of that name.

    Args:
        raw: the compressed bytes; read in pieces of `CHUNK`.
        codec: a name from `CODECS`, or `none`.
        close: called when the stream is closed; by default `raw.close`.

    Raises:
        KeyError: there is no codec of that name.
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
    """The pieces, as long as they are not out of all proportion to what they were packed in.

    Args:
        pieces: unpacked.
        taken: how many packed bytes they were made of.
    """
    given = 0
    for piece in pieces:
        given += len(piece)
        if given > _BOMB_BYTES and given > _BOMB_RATIO * taken():
            raise Damaged(
                f"{{label}} of more than {_BOMB_RATIO} times its size: not unpacked any further,"
            )
        yield piece


class _Counted:
    """A file that counts what is read of it."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self.taken = 0
        self.seek, self.seekable = raw.seek, raw.seekable

    def read(self, size: int = -1) -> bytes:
        """Read on."""
        data = self._raw.read(size)
        self.taken += len(data)
        return data


Stream = ByteStream | PlainFile | RemoteFile
"""What is read: decoded, or a file as it is."""


def open_decoded(path: str, codec: str) -> ByteStream:
    """Open a file and undo its compression; raises OSError where it cannot be opened."""
    return decode(cast(BinaryIO, open_file(path)), codec)


def read_first(stream: Stream | BinaryIO, count: int, head: bytes = b"") -> bytes:
    """The first bytes of a stream, of which `head` is read already."""
    # Reading allocates what it is asked for: ask for little.
    parts = [head]
    count -= len(head)
    while count > 0 and (part := stream.read(min(count, CHUNK))):
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def transcode(stream: ByteStream, encoding: str) -> ByteStream:
    """Turn a UTF-16 or UTF-32 stream into UTF-8, without its byte-order mark.

    What is not valid becomes U+FFFD. `error` is that of the stream below.
    """

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
    """Decode members one after the other; zero padding behind the last one is no damage."""
    data = raw.read(CHUNK)
    while data:
        member = zlib.decompressobj(wbits=31)
        while not member.eof:
            data = data or raw.read(CHUNK)
            if not data:
                yield member.flush()
                raise Damaged("truncated {label}")
            yield from _inflate(member, data)
            data = member.unused_data
        data = _skip_padding(data, raw, b"\x1f\x8b")


def deflated(raw: BinaryIO) -> Generator[bytes, None, bytes]:
    """Decode one raw deflate stream, as a zip member is, up to its end.

    The generator returns what was read of `raw` behind that end.
    """
    member = zlib.decompressobj(wbits=-15)
    while not member.eof:
        data = raw.read(CHUNK)
        if not data:
            yield member.flush()
            raise Damaged("truncated {label}")
        yield from _inflate(member, data)
    return member.unused_data


def _inflate(member: zlib._Decompress, data: bytes) -> Iterator[bytes]:
    """Decode `data` in bounded pieces; what a broken byte follows is decoded, too."""
    before, fed, given = member.copy(), data, 0
    while True:
        try:
            piece = member.decompress(data, CHUNK)
        except zlib.error:
            # The failing call has swallowed what it had decoded: repeat it byte by byte.
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
    """Skip zero bytes behind a finished stream; what follows must be another one or nothing."""
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
        raise Damaged("{label} followed by something else")
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
                # Small steps: a call that fails takes what it had decoded with it.
                piece = stream.decompress(data, CHUNK // 8)
            except (OSError, lzma.LZMAError, ValueError):
                raise Damaged("damaged {label}") from None
            data = b""
            yield piece
        data = _skip_padding(stream.unused_data, raw, magic)


def _zstd(raw: BinaryIO) -> Iterator[bytes]:
    """Decode frame by frame: Spark's event logs have hundreds, and only so a cut is noticed."""
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
    """Decode LZ4 frames, whose blocks may depend on each other, with Arrow's decoder."""
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
    # The failing call has swallowed what it had decoded: go there again and take single bytes.
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
    """Lends a file to somebody who closes what he is given."""

    closed = False

    def __init__(self, raw: BinaryIO) -> None:
        self.read = raw.read

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        """Leave the file open."""


class _Blocks:
    """Reads exact numbers of bytes of a format made of blocks with stated lengths."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw

    def take(self, size: int) -> bytes:
        """Read exactly `size` bytes; a stated length that no block has is damage."""
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


def _unsnap(block: bytes) -> bytes:
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
            yield _unsnap(body[4:])
        elif kind == 0x01:
            yield body[4:]
        elif kind < 0x80:
            raise Damaged("damaged {label}")


def _snappy_java(raw: BinaryIO) -> Iterator[bytes]:
    """Decode snappy-java: a 16-byte header, then blocks behind a big-endian length."""
    blocks = _Blocks(raw)
    blocks.take(16)
    while head := blocks.take_or_end(4):
        if head == b"\x82SNA":  # another stream begins
            blocks.take(12)
            continue
        yield _unsnap(blocks.take(int.from_bytes(head, "big")))


def _lz4_java(raw: BinaryIO) -> Iterator[bytes]:
    """Decode lz4-java's block stream; streams may be concatenated, an empty block ends one."""
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
    """Decode LZF chunks: `ZV`, type, length and, where compressed, the length before."""
    blocks = _Blocks(raw)
    while head := blocks.take_or_end(5):
        if head[:2] != b"ZV" or head[2] > 1:
            raise Damaged("damaged {label}")
        size = int.from_bytes(head[3:5], "big")
        if head[2] == 0:
            yield blocks.take(size)
        else:
            blocks.take(2)
            yield _unlzf(blocks.take(size))


def _unlzf(block: bytes) -> bytes:
    """Undo one LZF chunk: runs of literals and copies of earlier output."""
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
            for i in range(start, start + length + 2):  # may reach into what it writes
                out.append(out[i])
    except IndexError:
        raise Damaged("damaged {label}") from None
    return bytes(out)


CODECS: Final[tuple[Codec, ...]] = (
    Codec("gzip", (b"\x1f\x8b\x08",), _gzip),
    Codec("bz2", tuple(b"BZh%d1AY&SY" % n for n in range(1, 10)), _bz2),
    Codec("xz", (b"\xfd7zXZ\0",), _xz),
    # The second family are skippable frames, which parallel compressors put first.
    Codec(
        "zstd", (b"\x28\xb5\x2f\xfd", *(b"%c\x2a\x4d\x18" % n for n in range(0x50, 0x60))), _zstd
    ),
    Codec("lz4", (b"\x04\x22\x4d\x18",), _lz4_frame),
    Codec("snappy", (b"\xff\x06\0\0sNaPpY",), _snappy_framed),
    Codec("lz4-java", (b"LZ4Block",), _lz4_java),
    Codec("snappy-java", (b"\x82SNAPPY\0",), _snappy_java),
    Codec("lzf", (b"ZV\0", b"ZV\1"), _lzf),
)
"""Every codec that is understood, the frequent ones first."""
