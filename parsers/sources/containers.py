"""Zip and tar archives: what their members are called, and the stream of one of them.

Members of tar archives and of containers within containers are copied to a private temporary directory,
since they can be read but once; it is removed when the process ends. What a hostile archive calls its
members is shown, and never used as a path.
"""

from __future__ import annotations

import functools
import lzma
import os
import re
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import BinaryIO, Final, cast

from flowdiag.parsers import cleanup
from flowdiag.parsers.errors import no_temporary_space
from flowdiag.parsers.sources import codecs, remote

TAR_BLOCK: Final = 512
COPIED: Final = 4 * 1024  # at once: what fails in the middle of a read is lost
ZIP_MAGIC: Final = (b"PK\x03\x04", b"PK\x05\x06")


def is_tar(head: bytes) -> bool:
    """Whether this is the first block of a tar archive, of any age."""
    if len(head) < TAR_BLOCK or not head[0]:
        return False
    try:
        tarfile.TarInfo.frombuf(head[:TAR_BLOCK], "utf-8", "surrogateescape")
    except (tarfile.TarError, ValueError):
        return False
    return True


def is_container(path: str) -> bool:
    """Whether a file is a zip or tar archive, compressed or not."""
    with codecs.open_file(path) as file:
        head = file.read(TAR_BLOCK)
    codec = codecs.codec_of(head)
    if codec != "none":
        with codecs.open_decoded(path, codec) as stream:
            head = codecs.read_first(stream, TAR_BLOCK)
    return head.startswith(ZIP_MAGIC) or is_tar(head)


def open_member(path: str, member: str, codec: str) -> codecs.ByteStream:
    """Open a member of a zip archive; raises OSError with a clause for the user."""
    try:
        container = _zip(path, *_state_of(path))
        info = container.getinfo(member)
        if info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            pieces = _member_pieces(path, info)
        else:
            pieces = _odd_member_pieces(container, info)
    except (zipfile.BadZipFile, KeyError, ValueError):
        raise OSError("the zip archive is damaged or has changed") from None
    except (NotImplementedError, RuntimeError):
        raise OSError("a member compressed by a method that is not known") from None
    pieces = codecs.limit_expansion(pieces, lambda: info.compress_size)
    stream = codecs.ByteStream(pieces, label="zip member", close=None)
    return stream if codec == "none" else codecs.decode(cast(BinaryIO, stream), codec)


@functools.lru_cache(maxsize=2)
def _zip(path: str, mtime_ns: int, size: int) -> zipfile.ZipFile:
    """The opened container: reading its directory again for each member would be quadratic."""
    if remote.is_url(path):
        return zipfile.ZipFile(cast(BinaryIO, codecs.open_file(path)))
    return zipfile.ZipFile(path)


def _state_of(path: str) -> tuple[int, int]:
    """What changes when a file does: its time of modification, where it is known, and its size."""
    if remote.is_url(path):
        with codecs.open_file(path) as file:
            return 0, file.size()
    status = os.stat(path)
    return status.st_mtime_ns, status.st_size


def _member_pieces(path: str, info: zipfile.ZipInfo) -> Iterator[bytes]:
    """Decode a member by hand: Python's reader keeps back what stands before a damage."""
    with codecs.open_file(path) as file:
        file.seek(info.header_offset)
        head = file.read(_LOCAL_HEADER.size)
        if len(head) < _LOCAL_HEADER.size or not head.startswith(ZIP_MAGIC):
            raise codecs.Damaged("damaged {label}")
        *_, name_length, extra_length = _LOCAL_HEADER.unpack(head)
        file.seek(name_length + extra_length, os.SEEK_CUR)
        raw = cast(BinaryIO, file)
        stored = info.compress_type == zipfile.ZIP_STORED
        check, size = 0, 0
        for piece in _stored(raw, info.compress_size) if stored else codecs.deflated(raw):
            check = zlib.crc32(piece, check)
            size += len(piece)
            yield piece
    if check != info.CRC or size != info.file_size:
        raise codecs.Damaged("damaged {label}")


