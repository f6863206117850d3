"""What the user points at, as a list of sources that can be read one after the other.

`discover` walks files, directories, globs, URLs (`remote`) and standard input, looks into containers, and says
for every file it finds what it is, or why it is not read. `open_source` gives the decoded
stream of one of them. Neither knows what the lines mean.

Standard input, members of tar archives and of containers within containers are copied to a
private temporary directory, since they can be read but once; it is removed when the process
ends. What a hostile archive calls its members is shown, and never used as a path; only a harmless last
part of it names a copy, since saved answers are told apart by the names of the files beside them.
"""

from __future__ import annotations

import atexit
import functools
import glob
import io
import lzma
import os
import re
import shutil
import stat
import struct
import sys
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import BinaryIO, Final, cast

from flowdiag.parsers.envelopes import carriers as envelopes
from flowdiag.parsers.sniff.text import (
    DOCUMENT_BYTES,
    HEAD_BYTES,
    Sample,
    Sniffed,
    binary_reason,
    sniff,
)
from flowdiag.parsers.sources import codecs, remote
from flowdiag.parsers.sources.remote import RemoteFile
from flowdiag.parsers.sources.rolling import group_of

STDIN: Final = "-"
LINES: Final = ("log", "json-lines", "spark-events")
"""Kinds that are read line by line, and can be cut between any two."""

_NESTED: Final = 3  # containers within containers
_MEMBERS: Final = 20_000  # of one container
_PROBE: Final = 32 * 1024
_TAR_BLOCK: Final = 512
_COPIED: Final = 4 * 1024  # at once: what fails in the middle of a read is lost
_ZIP_MAGIC: Final = (b"PK\x03\x04", b"PK\x05\x06")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """What was found.

    Attributes:
        sources: every file, the unread ones too, in the order of the arguments and sorted by
            path within each; `sources[i].index == i`. Each real file is listed once.
        warnings: one line each about what could not be looked at or looks wrong.
        errors: one line for each argument of the user that gives nothing to read at all:
            it does not exist, matches nothing, or cannot be read.
        hidden: files and folders that were passed over since their names begin with a dot.
    """

    sources: tuple[Source, ...]
    warnings: tuple[str, ...]
    errors: tuple[str, ...]
    hidden: int = 0


def discover(paths: Sequence[str], *, stdin: BinaryIO | None = None) -> Discovery:
    """Find every file below `paths` and say what each is; never raises for what it finds.

    Args:
        paths: files, directories (read recursively), glob patterns, URLs of any of these, and `-`
            for standard input.
        stdin: what `-` reads; by default the standard input of the process.
    """
    search = _Search(stdin)
    for path in paths:
        search.add(path)
    return search.discovery()


def of_engine(discovery: Discovery, engine: str) -> Discovery:
    """The same sources, those of the other engine not read, since they are for another command.

    Args:
        discovery: what was found.
        engine: `flink` or `spark`: whose inputs are wanted. What may be either stays.
    """
    return replace(
        discovery, sources=tuple(_wanted(source, engine) for source in discovery.sources)
    )


def _wanted(source: Source, engine: str) -> Source:
    if engine == "flink":
        reason = {
            "spark-events": "Spark event log: read by `flowdiag rate`",
            "spark-rest": "an answer of Spark's REST interface: read by `flowdiag rate`",
        }.get(source.kind)
    else:
        reason = {
            "rest": "an answer of Flink's REST interface: read by `flowdiag checkpoints`",
            "prometheus": "metrics of Flink: read by `flowdiag checkpoints`",
            "archive": "an archive of Flink's History Server: read by `flowdiag checkpoints`",
        }.get(source.kind)
        if reason is None and source.engine == "flink" and source.kind != "not-read":
            reason = "a log of Flink: read by `flowdiag checkpoints`"
    if reason is None:
        unknown = source.engine == "unknown" and source.kind != "not-read"
        return replace(source, engine=engine) if unknown else source
    return replace(source, kind="not-read", reason=reason, splittable=False)


# -- finding ---------------------------------------------------------------------------------


