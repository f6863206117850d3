"""Resolves the user's arguments to a list of sources.

`discover` walks files, directories, globs, URLs (`remote`) and standard input, and opens containers. It determines
the kind of every file, or the reason not to read it, without interpreting the lines.

Standard input and the members of containers are copied to a private temporary directory (`containers`).
"""

from __future__ import annotations

import contextlib
import glob
import io
import os
import re
import stat
import sys
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import BinaryIO, Final, cast

from flowdiag.parsers.errors import error_clause
from flowdiag.parsers.faults import InternalFault, describe_fault, is_internal_fault
from flowdiag.parsers.notes import InputNote, Kind
from flowdiag.parsers.sniff.bytes import binary_reason
from flowdiag.parsers.sniff.text import sniff
from flowdiag.parsers.sniff.verdict import HEAD_BYTES, Sample, Sniffed
from flowdiag.parsers.source import LINES, WHOLE_BYTES, Source
from flowdiag.parsers.sources import codecs, remote
from flowdiag.parsers.sources.codecs import Stream, open_decoded, read_first
from flowdiag.parsers.sources.containers import (
    COPIED,
    TAR_BLOCK,
    ZIP_MAGIC,
    MemberReader,
    copy_location,
    is_container,
    is_tar,
    members_in_order,
    members_overlap,
    open_member,
    spool,
)
from flowdiag.parsers.sources.rolling import group_of
from flowdiag.parsers.yarn import aggregated

STDIN: Final = "-"

_NESTED: Final = 3  # maximum depth of containers within containers
_MEMBERS: Final = 20_000  # maximum members read from one container
_PROBE: Final = 32 * 1024
_UNPACKED_BYTES: Final = 4 * 1024**3
_UNPACKED_RATIO: Final = 1000
"""Limits on the total size of a container's members: in bytes, and relative to the container's size."""
_BOMB: Final = f"it unpacks to more than {_UNPACKED_RATIO} times its size: unpack the logs first"


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovery:
    """The result of `discover`.

    Attributes:
        sources: all files, read or not, in the order of the arguments and sorted by path within each argument.
            `sources[i].index == i`. A file that is reachable by several paths is listed once.
        warnings: notes on inputs that cannot be opened or look wrong.
        errors: notes on arguments that lead to no readable file.
        unread: folders that contain no file to read line by line, with the indexes of their sources. These can
            include files that a topic reads as a whole, such as a configuration.
        hidden: number of files and folders that were ignored because their names start with a dot.
        faults: internal faults, with the index of the source that could not be read.
    """

    sources: tuple[Source, ...]
    warnings: tuple[InputNote, ...]
    errors: tuple[InputNote, ...]
    unread: tuple[tuple[str, range], ...] = ()
    hidden: int = 0
    faults: tuple[InternalFault, ...] = ()


def discover(paths: Sequence[str], *, stdin: BinaryIO | None = None) -> Discovery:
    """Find and identify every file under `paths`. Never raises for bad files.

    Args:
        paths: files, directories (read recursively), glob patterns, URLs of any of these, and `-` for
            standard input.
        stdin: stream for `-`; by default the standard input of the process.
    """
    search = _Search(stdin)
    for path in paths:
        search.add(path)
    return search.discovery()


def limit_to_engine(discovery: Discovery, engine: str) -> Discovery:
    """Mark the sources of other engines as not read, because another command reads them.

    Args:
        discovery: the result of `discover`.
        engine: `flink` or `spark`. Sources of an unknown engine stay unchanged.
    """
    return replace(
        discovery, sources=tuple(_restricted_to(source, engine) for source in discovery.sources)
    )


def _restricted_to(source: Source, engine: str) -> Source:
    if engine == "flink":
        reason = {
            "spark-events": "Spark event log: read by `flowdiag rate`",
            "spark-rest": "a Spark REST response: read by `flowdiag rate`",
        }.get(source.kind)
    else:
        reason = {
            "rest": "a Flink REST response: read by `flowdiag checkpoints`",
            "prometheus": "Flink metrics: read by `flowdiag checkpoints`",
            "archive": "a Flink History Server archive: read by `flowdiag checkpoints`",
        }.get(source.kind)
        if reason is None and source.engine == "flink" and source.kind != "not-read":
            reason = "a Flink log: read by `flowdiag checkpoints`"
    if reason is None:
        unknown = source.engine == "unknown" and source.kind != "not-read"
        return replace(source, engine=engine) if unknown else source
    return replace(source, kind="not-read", reason=reason, splittable=False)


