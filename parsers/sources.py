"""What the user points at, as a list of sources that can be read one after the other.

`discover` walks files, directories, globs and standard input, looks into containers, and says
for every file it finds what it is, or why it is not read. `open_source` gives the decoded
stream of one of them. Both know nothing of what the lines mean.
"""

from __future__ import annotations

import atexit
import glob
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Final, cast

from flowdiag.parsers import codecs
from flowdiag.parsers.sniff import HEAD_BYTES, Sniffed, sniff

STDIN: Final = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One file, container member or spooled stream, and what it was found to be."""

    index: int  # position in the input list, = EVENTS.source
    name: str  # what the user sees: path as given, `archive.zip!member`, `-`
    path: str  # what is opened (standard input is spooled to a private temporary file)
    member: str | None  # member of a zip or tar container
    codec: str  # none or a name from codecs.CODECS, by magic bytes
    encoding: str  # utf-8 | utf-16-le | utf-16-be | latin-1
    size: int  # bytes on disk; of a member, when unpacked
    kind: str  # log | json-lines | document | rest | archive | not-read
    engine: str  # flink | spark | unknown
    role: str  # jobmanager | taskmanager | client | driver | executor | mixed | unknown
    group: str  # name without rolling suffix: files of one process share it
    url: str | None  # for rest files: the REST path it answers if known
    splittable: bool  # plain bytes that can be cut at any byte
    reason: str | None  # why it is not read: one clause for the user


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """What was found, and what could not be looked at: one clear line each."""

    sources: tuple[Source, ...]
    warnings: tuple[str, ...]
    errors: tuple[str, ...]


def discover(paths: Sequence[str]) -> Discovery:
    """Find every file below `paths` and say what it is."""
    found: list[Source] = []
    errors: list[str] = []
    warnings: list[str] = []
    for given in paths:
        if given == STDIN:
            path = _spool(sys.stdin.buffer)
            found.append(_look(len(found), STDIN, path))
        elif os.path.isdir(given):
            for path in _walk(given):
                found.append(_look(len(found), path, path))
        elif os.path.exists(given):
            found.append(_look(len(found), given, given))
        elif matches := sorted(glob.glob(given, recursive=True)):
            for path in matches:
                if not os.path.isdir(path):
                    found.append(_look(len(found), path, path))
        else:
            errors.append(f"{given}: no such file or directory")
    return Discovery(sources=tuple(found), warnings=tuple(warnings), errors=tuple(errors))


def _walk(top: str) -> Iterator[str]:
    for folder, folders, files in os.walk(top):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (os.path.join(folder, name) for name in sorted(files) if name[0] != ".")


def _look(index: int, name: str, path: str) -> Source:
    codec, size = "none", 0
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            verdict = Sniffed(kind="not-read", reason="not a regular file")
        else:
            size = status.st_size
            with open(path, "rb", buffering=0) as file:
                codec = codecs.codec_of(file.read(codecs.MAGIC_BYTES))
                file.seek(0)
                verdict = sniff(codecs.decode(cast(BinaryIO, file), codec).read(HEAD_BYTES) or b"")
    except OSError as trouble:
        verdict = Sniffed(kind="not-read", reason=f"unreadable: {trouble.strerror}")
    return Source(
        index=index,
        name=name,
        path=path,
        member=None,
        codec=codec,
        encoding=verdict.encoding,
        size=size,
        kind=verdict.kind,
        engine=verdict.engine,
        role=verdict.role,
        group=name,
        url=verdict.url,
        splittable=verdict.kind in ("log", "json-lines") and codec == "none",
        reason=verdict.reason,
    )


def open_source(source: Source) -> BinaryIO:
    """Open the decoded stream; read it to its end, then ask `stream_error`."""
    if source.codec == "none":
        return cast(BinaryIO, codecs.PlainFile(source.path, expected=source.size))
    raw = cast(BinaryIO, codecs.PlainFile(source.path))
    return cast(BinaryIO, codecs.decode(raw, source.codec))


def stream_error(stream: BinaryIO) -> str | None:
    """What went wrong while a stream of `open_source` was read: one clause, or None."""
    return cast("str | None", getattr(stream, "error", None))


_private: list[str] = []


def _spool(stream: Iterable[bytes] | BinaryIO) -> str:
    if not _private:
        _private.append(tempfile.mkdtemp(prefix="flowdiag-"))
        atexit.register(shutil.rmtree, _private[0], ignore_errors=True)
    handle, path = tempfile.mkstemp(dir=_private[0])
    with open(handle, "wb") as copy:
        shutil.copyfileobj(cast(BinaryIO, stream), copy)
    return path