@dataclass(slots=True)
class _Search:
    stdin: BinaryIO | None
    found: list[Source] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    hidden: int = 0
    files: set[tuple[int, int] | str] = field(default_factory=set)
    folders: set[tuple[int, int] | str] = field(default_factory=set)

    def add(self, given: str) -> None:
        """Add what one argument stands for."""
        if given == STDIN:
            self._add_stdin()
            return
        try:
            exists = os.path.lexists(given)
        except ValueError:  # a NUL character
            exists = False
        if not exists and given.startswith("~"):
            given = os.path.expanduser(given)
            exists = os.path.lexists(given)
        if exists:
            self._add_path(given)
        elif matches := self._glob(given):
            for match in matches:
                self._add_path(match)
        elif remote.is_url(given):
            self._add_url(given)
        elif glob.has_magic(given):
            self.errors.append(f"{_shown(given)}: no file matches")
        else:
            self.errors.append(f"{_shown(given)}: no such file or directory")

    def _glob(self, pattern: str) -> list[str]:
        try:
            return sorted(glob.glob(pattern, recursive=True)) if glob.has_magic(pattern) else []
        except (OSError, ValueError, re.error, RecursionError):
            return []

    def _add_url(self, given: str) -> None:
        path = remote.local_path(given)
        if path is not None:
            self.add(path)
            return
        name = _shown(remote.shown(given))
        try:
            found = remote.find(given)
        except OSError as trouble:
            self.errors.append(f"{name}: {_why(trouble)}")
            return
        if not found:
            self.warnings.append(f"{name}: no files in it")
        for file in found:
            if file.url in self.files:
                continue
            self.files.add(file.url)
            shown = _shown(remote.shown(file.url))
            try:
                self._look_into(shown, file.url)
            except OSError as trouble:
                complaints = self.errors if len(found) == 1 else self.warnings
                complaints.append(f"{shown}: {_why(trouble)}")
                self._put(_refused(shown, file.url, f"unreadable: {_why(trouble)}"))

    def _add_stdin(self) -> None:
        if STDIN in self.files:
            return
        self.files.add(STDIN)
        try:
            stream = self.stdin or sys.stdin.buffer
            path = _spool(stream.read)
        except (OSError, ValueError, AttributeError) as trouble:
            self.errors.append(f"standard input: {_why(trouble)}")
            return
        self._look_into(STDIN, path)

    def _add_path(self, path: str) -> None:
        before = len(self.found)
        if not os.path.isdir(path):
            self._add_file(path, self.errors)
            return
        visited = self._walk(path)
        new = self.found[before:]
        if not visited:
            self.warnings.append(f"{_shown(path)}: no files in it")
        elif new and all(source.kind == "not-read" for source in new):
            self.warnings.append(f"{_shown(path)}: none of its {len(new)} files is read")

    def _walk(self, top: str) -> int:
        """Visit the files below a folder, sorted; each real folder once, whatever links say."""
        pending, visited = [top], 0
        while pending:
            path = pending.pop()
            status = _status(path)
            try:
                if status is not None and stat.S_ISDIR(status.st_mode):
                    if self._seen(path, status, self.folders):
                        visited += 1
                        continue
                    names = sorted(os.listdir(path), reverse=True)
                    shown = [name for name in names if not name.startswith(".")]
                    self.hidden += len(names) - len(shown)
                    pending.extend(os.path.join(path, name) for name in shown)
                else:
                    visited += 1
                    self._add_file(path, self.warnings, status)
            except OSError as trouble:
                self.warnings.append(f"{_shown(path)}: {_why(trouble)}")
        return visited

    def _seen(self, path: str, status: os.stat_result, seen: set[tuple[int, int] | str]) -> bool:
        # Some file systems have no inode numbers.
        key = (status.st_dev, status.st_ino) if status.st_ino else os.path.realpath(path)
        if key in seen:
            return True
        seen.add(key)
        return False

    def _add_file(
        self, path: str, complaints: list[str], status: os.stat_result | None = None
    ) -> None:
        """Add one path that is no folder; complain if it cannot be opened."""

        def refuse(reason: str) -> None:
            key = os.path.abspath(path)
            if key not in self.files:  # it has no inode, or none that we may see
                self.files.add(key)
                complaints.append(f"{name}: {reason}")
                self._put(_refused(name, path, reason))

        name = _shown(path)
        try:
            status = status or os.stat(path)
            if self._seen(path, status, self.files):
                return
            mode = status.st_mode
            if stat.S_ISREG(mode):
                self._look_into(name, path)
            elif stat.S_ISFIFO(mode) and re.match(r"/dev/(?:fd/\d|stdin)|/proc/self/fd/\d", path):
                # A pipe that the shell opened for us, as in `<(kubectl logs …)`, does not block.
                with open(path, "rb", buffering=0) as pipe:
                    self._look_into(name, _spool(pipe.read))
            else:
                refuse(_special(mode))
        except FileNotFoundError as trouble:
            refuse("dangling symbolic link" if os.path.islink(path) else _why(trouble))
        except OSError as trouble:
            refuse(_why(trouble))

    def _look_into(self, name: str, path: str, depth: int = _NESTED) -> None:
        """Add one file, or the members of the container it is; raises OSError."""
        with codecs.open_file(path) as file:
            size = file.size()
            head = file.read(codecs.CHUNK)
            if file.error is not None:
                raise OSError(file.error)
            codec = codecs.codec_of(head)
            if codec == "none" and head.startswith(_ZIP_MAGIC):
                self._add_zip(name, path, size, depth)
                return
            plain = codec == "none" and not _is_tar(head)
            if plain:
                head = _read(file, HEAD_BYTES + 1, head)
        if codec != "none":
            with _decoded(path, codec) as stream:
                head = _read(stream, _TAR_BLOCK)
        if not plain and _is_tar(head):
            self._add_tar(name, path, codec, size, depth)
            return
        known = head if plain else None
        self._put(_look(name, path, None, codec, size, lambda: _decoded(path, codec), known))

    def _add_zip(self, name: str, path: str, size: int, depth: int) -> None:
        try:
            with codecs.open_file(path) as file, zipfile.ZipFile(cast(BinaryIO, file)) as container:
                # A member that was written again counts once, as its last version.
                latest = {info.filename: info for info in container.infolist()}
                infos = [info for info in latest.values() if not info.is_dir()]
                if any(info.filename == "META-INF/MANIFEST.MF" for info in infos):
                    self._put(_refused(name, path, "Java archive", size=size))
                    return
                if any(info.filename == "[Content_Types].xml" for info in infos):
                    self._put(_refused(name, path, "office document", size=size))
                    return
                if not infos:
                    self._put(_refused(name, path, "empty zip archive", size=size))
                if len(infos) > _MEMBERS:
                    self.warnings.append(
                        f"{name}: only the first {_MEMBERS} of its {len(infos)} members are read"
                    )
                for info in sorted(infos[:_MEMBERS], key=lambda info: info.filename):
                    if not self._is_hidden(info.filename):
                        self._add_zip_member(name, path, info, depth)
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
            self._add_cut_zip(name, path, size, depth)

    def _add_cut_zip(self, name: str, path: str, size: int, depth: int) -> None:
        """Copy the members of a zip archive out that has lost its directory, which is its end."""
        members: dict[str, str] = {}
        with codecs.open_file(path) as file:
            try:
                for member, read in _members_in_order(cast(BinaryIO, file)):
                    if not self._is_hidden(member) and len(members) < _MEMBERS:
                        members[member] = _spool(_Careful(read))
            except OSError as trouble:
                self.warnings.append(f"{name}: not unpacked completely: {_why(trouble)}")
        if members:
            self.warnings.append(
                f"{name}: truncated zip archive; its first {len(members)} members are read"
            )
            self._add_copies(name, members, depth)
        else:
            self._put(_refused(name, path, "damaged zip archive", size=size))

    def _add_zip_member(self, name: str, path: str, info: zipfile.ZipInfo, depth: int) -> None:
        shown = f"{name}!{_shown(info.filename)}"

        def refuse(reason: str) -> None:
            self._put(_refused(shown, path, reason, member=info.filename, size=info.file_size))

        if info.flag_bits & 1:
            refuse("encrypted: unpack it first")
            return
        codec = "none"

        def reopen() -> codecs.ByteStream:
            return _open_member(path, info.filename, codec)

        try:
            with reopen() as stream:
                head = _read(stream, _TAR_BLOCK)
            codec = codecs.codec_of(head)
            if codec != "none":
                with reopen() as stream:
                    head = _read(stream, _TAR_BLOCK)
            if head.startswith(_ZIP_MAGIC) or _is_tar(head):
                if not depth:
                    refuse("a container within too many others: unpack it first")
                    return
                codec = "none"
                with reopen() as stream:
                    copy = _spool(stream.read)
                self._look_into(shown, copy, depth - 1)
                return
            self._put(_look(shown, path, info.filename, codec, info.file_size, reopen))
        except OSError as trouble:
            refuse(_why(trouble))

    def _add_tar(self, name: str, path: str, codec: str, size: int, depth: int) -> None:
        """Copy the members of a tar out, in one pass: a compressed one cannot be jumped in."""
        before = len(self.found)
        members: dict[str, str] = {}
        folders: dict[str, str] = {}
        with _decoded(path, codec) as stream:
            trouble: str | None = None
            try:
                with tarfile.open(fileobj=io.BufferedReader(stream, _PROBE), mode="r|") as tar:
                    for info in tar:
                        if not info.isreg() or self._is_hidden(info.name):
                            continue
                        if len(members) >= _MEMBERS:
                            trouble = f"only its first {_MEMBERS} members are read"
                            break
                        file = tar.extractfile(info)
                        if file is None:
                            continue
                        read = _Careful(file.read)
                        head = read(_COPIED)
                        if reason := _binary(head):  # not worth a copy
                            shown = f"{name}!{_shown(info.name)}"
                            self._put(_refused(shown, path, reason, size=info.size))
                            continue
                        copy = _spool(read, head, _place_of(info.name, folders))
                        if info.name in members:  # appended again: the last one counts
                            os.unlink(members[info.name])
                        members[info.name] = copy
                        if read.cut:
                            raise tarfile.ReadError
            except (tarfile.TarError, EOFError, ValueError):
                trouble = "truncated or damaged tar archive"
            except OSError as problem:
                trouble = f"not unpacked completely: {_why(problem)}"
            trouble = stream.error or trouble
        self._add_copies(name, members, depth)
        if trouble and members:
            self.warnings.append(f"{name}: {trouble}; its first {len(members)} members are read")
        elif len(self.found) == before:
            self._put(_refused(name, path, trouble or "empty tar archive", codec=codec, size=size))

    def _add_copies(self, name: str, members: dict[str, str], depth: int) -> None:
        for member, copy in sorted(members.items()):
            at = len(self.found)
            shown = f"{name}!{_shown(member)}"
            if depth or not _is_container(copy):
                self._look_into(shown, copy, depth - 1 if depth else 0)
            else:
                self._put(_refused(shown, copy, "a container within too many others"))
            if all(source.kind == "not-read" for source in self.found[at:]):
                os.unlink(copy)

    def _is_hidden(self, member: str) -> bool:
        parts = member.replace("\\", "/").split("/")
        hidden = "__MACOSX" in parts or parts[-1].startswith(".")
        self.hidden += hidden
        return hidden

    def _put(self, source: Source) -> None:
        self.found.append(source)

    def discovery(self) -> Discovery:
        names = {source.name for source in self.found}
        return Discovery(
            sources=tuple(
                replace(source, index=index, group=group_of(source.name, beside=names))
                for index, source in enumerate(self.found)
            ),
            warnings=tuple(self.warnings),
            errors=tuple(self.errors),
            hidden=self.hidden,
        )


