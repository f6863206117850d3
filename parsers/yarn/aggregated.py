"""Reads the files that YARN's log aggregation writes, one per NodeManager, in the formats TFile and IndexedFile.

A TFile is a sequence of blocks with an index at the end of the file. The key of each record is a container ID. The
value contains the log files of the container, each after its name and size. If a NodeManager did not finish the file,
there is no index, but uncompressed records are readable from the start.

An IndexedFile contains the log files one after the other. Near its end, a serialized Java object lists them. The file
starts and ends with the same separator: a UUID, or in newer versions the SHA-256 of the application ID.

Sources: Hadoop's `BCFile`, `TFile`, `AggregatedLogFormat` and `LogAggregationIndexedFileController`.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final

from flowdiag.parsers.sources.codecs import CHUNK, Damaged

TFILE_MAGIC: Final = bytes.fromhex("d111d36891b5d7b639df414092bae150")
_UUID: Final = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_UUID_BYTES: Final = 36
_HASH_BYTES: Final = 32
_CONTAINER: Final = re.compile(r"container_(?:e\d{1,9}_)?\d{1,19}_\d{1,9}_\d{1,9}_\d{1,12}")
_INDEX_BYTES: Final = 16 * 1024 * 1024
_TEXT_BYTES: Final = 64 * 1024

Member = tuple[str, Callable[[int], bytes]]
"""`CONTAINER/FILE`, and a function that reads the file."""


def is_aggregated_log(file: BinaryIO, head: bytes, size: int) -> bool:
    """Return whether a file that starts with `head` contains aggregated logs of containers."""
    length = _separator_length(head)
    if not length or size < 2 * length + 4:
        return head.startswith(TFILE_MAGIC)
    place = file.tell()
    file.seek(size - length)
    found = file.read(length) == head[:length]
    file.seek(place)
    return found or head.startswith(TFILE_MAGIC)


def _separator_length(head: bytes) -> int:
    """Return the length of the separator, if an IndexedFile can start like this, or 0 for other files."""
    if _UUID.match(head):
        return _UUID_BYTES
    return 0 if head[:_HASH_BYTES].isascii() else _HASH_BYTES


def members(file: BinaryIO, head: bytes, size: int) -> Iterator[Member]:
    """Yield the log files in an aggregated file. Each must be read before the next is requested.

    Raises:
        Damaged: the file ends early, or its index is invalid.
        OSError: the file cannot be read.
    """
    try:
        if head.startswith(TFILE_MAGIC):
            yield from _tfile_members(file, size)
        else:
            yield from _indexed_members(file, size - _separator_length(head))
    except (
        struct.error,
        LookupError,
        TypeError,
        AttributeError,
        ValueError,
        OverflowError,
    ) as error:
        raise Damaged(f"damaged aggregated log ({type(error).__name__})") from None


def _member(container: str, name: str, read: Callable[[int], bytes]) -> Member:
    safe = name.replace("/", "_").replace("\\", "_") or "log"
    return f"{container}/{safe}", read


# --- TFile ----------------------------------------------------------------------------------------


def _tfile_members(file: BinaryIO, size: int) -> Iterator[Member]:
    index = _block_index(file, size)
    if index is None:
        file.seek(len(TFILE_MAGIC))
        yield from _records(_Reader(_pieces(file, size - len(TFILE_MAGIC))))
        raise Damaged("truncated aggregated log")
    algorithm, blocks = index
    for begin, length in blocks:
        file.seek(begin)
        yield from _records(_Reader(_decode_pieces(file, length, algorithm)))


def _block_index(file: BinaryIO, size: int) -> tuple[str, list[tuple[int, int]]] | None:
    """Return the compression and the positions of the data blocks, or None without an index."""
    trailer = 8 + 4 + len(TFILE_MAGIC)
    if size < len(TFILE_MAGIC) + trailer:
        return None
    file.seek(size - trailer)
    end = file.read(trailer)
    begin = struct.unpack(">q", end[:8])[0]
    if not end.endswith(TFILE_MAGIC) or not 0 < begin < size or size - begin > _INDEX_BYTES:
        return None
    file.seek(begin)
    places = _Reader(_pieces(file, size - begin - trailer))
    for _ in range(places.number()):
        name, algorithm = places.text(places.number()), places.text(places.number())
        begin, length, _ = (places.number() for _ in range(3))
        if name == "data:BCFile.index":
            file.seek(begin)
            listed = _Reader(_decode_pieces(file, length, algorithm))
            algorithm = listed.text(listed.number())
            count = listed.number()
            blocks = [[listed.number() for _ in range(3)] for _ in range(min(count, 1 << 20))]
            # Overlapping blocks could be read many times.
            if sum(max(length, 0) for _, length, _ in blocks) > size:
                raise Damaged("damaged aggregated log")
            return algorithm, [(place, length) for place, length, _ in blocks]
    return None


def _records(block: _Reader) -> Iterator[Member]:
    """Yield the log files of the records in a block."""
    while not block.at_end():
        key = _Reader(iter([block.take(block.number())]))
        container = key.text(key.unsigned(2))
        value = _Reader(_chunks(block))
        if _CONTAINER.fullmatch(container):
            while not value.at_end():
                name = value.text(value.unsigned(2))
                length = int(value.text(value.unsigned(2)))
                body = _Limited(value, length)
                yield _member(container, name, body.read)
                body.skip()
        value.skip()


def _chunks(block: _Reader) -> Iterator[bytes]:
    """Yield the parts of a value; a negative length means that more parts follow."""
    last = False
    while not last:
        length = block.number()
        last, left = length >= 0, abs(length)
        while left:
            piece = block.read_some(left)
            left -= len(piece)
            yield piece


# --- IndexedFile ----------------------------------------------------------------------------------


def _indexed_members(file: BinaryIO, size: int) -> Iterator[Member]:
    end = size - 4
    file.seek(end)
    length = struct.unpack(">i", file.read(4))[0]
    if not 0 < length <= min(end, _INDEX_BYTES):
        raise Damaged("truncated aggregated log")
    file.seek(end - length)
    index = JavaObjects(file.read(length)).read()
    algorithm = str(index["compressName"])
    for cycle in index["logMetas"]:
        for listed in cycle["logMetas"].values():
            for meta in listed or ():
                if _CONTAINER.fullmatch(str(meta["containerId"])):
                    file.seek(meta["startIndex"])
                    body = _Reader(_decode_pieces(file, meta["fileCompressedSize"], algorithm))
                    limited = _Limited(body, meta["fileSize"])
                    yield _member(meta["containerId"], str(meta["fileName"]), limited.read)
                    limited.skip()


# --- Bytes ----------------------------------------------------------------------------------------


def _pieces(file: BinaryIO, length: int) -> Iterator[bytes]:
    while length > 0:
        piece = file.read(min(length, CHUNK))
        if not piece:
            raise Damaged("truncated aggregated log")
        length -= len(piece)
        yield piece


def _decode_pieces(file: BinaryIO, length: int, algorithm: str) -> Iterator[bytes]:
    if algorithm == "none":
        yield from _pieces(file, length)
    elif algorithm == "gz":
        inflater = zlib.decompressobj()
        for piece in _pieces(file, length):
            try:
                while piece:
                    yield inflater.decompress(piece, CHUNK)
                    piece = inflater.unconsumed_tail
            except zlib.error:
                raise Damaged("damaged aggregated log") from None
    else:
        raise Damaged(f"aggregated log with unsupported compression '{algorithm[:20]}'")


class _Reader:
    """Reads numbers, texts and bytes from an iterator of pieces."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._rest = pieces, b""

    def at_end(self) -> bool:
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return True
            self._rest = piece
        return False

    def read_some(self, most: int) -> bytes:
        """Return between one and `most` bytes."""
        if self.at_end():
            raise Damaged("truncated aggregated log")
        piece, self._rest = self._rest[:most], self._rest[most:]
        return piece

    def take(self, count: int) -> bytes:
        if not 0 <= count <= _TEXT_BYTES:
            raise Damaged("damaged aggregated log")
        parts = bytearray()
        while len(parts) < count:
            parts += self.read_some(count - len(parts))
        return bytes(parts)

    def skip(self) -> None:
        while not self.at_end():
            self._rest = b""

    def unsigned(self, count: int) -> int:
        return int.from_bytes(self.take(count))

    def text(self, length: int) -> str:
        return self.take(length).decode("utf-8", "replace")

    def number(self) -> int:
        """Read a number in TFile's variable-length format (Hadoop's `Utils.readVLong`)."""
        first = int.from_bytes(self.take(1), signed=True)
        if first >= -32:
            return first
        group = (first + 128) // 8
        if group >= 7:
            return (first + 52) << 8 | self.unsigned(1)
        if group >= 3:
            return (first + 88) << 16 | self.unsigned(2)
        if group >= 1:
            return (first + 112) << 24 | self.unsigned(3)
        return int.from_bytes(self.take(first + 129), signed=True)


