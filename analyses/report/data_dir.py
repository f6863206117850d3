"""Writes the complete tables of `--data-dir` as folders of Parquet files during the diagnosis.

On the local file system, the tables are written to a hidden folder next to the requested one, which they replace when
complete. Behind a URL, where folders cannot be renamed, `flowdiag.json` is written last instead.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import msgspec
import pyarrow as pa

from flowdiag.analyses.model.columns import Row
from flowdiag.analyses.report.tables import BY_NAME, SCHEMA, Table, tables_of
from flowdiag.parsers.cleanup import at_exit, remove_folder
from flowdiag.parsers.errors import FlowdiagError, error_text
from flowdiag.parsers.sources.remote import is_url, local_path, without_credentials

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from flowdiag.analyses.contract.report import Report, Tool
    from flowdiag.analyses.topic import Topic

MANIFEST: Final = "flowdiag.json"
_BATCH_ROWS: Final = 4096


class DataDir:
    """The folder for the tables of one diagnosis.

    >>> tables = DataDir("data")  # doctest: +SKIP
    >>> tables.of(topics, lambda: diagnose(topics, …, resources=Resources(keep=tables)))  # doctest: +SKIP
    """

    def __init__(self, where: str, *, excerpts: bool = True) -> None:
        """Check that the tables can be written, before any work begins.

        Args:
            where: a path, or a URL.
            excerpts: whether to include log text.

        Raises:
            FlowdiagError: if the folder contains other files or cannot be written.
        """
        path = local_path(where) if is_url(where) else where
        self._shown = without_credentials(where) if is_url(where) else where
        self._excerpts = excerpts
        self._tables: tuple[Table, ...] = ()
        self._files: dict[str, list[tuple[str, int]]] = {}
        self._forget: Callable[[], object] = lambda: None
        self._store = (
            _LocalFolder(Path(path), self._shown) if path is not None else _RemoteFolder(where)
        )
        self._store.check()

    def of(self, topics: Sequence[Topic], diagnosis: Callable[[], Report]) -> Report:
        """Write the tables of one diagnosis, which receives this object as `Resources.keep`.

        Args:
            topics: the topics of the diagnosis.
            diagnosis: builds the report.

        Raises:
            FlowdiagError: if a table cannot be written or the diagnosis fails.
        """
        self._tables = tables_of(topic.name for topic in topics)
        with self:
            report = diagnosis()
            self.complete(report.tool)
        return report

    def check_cluster(self) -> None:
        """Reject a folder that executors on other hosts cannot write to.

        Raises:
            FlowdiagError: if the folder is a local path.
        """
        if isinstance(self._store, _LocalFolder) and not self._shown.lower().startswith("file:"):
            raise FlowdiagError(
                f"--data-dir: the executors of a cluster cannot write '{self._shown}'",
                hint="use a URL: s3://, gs://, abfs://, hdfs://, or file:// for a shared path",
            )

    def __enter__(self) -> Self:
        self._files = {}  # forget an earlier attempt
        with self._writing():
            self._store.begin()
        self._forget = at_exit(self._store.discard)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Remove incomplete tables."""
        self._store.discard()
        self._forget()

    def frame(self, name: str, frame: DataFrame, part: str) -> None:
        """Write the rows of a frame in Spark tasks.

        Raises:
            FlowdiagError: if they cannot be written.
        """
        from flowdiag.parsers.on_spark.parts import write_parts

        table = BY_NAME[name]
        with self._writing():
            folder = self._store.folder(name)
            found = write_parts(frame, folder, table.schema, name=part, excerpts=self._excerpts)
            self._files.setdefault(name, []).extend(self._store.settled(name, found))

    def rows(self, name: str, rows: Iterator[Row]) -> None:
        """Write rows in batches, so that memory use does not grow with the table.

        Raises:
            FlowdiagError: the rows cannot be written.
        """
        from flowdiag.parsers.on_spark.parts import write_file

        schema = BY_NAME[name].schema
        with self._writing():
            file = f"part-{len(self._files.get(name, ())):05d}.parquet"
            path = f"{self._store.folder(name)}/{file}"
            count = write_file(path, schema, _batches(rows, schema), always=True)
            self._files.setdefault(name, []).append((file, count))

    def complete(self, tool: Tool) -> None:
        """Write the manifest and an empty table for each table without rows, then publish the folder.

        Raises:
            FlowdiagError: if the folder cannot be written.
        """
        for table in self._tables:
            if not self._files.get(table.name):
                self.rows(table.name, iter(()))
        with self._writing():
            self._store.finish(self._manifest(tool))

    def _manifest(self, tool: Tool) -> bytes:
        names = [table.name for table in _in_order(self._files)]
        document = {
            "schema": SCHEMA,
            "tool": msgspec.to_builtins(tool),
            "tables": [
                {
                    "name": name,
                    "rows": sum(rows for _, rows in self._files[name]),
                    "files": [f"{name}/{file}" for file, _ in self._files[name]],
                }
                for name in names
            ],
        }
        return json.dumps(document, indent=2).encode() + b"\n"

    def _writing(self) -> _Writing:
        return _Writing(self._shown)


