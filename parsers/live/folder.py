"""Writes the folder of a collection: one JSON file per tick, and a manifest with one JSON object per line.

Files are written under a hidden name and renamed when complete, and the manifest is append-only. However a collection
ends, every file in the folder is complete, and a later run can resume the collection.

A tick file:

    {"schema": "flowdiag.collected/1", "kind": "flink", "tick": 3, "time_ms": …, "complete": true,
     "context": {…names and placement that the responses lack…},
     "answers": [
    {"path": "/jobs/…/checkpoints", "time_ms": …, "body": …},
    …]}

Each file can be read on its own. In the manifest, `what` is `run` (the start of a run), `tick` (a file with its
requests, bytes and failures) or `end`.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final

from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.live.client import base_of
from flowdiag.parsers.sources.collected import MANIFEST, SCHEMA

Json = dict[str, Any]

_HINT: Final = "choose an empty folder or an existing collection"


class Folder:
    """A collection on disk that is open for appending."""

    def __init__(self, path: str | Path, kind: str, url: str) -> None:
        """Create the folder, or resume the collection in it.

        Args:
            path: path of the folder.
            kind: flink, spark or prometheus.
            url: URL of the server, whose credentials are removed.

        Raises:
            FlowdiagError: the folder contains other files or another collection, is in use, or is not writable.
        """
        self.path, self.kind, self.url = Path(path), kind, base_of(url)[0]
        self.entries: list[Json] = []
        """Manifest entries of earlier runs."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._read_manifest()
            for left in self.path.glob(".tick-*"):  # left over from a run that was killed
                left.unlink()
            self._manifest: IO[bytes] = (self.path / MANIFEST).open("ab")
        except OSError as error:
            raise _write_error(self.path, error) from None
        try:
            self._lock()
            written = (self.path / MANIFEST).read_bytes()
            # End the unfinished line of a run that was killed.
            if written and not written.endswith(b"\n"):
                self._manifest.write(b"\n")
                self._manifest.flush()
        except BaseException:
            self._manifest.close()
            raise
        numbers = [
            int(part)
            for found in self.path.glob("tick-*.json*")
            if (part := found.name.split("-")[1].split(".")[0]).isdecimal()
        ]
        self.tick = max(numbers, default=0)
        """The number of the last file written."""

    def close(self) -> None:
        """Close the manifest and release its lock."""
        self._manifest.close()

    def note(self, **entry: Any) -> None:
        """Append a line to the manifest, and sync it to disk."""
        try:
            self._manifest.write(
                json.dumps(entry, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
            )
            self._manifest.flush()
            os.fsync(self._manifest.fileno())
        except OSError as error:
            raise _write_error(self.path, error) from None

    def write(
        self,
        answers: Iterable[Json],
        *,
        time_ms: int,
        context: Json | None = None,
        complete: bool = True,
    ) -> tuple[str, int]:
        """Write the file of the next tick.

        Args:
            answers: objects with `path`, `time_ms`, `body` and optionally `at_ms` (when the values were measured).
            time_ms: when the tick started.
            context: names and placement.
            complete: whether the tick was not interrupted.

        Returns:
            The name and size of the file.
        """
        self.tick += 1
        head = {
            "schema": SCHEMA,
            "kind": self.kind,
            "url": self.url,
            "tick": self.tick,
            "time_ms": time_ms,
            "complete": complete,
            "context": context or {},
        }
        lines = ",\n".join(_compact(answer) for answer in answers)
        data = f'{_compact(head)[:-1]},"answers":[\n{lines}\n]}}\n'.encode("utf-8", "replace")
        when = datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")
        name = f"tick-{self.tick:06d}-{when}.json"
        hidden = self.path / f".{name}"
        try:
            with hidden.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            hidden.replace(self.path / name)
        except OSError as error:
            with suppress(OSError):
                hidden.unlink()
            raise _write_error(self.path, error) from None
        return name, len(data)

    def _read_manifest(self) -> None:
        manifest = self.path / MANIFEST
        if not manifest.exists():
            visible = [name for name in os.listdir(self.path) if not name.startswith(".")]
            if visible:
                raise FlowdiagError(f"'{self.path}' contains other files", hint=_HINT)
            return
        for line in manifest.read_bytes().split(b"\n"):
            with suppress(ValueError):  # the unfinished last line of a run that was killed
                entry = json.loads(line)
                if isinstance(entry, dict):
                    self.entries.append(entry)
        run = next((entry for entry in self.entries if entry.get("what") == "run"), {})
        if self.entries and (run.get("schema") != SCHEMA or run.get("kind") != self.kind):
            raise FlowdiagError(f"'{self.path}' contains a collection of another kind", hint=_HINT)
        if self.entries and run.get("url") != self.url:
            raise FlowdiagError(
                f"'{self.path}' contains a collection from {run.get('url')}", hint=_HINT
            )

    def _lock(self) -> None:
        try:
            import fcntl
        except ImportError:  # not on Windows
            return
        try:
            fcntl.flock(self._manifest.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FlowdiagError(
                f"another `flowdiag collect` is writing to '{self.path}'",
                hint="choose another folder",
            ) from None
        except OSError:
            return  # the file system does not support locks


def _compact(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _write_error(path: Path, error: OSError) -> FlowdiagError:
    return FlowdiagError(
        f"cannot write to '{path}': {error.strerror or error}",
        hint="check that the parent folder exists and that the disk has free space",
    )


def now_ms() -> int:
    """Return the current epoch milliseconds."""
    return int(time.time() * 1000)