class _Limited:
    """A part of a stream. It ends early at any damage, which `skip` reports."""

    def __init__(self, stream: _Reader, length: int) -> None:
        if length < 0:
            raise Damaged("damaged aggregated log")
        self._stream, self._left = stream, length
        self._damage: Damaged | None = None

    def read(self, most: int) -> bytes:
        if not self._left:
            return b""
        try:
            piece = self._stream.read_some(min(most, self._left))
        except Damaged as damage:
            self._damage, self._left = damage, 0
            return b""
        self._left -= len(piece)
        return piece

    def skip(self) -> None:
        while self.read(CHUNK):
            pass
        if self._damage is not None:
            raise self._damage


# --- Java serialization ---------------------------------------------------------------------------

_PRIMITIVES: Final = {"B": 1, "C": 2, "D": 8, "F": 4, "I": 4, "J": 8, "S": 2, "Z": 1}
_DEPTH: Final = 60
_END: Final = object()


@dataclass(slots=True)
class _Class:
    name: str
    flags: int
    fields: list[tuple[str, str]] = field(default_factory=list)  # type and name
    parent: _Class | None = None

    def class_hierarchy(self) -> list[_Class]:
        """Return the class hierarchy from the topmost class to this class."""
        found: list[_Class] = []
        at: _Class | None = self
        while at is not None:
            if len(found) == _DEPTH:
                raise ValueError("too many parents, or a class that is its own parent")
            found.append(at)
            at = at.parent
        return found[::-1]