def _in_order(names: Collection[str]) -> list[Table]:
    return [table for name, table in BY_NAME.items() if name in names]


class _Writing:
    """Converts write errors of any library to an error with the name of the folder."""

    def __init__(self, shown: str) -> None:
        self._shown = shown

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not isinstance(error, Exception) or isinstance(error, FlowdiagError):
            return
        why = _error_clause(error)
        if why is not None:
            raise cannot_write(self._shown, why) from error


# Messages of write errors in Spark tasks. The exception's own message contains a traceback.
_WRITE_ERRORS: Final = {
    "No space left on device": "no space left on device",
    "Disk quota exceeded": "disk quota exceeded",
    "Permission denied": "permission denied",
    "Read-only file system": "read-only file system",
    "No such file or directory": "no such file or directory",
}


def _error_clause(error: Exception) -> str | None:
    """Return the reason for a write error as a clause, or None if it is not a write error."""
    if isinstance(error, OSError):
        text = error.strerror or str(error)
        return f"{text[:1].lower()}{text[1:]}"
    text = error_text(error)
    if "parts.py" not in text:
        return None
    return next((clause for words, clause in _WRITE_ERRORS.items() if words in text), None)


def cannot_write(shown: str, why: str) -> FlowdiagError:
    """Return the error for tables that could not be written."""
    return FlowdiagError(
        f"cannot write tables to '{shown}': {why}",
        hint="use a writable folder with enough free space for --data-dir",
    )


def _folder_error(shown: str, why: str) -> FlowdiagError:
    return FlowdiagError(f"--data-dir: '{shown}' {why}", hint="use an empty or new folder")


def _check_entries(shown: str, entries: Collection[str], manifest: bytes | None) -> None:
    """Reject a folder that contains anything except flowdiag's tables."""
    if not entries:
        return
    try:
        document = json.loads(manifest or b"null")
        ours = {MANIFEST, *(table["name"] for table in document["tables"])}
        if not str(document["schema"]).startswith("flowdiag.tables/"):
            raise ValueError
    except (ValueError, TypeError, KeyError):
        raise _folder_error(shown, "is not empty and contains no flowdiag tables") from None
    others = sorted(set(entries) - ours)
    if others:
        raise _folder_error(shown, f"contains tables and another file: {others[0]}")