def _odd_member_pieces(container: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
    file = container.open(info)

    def pieces() -> Iterator[bytes]:
        with file:
            try:
                while piece := file.read(COPIED):
                    yield piece
            except EOFError:
                raise codecs.Damaged("truncated {label}") from None
            except (zipfile.BadZipFile, zlib.error, lzma.LZMAError):
                raise codecs.Damaged("damaged {label}") from None

    return pieces()


def _stored(raw: BinaryIO, size: int) -> Iterator[bytes]:
    while size > 0:
        piece = raw.read(min(size, codecs.CHUNK))
        if not piece:
            raise codecs.Damaged("truncated {label}")
        size -= len(piece)
        yield piece


_LOCAL_HEADER: Final = struct.Struct("<4s5H3I2H")


def members_in_order(file: BinaryIO) -> Iterator[tuple[str, Callable[[int], bytes | None]]]:
    """The members of a zip archive by the headers in front of them, as far as they go."""
    at = 0
    while True:
        file.seek(at)
        head = file.read(_LOCAL_HEADER.size)
        if len(head) < _LOCAL_HEADER.size or not head.startswith(b"PK\x03\x04"):
            return
        _, _, flags, method, *_, packed, _, name_length, extra_length = _LOCAL_HEADER.unpack(head)
        name = file.read(name_length).decode("utf-8" if flags & 0x800 else "cp437", "replace")
        at += _LOCAL_HEADER.size + name_length + extra_length
        file.seek(at)
        # Written as a stream: the sizes follow the data, which itself tells where it ends.
        unknown = bool(flags & 8) or packed == 0xFFFFFFFF
        if flags & 1 or method not in (0, 8) or (unknown and method == 0):
            return
        behind = [b""]
        if method == 0:
            pieces = _stored(file, packed)
        else:
            pieces = _remember(codecs.deflated(file), behind)
        pieces = codecs.limit_expansion(pieces, functools.partial(_read_since, file, at))
        stream = codecs.ByteStream(pieces, label="zip member", close=None)
        if not name.endswith("/"):
            yield name, stream.read
        while stream.read(codecs.CHUNK):
            pass
        if stream.error is not None:
            return
        if unknown:
            at = file.tell() - len(behind[0])
            at += _descriptor_length(behind[0] + file.read(32))
        else:
            at += packed


def _read_since(file: BinaryIO, begin: int) -> int:
    return file.tell() - begin


def _remember(pieces: Generator[bytes, None, bytes], behind: list[bytes]) -> Iterator[bytes]:
    behind[0] = yield from pieces


def _descriptor_length(data: bytes) -> int:
    """How many bytes of sizes and checksum stand before the next header."""
    found = re.search(rb"PK(?:\x03\x04|\x01\x02)", data[4:32], re.DOTALL)
    return found.start() + 4 if found else len(data)


_private: list[str] = []
_remove: list[Callable[[], None]] = []


def _private_directory() -> str:
    """A directory that only this user can enter, removed when the process ends; where it is killed, by the next one."""
    if not _private:
        folder, forget = cleanup.private_folder("flowdiag-")
        lock = cleanup.lock_folder(folder)
        forget_lock = cleanup.at_exit(lock.close)

        def remove() -> None:
            lock.close()
            cleanup.remove_folder(folder)
            forget()
            forget_lock()

        _private.append(str(folder))
        _remove.append(remove)
    return _private[0]


def remove_copies() -> None:
    """Remove what was unpacked so far; nothing that was found before can be read after it."""
    for remove in _remove:
        remove()
    _private.clear()
    _remove.clear()


def is_private(path: str) -> bool:
    """Whether a path is a copy made here, which no other machine can read."""
    return any(path.startswith(folder + os.sep) for folder in _private)


_HARMLESS: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,200}")


def copy_location(member: str, folders: dict[str, str]) -> tuple[str, str]:
    """Where the copy of a member goes: those of one folder of a container lie together, and alone.

    Args:
        member: its name in the container.
        folders: the private folder for each folder of the container so far; a new one is added.

    Returns:
        the private folder, and the name in it; empty where the member's own could do harm.
    """
    folder, _, name = member.rpartition("/")
    if folder not in folders:
        folders[folder] = tempfile.mkdtemp(dir=_private_directory())
    return folders[folder], name if _HARMLESS.fullmatch(name) else ""


def spool(
    read: Callable[[int], bytes | None], head: bytes = b"", place: tuple[str, str] = ("", "")
) -> str:
    """Copy a stream to a private file, behind `head`; raises what reading raises.

    Raises:
        FlowdiagError: there is no room for it.

    Args:
        read: gives the stream.
        head: what was read of it already.
        place: folder and name of the copy; any name where it is empty or taken.
    """
    folder, name = place
    with _in_temporary_room():
        folder = folder or _private_directory()
        path = os.path.join(folder, name)
        if not name or os.path.lexists(path):
            handle, path = tempfile.mkstemp(dir=folder)
            os.close(handle)
        copy = open(path, "wb")  # noqa: SIM115 - what fails to be read is told apart
    try:
        try:
            data = head or read(COPIED)
            while data:
                with _in_temporary_room():
                    copy.write(data)
                data = read(COPIED)
        finally:
            with _in_temporary_room():
                copy.close()
    except BaseException:
        os.unlink(path)
        raise
    return path


@contextmanager
def _in_temporary_room() -> Iterator[None]:
    """A full disk is no fault of the input, which would be judged by the half that found room."""
    try:
        yield
    except OSError as error:
        raise no_temporary_space(error) from error


def members_overlap(infos: Iterable[zipfile.ZipInfo]) -> bool:
    """Whether members of a zip archive lie on top of each other, so that the same bytes are many members."""
    places = sorted((info.header_offset, info.compress_size) for info in infos)
    return any(
        begin + _LOCAL_HEADER.size + size > after for (begin, size), (after, _) in pairwise(places)
    )


class MemberReader:
    """Reads up to where a member is damaged, and remembers whether it is."""

    def __init__(self, read: Callable[[int], bytes | None]) -> None:
        """Read by this."""
        self._read = read
        self.cut = False

    def __call__(self, size: int) -> bytes:
        """The next bytes; none behind a damage."""
        try:
            return self._read(size) or b""
        except (tarfile.TarError, EOFError, ValueError):
            self.cut = True
            return b""