class JavaObjects:
    """Reads serialized Java objects as dictionaries of their fields; maps and lists become dictionaries and lists.

    Nothing but dictionaries, lists, texts and numbers is created, so untrusted data is safe to read.
    """

    def __init__(self, data: bytes) -> None:
        """Prepare to read a stream, which must start with its header."""
        self._data, self._at = data, 0
        self._known: list[Any] = []
        if self._bytes(4) != b"\xac\xed\0\5":
            raise ValueError("no Java objects")

    def read(self, depth: int = _DEPTH) -> Any:
        """Read the next object.

        Raises:
            ValueError: the data is damaged or too deeply nested.
            IndexError: the data ends early.
        """
        if depth == 0:
            raise ValueError("nested too deeply")
        code = self._bytes(1)[0]
        if code == 0x70:
            return None
        if code == 0x71:
            return self._known[self._number(4) - 0x7E0000]
        if code == 0x78:
            return _END
        if code in (0x74, 0x7C):
            return self._remember(self._text(2 if code == 0x74 else 8))
        if code == 0x77:
            return self._bytes(self._number(1))
        if code == 0x72:
            return self._class(depth)
        if code == 0x76:
            return self._remember(self._class_description(depth))
        if code == 0x73:
            return self._object(depth)
        if code == 0x7E:
            self._class_description(depth)
            self._known.append(None)
            place = len(self._known) - 1
            self._known[place] = self.read(depth - 1)
            return self._known[place]
        raise ValueError("unknown Java object")

    def _class(self, depth: int) -> _Class:
        name = self._text(2)
        self._bytes(8)
        found = _Class(name, 0)
        self._known.append(found)
        found.flags = self._number(1)
        for _ in range(self._number(2)):
            kind, name = chr(self._number(1)), self._text(2)
            if kind in "[L":
                self.read(depth - 1)
            found.fields.append((kind, name))
        while self.read(depth - 1) is not _END:
            pass
        found.parent = self._class_description(depth)
        return found

    def _class_description(self, depth: int) -> _Class | None:
        found = self.read(depth - 1)
        if found is not None and not isinstance(found, _Class):
            raise ValueError("no description of a class")
        return found

    def _object(self, depth: int) -> Any:
        described = self._class_description(depth)
        if described is None:
            raise ValueError("an object without a class")
        found: dict[str, Any] = self._remember({})
        place = len(self._known) - 1
        content: list[Any] = []
        for each in described.class_hierarchy():
            for kind, name in each.fields:
                value = self._value(kind, depth)
                found.setdefault(name, value)
            if each.flags & 1:
                while (item := self.read(depth - 1)) is not _END:
                    content.append(item)
        objects = [item for item in content if not isinstance(item, bytes)]
        if described.name.endswith("Map"):
            pairs = dict(zip(objects[::2], objects[1::2], strict=False))
            found.clear()
            found.update(pairs)
        elif described.name.endswith("List"):
            self._known[place] = objects
            return objects
        return found

    def _value(self, kind: str, depth: int) -> Any:
        size = _PRIMITIVES.get(kind)
        if size is None:
            return self.read(depth - 1)
        return int.from_bytes(self._bytes(size), signed=True)

    def _remember(self, value: Any) -> Any:
        self._known.append(value)
        return value

    def _number(self, size: int) -> int:
        return int.from_bytes(self._bytes(size))

    def _text(self, size: int) -> str:
        return self._bytes(self._number(size)).decode("utf-8", "replace")

    def _bytes(self, count: int) -> bytes:
        found = self._data[self._at : self._at + count]
        if len(found) < count:
            raise IndexError
        self._at += count
        return found