class _LocalFolder:
    """A local folder that appears only when it is complete."""

    def __init__(self, path: Path, shown: str) -> None:
        self._path = Path(os.path.abspath(path))
        self._shown = shown
        self._partial = self._path.with_name(f".{self._path.name}.flowdiag-{os.getpid()}")
        self._old = self._path.with_name(f".{self._path.name}.flowdiag-old-{os.getpid()}")

    def check(self) -> None:
        try:
            if os.path.lexists(self._path):
                if not self._path.is_dir():
                    raise _folder_error(self._shown, "is not a folder")
                manifest = self._path / MANIFEST
                held = manifest.read_bytes() if manifest.is_file() else None
                _check_entries(self._shown, os.listdir(self._path), held)
            if not os.access(self._path.parent, os.W_OK | os.X_OK):
                exists = self._path.parent.is_dir()
                raise PermissionError(13, "permission denied" if exists else "no such folder")
        except OSError as error:
            why = error.strerror or str(error)
            raise cannot_write(self._shown, f"{why[:1].lower()}{why[1:]}") from None

    def begin(self) -> None:
        remove_folder(self._partial)  # left by a killed process with the same ID
        self._partial.mkdir()

    def folder(self, name: str) -> str:
        folder = self._partial / name
        folder.mkdir(exist_ok=True)
        return str(folder)

    def settled(self, name: str, found: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
        """Rename files to names without an attempt number, and delete the files of other attempts."""
        folder, kept = self._partial / name, []
        taken = {file for file, _ in found}
        for file, rows in found:
            plain = f"{file.rpartition('-')[0]}.parquet"
            (folder / file).rename(folder / plain)
            kept.append((plain, rows))
        part = next((file.partition("-")[0] for file in taken), None)
        for path in folder.glob(f"{part}-*-*.parquet") if part else ():
            path.unlink()
        return kept

    def finish(self, manifest: bytes) -> None:
        (self._partial / MANIFEST).write_bytes(manifest)
        self.check()  # another process may have written there since
        if self._path.is_symlink():
            self._path = Path(os.path.realpath(self._path))
        if self._path.exists():
            self._path.rename(self._old)
        self._partial.rename(self._path)
        remove_folder(self._old)

    def discard(self) -> None:
        remove_folder(self._partial)
        with suppress(OSError):
            if self._old.exists() and not self._path.exists():
                self._old.rename(self._path)


class _RemoteFolder:
    """A folder behind a URL, which is complete when it contains its manifest."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._shown = without_credentials(self._url)
        self._begun = self._complete = False

    def _system(self) -> tuple[Any, str]:
        from flowdiag.parsers.sources.remote import system_of

        return system_of(self._url)

    def check(self) -> None:
        try:
            system, path = self._system()
            held: bytes | None = None
            entries: list[str] = []
            if system.exists(path):
                entries = [
                    str(each).rstrip("/").rpartition("/")[2]
                    for each in system.ls(path, detail=False)
                ]
                if MANIFEST in entries:
                    held = system.cat_file(f"{path}/{MANIFEST}")
        except Exception as error:  # noqa: BLE001 - backends raise errors of their libraries
            text = error_text(error) or type(error).__name__
            raise cannot_write(self._shown, " ".join(text.split())[:200]) from None
        _check_entries(self._shown, [each for each in entries if each], held)

    def begin(self) -> None:
        system, path = self._system()
        self._begun = True
        # Delete the manifest first, so that a partial folder never looks complete.
        if system.exists(f"{path}/{MANIFEST}"):
            system.rm(f"{path}/{MANIFEST}")
            for name in BY_NAME:
                if system.exists(f"{path}/{name}"):
                    system.rm(f"{path}/{name}", recursive=True)
        system.makedirs(path, exist_ok=True)

    def folder(self, name: str) -> str:
        system, path = self._system()
        system.makedirs(f"{path}/{name}", exist_ok=True)
        return f"{self._url}/{name}"

    def settled(self, name: str, found: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
        """Return the files, after deleting those of other attempts."""
        system, path = self._system()
        kept = list(found)
        part = next((file.partition("-")[0] for file, _ in kept), None)
        for each in system.ls(f"{path}/{name}", detail=False):
            file = str(each).rpartition("/")[2]
            if part and file.startswith(f"{part}-") and file not in dict(kept):
                system.rm(each)
        return kept

    def finish(self, manifest: bytes) -> None:
        system, path = self._system()
        system.pipe_file(f"{path}/{MANIFEST}", manifest)
        self._complete = True

    def discard(self) -> None:
        if not self._begun or self._complete:
            return
        self._begun = False
        with suppress(Exception):
            system, path = self._system()
            for name in BY_NAME:
                if system.exists(f"{path}/{name}"):
                    system.rm(f"{path}/{name}", recursive=True)


def _batches(rows: Iterator[Row], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Convert rows to Arrow batches. In reports, instants are text."""
    instants = [field.name for field in schema if pa.types.is_timestamp(field.type)]
    maps = [field.name for field in schema if pa.types.is_map(field.type)]
    while some := list(itertools.islice(rows, _BATCH_ROWS)):
        columns = []
        for field in schema:
            values: list[Any] = [row.get(field.name) for row in some]
            if field.name in instants:
                values = [text and datetime.fromisoformat(text) for text in values]
            elif field.name in maps:
                values = [None if each is None else list(each.items()) for each in values]
            columns.append(pa.array(values, field.type))
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
