"""Opens members of zip and tar archives.

Members of tar archives and of nested containers are copied to a private temporary directory, because they
can be read only once. The directory is removed when the process ends. Member names from a hostile archive are
displayed, but never used as paths.
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
COPIED: Final = 4 * 1024  # bytes per read; small, because a failed read loses its data
ZIP_MAGIC: Final = (b"PK\x03\x04", b"PK\x05\x06")


def is_tar(head: bytes) -> bool:
    """Return whether `head` is the first block of a tar archive of any version."""
    if len(head) < TAR_BLOCK or not head[0]:
        return False
    try:
        tarfile.TarInfo.frombuf(head[:TAR_BLOCK], "utf-8", "surrogateescape")
    except (tarfile.TarError, ValueError):
        return False
    return True


def is_container(path: str) -> bool:
    """Return whether a file is a zip or tar archive, compressed or not."""
    with codecs.open_file(path) as file:
        head = file.read(TAR_BLOCK)
    codec = codecs.codec_of(head)
    if codec != "none":
        with codecs.open_decoded(path, codec) as stream:
            head = codecs.read_first(stream, TAR_BLOCK)
    return head.startswith(ZIP_MAGIC) or is_tar(head)


def open_member(path: str, member: str, codec: str) -> codecs.ByteStream:
    """Open a member of a zip archive; raises OSError, whose message is a clause for the user."""
    try:
        container = _zip(path, *_state_of(path))
        info = container.getinfo(member)
        if info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            pieces = _member_pieces(path, info)
        else:
            pieces = _pieces_of_rare_method(container, info)
    except (zipfile.BadZipFile, KeyError, ValueError):
        raise OSError("the zip archive is damaged or has changed") from None
    except (NotImplementedError, RuntimeError):
        raise OSError("a member with an unknown compression method") from None
    pieces = codecs.limit_expansion(pieces, lambda: info.compress_size)
    stream = codecs.ByteStream(pieces, label="zip member", close=None)
    return stream if codec == "none" else codecs.decode(cast(BinaryIO, stream), codec)


@functools.lru_cache(maxsize=2)
def _zip(path: str, mtime_ns: int, size: int) -> zipfile.ZipFile:
    """Open a container. Cached, because reading its directory for each member would take quadratic time."""
    if remote.is_url(path):
        return zipfile.ZipFile(cast(BinaryIO, codecs.open_file(path)))
    return zipfile.ZipFile(path)


def _state_of(path: str) -> tuple[int, int]:
    """Return the modification time (0 if unknown) and the size of a file, to detect changes."""
    if remote.is_url(path):
        with codecs.open_file(path) as file:
            return 0, file.size()
    status = os.stat(path)
    return status.st_mtime_ns, status.st_size


def _member_pieces(path: str, info: zipfile.ZipInfo) -> Iterator[bytes]:
    """Decode a member without Python's reader, which would discard data before any damage."""
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
        for piece in _read_stored(raw, info.compress_size) if stored else codecs.inflate(raw):
            check = zlib.crc32(piece, check)
            size += len(piece)
            yield piece
    if check != info.CRC or size != info.file_size:
        raise codecs.Damaged("damaged {label}")


def _pieces_of_rare_method(container: zipfile.ZipFile, info: zipfile.ZipInfo) -> Iterator[bytes]:
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


def _read_stored(raw: BinaryIO, size: int) -> Iterator[bytes]:
    while size > 0:
        piece = raw.read(min(size, codecs.CHUNK))
        if not piece:
            raise codecs.Damaged("truncated {label}")
        size -= len(piece)
        yield piece


_LOCAL_HEADER: Final = struct.Struct("<4s5H3I2H")


def members_in_order(file: BinaryIO) -> Iterator[tuple[str, Callable[[int], bytes | None]]]:
    """Yield the members of a zip archive from their local headers, up to the first damage."""
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
        # The archive was written as a stream: the sizes follow the data, which marks its own end.
        unknown = bool(flags & 8) or packed == 0xFFFFFFFF
        if flags & 1 or method not in (0, 8) or (unknown and method == 0):
            return
        behind = [b""]
        if method == 0:
            pieces = _read_stored(file, packed)
        else:
            pieces = _remember(codecs.inflate(file), behind)
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
    """Return the length of the data descriptor (checksum and sizes) before the next header."""
    found = re.search(rb"PK(?:\x03\x04|\x01\x02)", data[4:32], re.DOTALL)
    return found.start() + 4 if found else len(data)


_private: list[str] = []
_remove: list[Callable[[], None]] = []


def _private_directory() -> str:
    """Return a directory that only this user can access; it is removed at exit, or by a later process."""
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
    """Remove all copies. Sources that were copied can no longer be read."""
    for remove in _remove:
        remove()
    _private.clear()
    _remove.clear()


def is_private(path: str) -> bool:
    """Return whether a path is a temporary copy made by this process, which other hosts cannot read."""
    return any(path.startswith(folder + os.sep) for folder in _private)


_HARMLESS: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,200}")


def copy_location(member: str, folders: dict[str, str]) -> tuple[str, str]:
    """Return the folder and file name for the copy of a member. Each folder of the archive has its own folder.

    Args:
        member: name of the member in the container.
        folders: private folder of each folder in the container, to which new ones are added.

    Returns:
        The private folder, and the file name in it. The name is empty if the member's own name is unsafe.
    """
    folder, _, name = member.rpartition("/")
    if folder not in folders:
        folders[folder] = tempfile.mkdtemp(dir=_private_directory())
    return folders[folder], name if _HARMLESS.fullmatch(name) else ""


def spool(
    read: Callable[[int], bytes | None], head: bytes = b"", place: tuple[str, str] = ("", "")
) -> str:
    """Copy a stream to a private file, and return its path. Read errors propagate.

    Args:
        read: reads the stream.
        head: bytes that were already read.
        place: folder and name of the copy. If the name is empty or in use, a random name is used.

    Raises:
        FlowdiagError: the disk is full.
    """
    folder, name = place
    with _reporting_full_disk():
        folder = folder or _private_directory()
        path = os.path.join(folder, name)
        if not name or os.path.lexists(path):
            handle, path = tempfile.mkstemp(dir=folder)
            os.close(handle)
        copy = open(path, "wb")  # noqa: SIM115 - read errors and write errors are handled separately
    try:
        try:
            data = head or read(COPIED)
            while data:
                with _reporting_full_disk():
                    copy.write(data)
                data = read(COPIED)
        finally:
            with _reporting_full_disk():
                copy.close()
    except BaseException:
        os.unlink(path)
        raise
    return path


@contextmanager
def _reporting_full_disk() -> Iterator[None]:
    """Convert write errors to a user error, because a full disk is not the input's fault."""
    try:
        yield
    except OSError as error:
        raise no_temporary_space(error) from error


def members_overlap(infos: Iterable[zipfile.ZipInfo]) -> bool:
    """Return whether members of a zip archive overlap, that is, share the same bytes."""
    places = sorted((info.header_offset, info.compress_size) for info in infos)
    return any(
        begin + _LOCAL_HEADER.size + size > after for (begin, size), (after, _) in pairwise(places)
    )


class MemberReader:
    """Reads a member up to its end or the first damage, which sets `cut`."""

    def __init__(self, read: Callable[[int], bytes | None]) -> None:
        self._read = read
        self.cut = False

    def __call__(self, size: int) -> bytes:
        """Return the next bytes. Empty at the end and after damage."""
        try:
            return self._read(size) or b""
        except (tarfile.TarError, EOFError, ValueError):
            self.cut = True
            return b""