def _status(path: str) -> os.stat_result | None:
    """What the operating system says of a path; None if it says nothing."""
    try:
        return os.stat(path)
    except (OSError, ValueError):
        return None


def _shown(path: str) -> str:
    """A path as it can be printed: no control characters, no lone surrogates."""
    if path.isprintable():
        return path
    text = os.fsencode(path).decode("utf-8", "replace") if os.name == "posix" else path
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def _why(trouble: BaseException) -> str:
    if isinstance(trouble, OSError) and trouble.strerror:
        return trouble.strerror[:1].lower() + trouble.strerror[1:]
    return str(trouble) or type(trouble).__name__


def _special(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "a named pipe: redirect it to standard input (`-`)"
    if stat.S_ISSOCK(mode):
        return "a socket"
    return "a device" if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) else "not a regular file"


def _is_tar(head: bytes) -> bool:
    """Whether this is the first block of a tar archive, of any age."""
    if len(head) < _TAR_BLOCK or not head[0]:
        return False
    try:
        tarfile.TarInfo.frombuf(head[:_TAR_BLOCK], "utf-8", "surrogateescape")
    except (tarfile.TarError, ValueError):
        return False
    return True


def _binary(head: bytes) -> str | None:
    """Why something that begins so is not read, if that is beyond doubt already."""
    if codecs.codec_of(head) != "none" or head.startswith(_ZIP_MAGIC) or _is_tar(head):
        return None
    return binary_reason(head)