@dataclass(slots=True)
class _Search:
    stdin: BinaryIO | None
    found: list[Source] = field(default_factory=list)
    warnings: list[InputNote] = field(default_factory=list)
    errors: list[InputNote] = field(default_factory=list)
    unread: list[tuple[str, range]] = field(default_factory=list)
    hidden: int = 0
    faults: list[InternalFault] = field(default_factory=list)
    files: set[tuple[int, int] | str] = field(default_factory=set)
    folders: set[tuple[int, int] | str] = field(default_factory=set)
    budget: int = 0  # bytes that may still be unpacked from the current file

    def add(self, given: str) -> None:
        """Add the files that one argument refers to."""
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
            self.errors.append(
                InputNote(Kind.MISSING_FILE, "no file matches", _printable_path(given))
            )
        else:
            self.errors.append(
                InputNote(Kind.MISSING_FILE, "no such file or directory", _printable_path(given))
            )

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
        name = _printable_path(remote.without_credentials(given))
        try:
            found = remote.list_files(given)
        except OSError as trouble:
            self.errors.append(_unreadable_note(trouble, name))
            return
        if not found:
            self.warnings.append(InputNote(Kind.NOT_READ, "contains no files", name))
        for file in found:
            if file.url in self.files:
                continue
            self.files.add(file.url)
            shown = _printable_path(remote.without_credentials(file.url))
            try:
                self._look_into(shown, self._readable_in_parts(file.url))
            except OSError as trouble:
                complaints = self.errors if len(found) == 1 else self.warnings
                complaints.append(_unreadable_note(trouble, shown))
                self._add_source(
                    _unread_source(shown, file.url, f"unreadable: {error_clause(trouble)}")
                )

    def _readable_in_parts(self, url: str) -> str:
        """Return the URL, or the path of a private copy if the server cannot send parts of the file."""
        if remote.sends_ranges(url):
            return url
        with remote.whole_file(url) as read:
            return spool(read)

    def _add_stdin(self) -> None:
        if STDIN in self.files:
            return
        self.files.add(STDIN)
        try:
            stream = self.stdin or sys.stdin.buffer
            path = spool(stream.read)
        except (OSError, ValueError, AttributeError) as trouble:
            self.errors.append(_unreadable_note(trouble, "standard input"))
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
            self.warnings.append(
                InputNote(Kind.NOT_READ, "contains no files", _printable_path(path))
            )
        elif new and all(source.kind == "not-read" for source in new):
            self.unread.append((_printable_path(path), range(before, len(self.found))))

    def _walk(self, top: str) -> int:
        """Walk the files under a folder in sorted order.

        Visit each folder once, however many symlinks point to it.
        """
        pending, visited = [top], 0
        while pending:
            path = pending.pop()
            status = None
            with contextlib.suppress(OSError, ValueError):
                status = os.stat(path)
            try:
                if status is not None and stat.S_ISDIR(status.st_mode):
                    if self._is_known(path, status, self.folders):
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
                self.warnings.append(_unreadable_note(trouble, _printable_path(path)))
        return visited

    def _is_known(
        self, path: str, status: os.stat_result, seen: set[tuple[int, int] | str]
    ) -> bool:
        # Some file systems have no inode numbers.
        key = (status.st_dev, status.st_ino) if status.st_ino else os.path.realpath(path)
        if key in seen:
            return True
        seen.add(key)
        return False

    def _add_file(
        self, path: str, complaints: list[InputNote], status: os.stat_result | None = None
    ) -> None:
        """Add a file, or a note if it cannot be opened."""

        def refuse(reason: str, kind: Kind = Kind.UNREADABLE) -> None:
            key = os.path.abspath(path)
            if key not in self.files:  # without an accessible inode, identify the file by its path
                self.files.add(key)
                complaints.append(InputNote(kind, reason, name))
                self._add_source(_unread_source(name, path, reason))

        name = _printable_path(path)
        try:
            status = status or os.stat(path)
            if self._is_known(path, status, self.files):
                return
            mode = status.st_mode
            if stat.S_ISREG(mode):
                self._look_into(name, path)
            elif stat.S_ISFIFO(mode) and re.match(r"/dev/(?:fd/\d|stdin)|/proc/self/fd/\d", path):
                # A pipe opened by the shell, as in `<(kubectl logs …)`, does not block.
                with open(path, "rb", buffering=0) as pipe:
                    self._look_into(name, spool(pipe.read))
            else:
                refuse(_special_file_reason(mode))
        except FileNotFoundError as trouble:
            dangling = os.path.islink(path)
            refuse(
                "dangling symbolic link" if dangling else error_clause(trouble), Kind.MISSING_FILE
            )
        except OSError as trouble:
            refuse(error_clause(trouble))

    def _look_into(self, name: str, path: str, depth: int = _NESTED) -> None:
        """Add a file or, if it is a container, its members. An internal fault affects only this file.

        Raises:
            OSError: the file cannot be opened.
        """
        try:
            self._look_inside(name, path, depth)
        except Exception as error:
            if isinstance(error, OSError) or not is_internal_fault(error):
                raise
            self.faults.append(describe_fault(error, source=len(self.found)))
            self._add_source(_unread_source(name, path, "not read because of a bug in flowdiag"))

    def _look_inside(self, name: str, path: str, depth: int) -> None:
        with codecs.open_file(path) as file:
            size = file.size()
            if depth == _NESTED:
                self.budget = max(_UNPACKED_BYTES, _UNPACKED_RATIO * size)
            head = file.read(codecs.CHUNK)
            if file.error is not None:
                raise OSError(file.error)
            codec = codecs.codec_of(head)
            if codec == "none" and head.startswith(ZIP_MAGIC):
                self._add_zip(name, path, size, depth)
                return
            if aggregated.is_aggregated_log(cast(BinaryIO, file), head, size):
                self._add_aggregated(name, path, head, size, depth)
                return
            plain = codec == "none" and not is_tar(head)
            if plain:
                head = read_first(file, HEAD_BYTES + 1, head)
        if codec != "none":
            with open_decoded(path, codec) as stream:
                head = read_first(stream, TAR_BLOCK)
        if not plain and is_tar(head):
            self._add_tar(name, path, codec, size, depth)
            return
        known = head if plain else None
        self._add_source(
            _sniff_file(name, path, None, codec, size, lambda: open_decoded(path, codec), known)
        )

    def _add_zip(self, name: str, path: str, size: int, depth: int) -> None:
        try:
            with codecs.open_file(path) as file, zipfile.ZipFile(cast(BinaryIO, file)) as container:
                # If a member occurs several times, only the last counts.
                latest = {info.filename: info for info in container.infolist()}
                infos = [info for info in latest.values() if not info.is_dir()]
                if any(info.filename == "META-INF/MANIFEST.MF" for info in infos):
                    self._add_source(_unread_source(name, path, "Java archive", size=size))
                    return
                if any(info.filename == "[Content_Types].xml" for info in infos):
                    self._add_source(_unread_source(name, path, "office document", size=size))
                    return
                if members_overlap(infos):
                    self._add_source(_unread_source(name, path, _BOMB, size=size))
                    return
                if not infos:
                    self._add_source(_unread_source(name, path, "empty zip archive", size=size))
                if len(infos) > _MEMBERS:
                    text = f"only the first {_MEMBERS} of its {len(infos)} members are read"
                    self.warnings.append(InputNote(Kind.NOT_READ, text, name))
                for info in sorted(infos[:_MEMBERS], key=lambda info: info.filename):
                    if not self._is_hidden(info.filename):
                        self._add_zip_member(name, path, info, depth)
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
            self._add_truncated_zip(name, path, size, depth)

    def _add_truncated_zip(self, name: str, path: str, size: int, depth: int) -> None:
        """Copy the members of a zip archive whose end, and with it the central directory, is missing."""
        members: dict[str, str] = {}
        with codecs.open_file(path) as file:
            try:
                for member, read in members_in_order(cast(BinaryIO, file)):
                    if not self._is_hidden(member) and len(members) < _MEMBERS:
                        members[member] = spool(self._within_budget(MemberReader(read)))
            except OSError as trouble:
                text = f"partially unpacked: {error_clause(trouble)}"
                self.warnings.append(InputNote(Kind.DAMAGED, text, name))
        if members:
            text = f"truncated zip archive; its first {len(members)} members are read"
            self.warnings.append(InputNote(Kind.DAMAGED, text, name))
            self._add_copies(name, members, depth)
        else:
            self._add_source(_unread_source(name, path, "damaged zip archive", size=size))

    def _add_zip_member(self, name: str, path: str, info: zipfile.ZipInfo, depth: int) -> None:
        shown = f"{name}!{_printable_path(info.filename)}"

        def refuse(reason: str) -> None:
            self._add_source(
                _unread_source(shown, path, reason, member=info.filename, size=info.file_size)
            )

        if info.flag_bits & 1:
            refuse("encrypted: unpack it first")
            return
        codec = "none"

        def reopen() -> codecs.ByteStream:
            return open_member(path, info.filename, codec)

        try:
            with reopen() as stream:
                head = read_first(stream, TAR_BLOCK)
            codec = codecs.codec_of(head)
            if codec != "none":
                with reopen() as stream:
                    head = read_first(stream, TAR_BLOCK)
            if head.startswith(ZIP_MAGIC) or is_tar(head):
                if not depth:
                    refuse("a container nested too deeply: unpack it first")
                    return
                codec = "none"
                with reopen() as stream:
                    copy = spool(self._within_budget(stream.read))
                self._look_into(shown, copy, depth - 1)
                return
            self.budget -= info.file_size
            if self.budget < 0:
                refuse(_BOMB)
                return
            self._add_source(_sniff_file(shown, path, info.filename, codec, info.file_size, reopen))
        except OSError as trouble:
            refuse(error_clause(trouble))

    def _add_tar(self, name: str, path: str, codec: str, size: int, depth: int) -> None:
        """Copy the members of a tar archive in one pass, because a compressed archive is not seekable."""
        before = len(self.found)
        members: dict[str, str] = {}
        with open_decoded(path, codec) as stream:
            trouble: str | None = None
            try:
                with tarfile.open(fileobj=io.BufferedReader(stream, _PROBE), mode="r|") as tar:
                    trouble = self._copy_members(tar, name, path, members)
            except (tarfile.TarError, EOFError, ValueError):
                trouble = "truncated or damaged tar archive"
            except OSError as problem:
                trouble = f"partially unpacked: {error_clause(problem)}"
            trouble = stream.error or trouble
        self._add_copies(name, members, depth)
        if trouble and members:
            kind = Kind.NOT_READ if len(members) >= _MEMBERS else Kind.DAMAGED
            text = f"{trouble}; its first {len(members)} members are read"
            self.warnings.append(InputNote(kind, text, name))
        elif len(self.found) == before:
            self._add_source(
                _unread_source(name, path, trouble or "empty tar archive", codec=codec, size=size)
            )

    def _add_aggregated(self, name: str, path: str, head: bytes, size: int, depth: int) -> None:
        """Copy the container logs out of a file of YARN's log aggregation. If a log is repeated, keep the last copy."""
        copies: dict[str, str] = {}
        folders: dict[str, str] = {}
        trouble = None
        with codecs.open_file(path) as file:
            try:
                for member, read in aggregated.members(cast(BinaryIO, file), head, size):
                    copy = spool(self._within_budget(read), place=copy_location(member, folders))
                    replaced = copies.get(member) if os.path.getsize(copy) else copy
                    if replaced is not copy:
                        copies[member] = copy
                    if replaced is not None:
                        os.unlink(replaced)
                    if len(copies) >= _MEMBERS:
                        break
            except codecs.Damaged as damage:
                trouble = str(damage)
            except OSError as problem:
                trouble = f"partially unpacked: {error_clause(problem)}"
        self._add_copies(name, copies, depth)
        if trouble and copies:
            first = "log was" if len(copies) == 1 else f"{len(copies)} logs were"
            text = f"{trouble}; only the first {first} read"
            self.warnings.append(InputNote(Kind.DAMAGED, text, name))
        elif not copies:
            self._add_source(
                _unread_source(name, path, trouble or "aggregated logs without content", size=size)
            )

    def _copy_members(
        self, tar: tarfile.TarFile, name: str, path: str, members: dict[str, str]
    ) -> str | None:
        """Copy the members of a tar archive and add the copies to `members`. Return why copying stopped early, or
        None.
        """
        folders: dict[str, str] = {}
        for info in tar:
            if not info.isreg() or self._is_hidden(info.name):
                continue
            if len(members) >= _MEMBERS:
                return f"only its first {_MEMBERS} members are read"
            file = tar.extractfile(info)
            if file is None:
                continue
            read = MemberReader(file.read)
            head = read(COPIED)
            # Do not copy binary files.
            packed = codecs.codec_of(head) != "none" or head.startswith(ZIP_MAGIC) or is_tar(head)
            if not packed and (reason := binary_reason(head)):
                shown = f"{name}!{_printable_path(info.name)}"
                self._add_source(_unread_source(shown, path, reason, size=info.size))
                continue
            copy = spool(self._within_budget(read), head, copy_location(info.name, folders))
            if info.name in members:  # tar appends new versions: the last one counts
                os.unlink(members[info.name])
            members[info.name] = copy
            if read.cut:
                raise tarfile.ReadError
        return None

    def _within_budget(self, read: Callable[[int], bytes | None]) -> Callable[[int], bytes | None]:
        """Wrap `read` so that it raises OSError once the file has unpacked to an implausible size."""

        def bounded(count: int) -> bytes | None:
            data = read(count)
            self.budget -= len(data or b"")
            if self.budget < 0:
                raise OSError(_BOMB)
            return data

        return bounded

    def _add_copies(self, name: str, members: dict[str, str], depth: int) -> None:
        for member, copy in sorted(members.items()):
            at = len(self.found)
            shown = f"{name}!{_printable_path(member)}"
            if depth or not is_container(copy):
                self._look_into(shown, copy, depth - 1 if depth else 0)
            else:
                self._add_source(_unread_source(shown, copy, "a container nested too deeply"))
            # Keep small copies: a topic may read them as a whole, such as a configuration.
            unread = all(source.kind == "not-read" for source in self.found[at:])
            if unread and os.path.getsize(copy) > WHOLE_BYTES:
                os.unlink(copy)

    def _is_hidden(self, member: str) -> bool:
        parts = member.replace("\\", "/").split("/")
        hidden = "__MACOSX" in parts or parts[-1].startswith(".")
        self.hidden += hidden
        return hidden

    def _add_source(self, source: Source) -> None:
        self.found.append(source)

    def discovery(self) -> Discovery:
        names = {source.name for source in self.found}
        return Discovery(
            sources=tuple(
                replace(source, index=index, group=group_of(source.name, siblings=names))
                for index, source in enumerate(self.found)
            ),
            warnings=tuple(self.warnings),
            errors=tuple(self.errors),
            unread=tuple(self.unread),
            hidden=self.hidden,
            faults=tuple(self.faults),
        )