def _is_container(path: str) -> bool:
    with codecs.open_file(path) as file:
        head = file.read(_TAR_BLOCK)
    codec = codecs.codec_of(head)
    if codec != "none":
        with _decoded(path, codec) as stream:
            head = _read(stream, _TAR_BLOCK)
    return head.startswith(_ZIP_MAGIC) or _is_tar(head)


# -- looking ---------------------------------------------------------------------------------


def _refused(
    name: str,
    path: str,
    reason: str,
    *,
    member: str | None = None,
    codec: str = "none",
    size: int = 0,
) -> Source:
    return _source(name, path, member, codec, size, Sniffed(kind="not-read", reason=reason))


def _source(
    name: str, path: str, member: str | None, codec: str, size: int, verdict: Sniffed
) -> Source:
    return Source(
        index=-1,
        name=name,
        path=path,
        member=member,
        codec=codec,
        encoding=verdict.encoding,
        size=size,
        kind=verdict.kind,
        engine=verdict.engine,
        role=verdict.role,
        group=name,
        url=verdict.url,
        splittable=(
            verdict.kind in LINES
            and codec == "none"
            and member is None
            and verdict.encoding in ("utf-8", "latin-1")
        ),
        reason=verdict.reason,
    )


def _look(
    name: str,
    path: str,
    member: str | None,
    codec: str,
    size: int,
    reopen: Callable[[], codecs.ByteStream | codecs.PlainFile | RemoteFile],
    known: bytes | None = None,
) -> Source:
    """Sniff one file; `reopen` gives its decompressed stream, `known` is its begin if known."""

    def read(count: int) -> bytes:
        with reopen() as stream:
            return _read(stream, count)

    error = None
    if known is not None:
        head = known
    else:
        with reopen() as stream:
            head = _read(stream, HEAD_BYTES + 1)
            error = stream.error
    complete = len(head) <= HEAD_BYTES
    elsewhere = b""
    if not complete and codec == "none" and member is None:
        elsewhere = _lines_at(path, size // 2) + _lines_at(path, size - _PROBE)
    sample = Sample(
        name=name, head=head[:HEAD_BYTES], complete=complete, elsewhere=elsewhere, read=read
    )
    verdict = sniff(sample)
    if error is not None and not head:
        verdict = Sniffed(kind="not-read", reason=error)
    return _source(name, path, member, codec, size, verdict)


def _read(
    stream: codecs.ByteStream | codecs.PlainFile | RemoteFile, count: int, head: bytes = b""
) -> bytes:
    """The first bytes of a stream, of which `head` is read already."""
    # Reading allocates what it is asked for: ask for little.
    parts = [head]
    count -= len(head)
    while count > 0 and (part := stream.read(min(count, codecs.CHUNK))):
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _lines_at(path: str, offset: int) -> bytes:
    """Whole lines of a plain file from this offset on."""
    with codecs.open_file(path) as file:
        file.seek(max(0, offset))
        data = file.read(_PROBE)
    return data[data.find(b"\n") + 1 : data.rfind(b"\n") + 1]


# -- opening ---------------------------------------------------------------------------------


def open_source(source: Source) -> BinaryIO:
    """Open the decoded stream of a source that is read.

    A plain file is opened unbuffered as it is: read it with `readinto` on a buffer of your own.
    Other streams are decompressed and, if UTF-16 or UTF-32, turned into UTF-8. Line ends are
    kept, and so is a byte-order mark of UTF-8 in front of logs, so that offsets are those of the
    file; latin-1 stays as it is.

    For kind `document` the stream has one JSON object per line and event, as `encode_event` of
    `flowdiag.parsers.envelopes.carriers` writes and `unwrap_json` there reads: keys `message`,
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
        stream = _open_member(source.path, source.member, source.codec)
    if source.encoding.startswith("utf-") and source.encoding != "utf-8":
        stream = codecs.transcode(stream, source.encoding)
    if source.kind == "document":
        stream = _open_document(stream)
    return cast(BinaryIO, stream)


def stream_error(stream: BinaryIO) -> str | None:
    """What went wrong while a stream of `open_source` was read: one clause, or None."""
    return cast("str | None", getattr(stream, "error", None))


def _decoded(path: str, codec: str) -> codecs.ByteStream:
    return codecs.decode(cast(BinaryIO, codecs.open_file(path)), codec)


def _open_member(path: str, member: str, codec: str) -> codecs.ByteStream:
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
        if len(head) < _LOCAL_HEADER.size or not head.startswith(_ZIP_MAGIC):
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
                while piece := file.read(_COPIED):
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


def _members_in_order(file: BinaryIO) -> Iterator[tuple[str, Callable[[int], bytes | None]]]:
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


def _remember(pieces: Generator[bytes, None, bytes], behind: list[bytes]) -> Iterator[bytes]:
    behind[0] = yield from pieces


def _descriptor_length(data: bytes) -> int:
    """How many bytes of sizes and checksum stand before the next header."""
    found = re.search(rb"PK(?:\x03\x04|\x01\x02)", data[4:32], re.DOTALL)
    return found.start() + 4 if found else len(data)


def _open_document(stream: codecs.ByteStream) -> codecs.ByteStream:
    result: codecs.ByteStream

    def lines() -> Iterator[bytes]:
        data = _read(stream, DOCUMENT_BYTES + 1)
        events = envelopes.read_document(data) if len(data) <= DOCUMENT_BYTES else None
        if events is None:
            result.note("damaged document: it is read as text")
            yield data
            return
        for event in events:
            yield envelopes.encode_event(event)

    result = codecs.ByteStream(lines(), label="document", close=stream.close, below=stream)
    return result


# -- spooling --------------------------------------------------------------------------------

_private: list[str] = []


def _private_directory() -> str:
    """A directory that only this user can enter, removed when the process ends."""
    if not _private:
        folder = tempfile.mkdtemp(prefix="flowdiag-")  # mkdtemp makes it 0700
        _private.append(folder)
        atexit.register(_remove, folder, os.getpid())
    return _private[0]


def _remove(folder: str, owner: int) -> None:
    # A forked child must not take its parent's files away.
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def is_private(path: str) -> bool:
    """Whether a path is a copy made here, which no other machine can read."""
    return any(path.startswith(folder + os.sep) for folder in _private)


_HARMLESS: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,200}")


def _place_of(member: str, folders: dict[str, str]) -> tuple[str, str]:
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


def _spool(
    read: Callable[[int], bytes | None], head: bytes = b"", place: tuple[str, str] = ("", "")
) -> str:
    """Copy a stream to a private file, behind `head`; raises what reading or writing raises.

    Args:
        read: gives the stream.
        head: what was read of it already.
        place: folder and name of the copy; any name where it is empty or taken.
    """
    folder, name = place
    folder = folder or _private_directory()
    path = os.path.join(folder, name)
    if not name or os.path.lexists(path):
        handle, path = tempfile.mkstemp(dir=folder)
        os.close(handle)
    with open(path, "wb") as copy:
        copy.write(head)
        while data := read(_COPIED):
            copy.write(data)
    return path


class _Careful:
    """Reads up to where a member is damaged, and remembers whether it is."""

    def __init__(self, read: Callable[[int], bytes | None]) -> None:
        self._read = read
        self.cut = False

    def __call__(self, size: int) -> bytes:
        try:
            return self._read(size) or b""
        except (tarfile.TarError, EOFError, ValueError):
            self.cut = True
            return b""