def _printable_path(path: str) -> str:
    """Make a path printable: replace control characters and lone surrogates."""
    if path.isprintable():
        return path
    text = os.fsencode(path).decode("utf-8", "replace") if os.name == "posix" else path
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def _unreadable_note(trouble: BaseException, name: str) -> InputNote:
    """Return a note that explains why a file cannot be opened."""
    missing = isinstance(trouble, FileNotFoundError)
    return InputNote(Kind.MISSING_FILE if missing else Kind.UNREADABLE, error_clause(trouble), name)


def _special_file_reason(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "a named pipe: redirect it to standard input (`-`)"
    if stat.S_ISSOCK(mode):
        return "a socket"
    return "a device" if stat.S_ISCHR(mode) or stat.S_ISBLK(mode) else "not a regular file"


def _unread_source(
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


def _sniff_file(
    name: str,
    path: str,
    member: str | None,
    codec: str,
    size: int,
    reopen: Callable[[], Stream],
    known: bytes | None = None,
) -> Source:
    """Sniff one file. `reopen` returns its decompressed stream; `known` is the start, if already read."""

    def read(count: int) -> bytes:
        with reopen() as stream:
            return read_first(stream, count)

    error = None
    if known is not None:
        head = known
    else:
        with reopen() as stream:
            head = read_first(stream, HEAD_BYTES + 1)
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


def _lines_at(path: str, offset: int) -> bytes:
    """Read whole lines of an uncompressed file, starting near this offset."""
    with codecs.open_file(path) as file:
        file.seek(max(0, offset))
        data = file.read(_PROBE)
    return data[data.find(b"\n") + 1 : data.rfind(b"\n") + 1]
