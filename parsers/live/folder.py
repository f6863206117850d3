"""The folder that a collection lives in: one JSON file per tick, and a manifest of lines.

Files are written under a hidden name and renamed when they are complete; the manifest only grows. So
whatever ends a collection, every file in the folder is whole, and a later run goes on where it ended.

A file of a tick:

    {"schema": "flowdiag.collected/1", "kind": "flink", "tick": 3, "time_ms": …, "complete": true,
     "context": {…names and places that the answers lack…},
     "answers": [
    {"path": "/jobs/…/checkpoints", "time_ms": …, "body": …},
    …]}

It says itself what it answers and when, so that it can be read without the others. The manifest's lines
have `what`: `run` (begin of a run), `tick` (a file, its requests, bytes and failures), `end`.
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

_HINT: Final = "choose an empty folder, or one that `flowdiag collect` made"


class Folder:
    """A collection on disk, open for more."""

    def __init__(self, path: str | Path, kind: str, url: str) -> None:
        """Make the folder, or go on with the collection that is in it.

        Args:
            path: of the folder.
            kind: flink, spark or prometheus.
            url: of the server; credentials in it are left out.

        Raises:
            FlowdiagError: the folder holds something else, or cannot be written.
        """
        self.path, self.kind, self.url = Path(path), kind, base_of(url)[0]
        self.entries: list[Json] = []
        """What the manifest said before this run."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._read_manifest()
            for left in self.path.glob(".tick-*"):  # of a run that was killed
                left.unlink()
            self._manifest: IO[bytes] = (self.path / MANIFEST).open("ab")
        except OSError as error:
            raise _unwritable(self.path, error) from None
        try:
            self._lock()
            self._end_torn_line()
        except BaseException:
            self._manifest.close()
            raise
        numbers = [
            int(part)
            for found in self.path.glob("tick-*.json*")
            if (part := found.name.split("-")[1].split(".")[0]).isdecimal()
        ]
        self.tick = max(numbers, default=0)
        """The number of the last file."""

    @property
    def resumed(self) -> bool:
        """Whether there was a collection before."""
        return bool(self.entries)

    def close(self) -> None:
        """Let others write."""
        self._manifest.close()

    def note(self, **entry: Any) -> None:
        """Add a line to the manifest, and have it on the disk."""
        try:
            self._manifest.write(
                json.dumps(entry, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
            )
            self._manifest.flush()
            os.fsync(self._manifest.fileno())
        except OSError as error:
            raise _unwritable(self.path, error) from None

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
            answers: objects with `path`, `time_ms`, `body` and perhaps `at_ms` (when the values were true).
            time_ms: when the tick began.
            context: names and places.
            complete: the tick was not interrupted.

        Returns:
            the file's name and its size.
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
            raise _unwritable(self.path, error) from None
        return name, len(data)

    def _read_manifest(self) -> None:
        manifest = self.path / MANIFEST
        if not manifest.exists():
            visible = [name for name in os.listdir(self.path) if not name.startswith(".")]
            if visible:
                raise FlowdiagError(f"'{self.path}' holds other files", hint=_HINT)
            return
        for line in manifest.read_bytes().split(b"\n"):
            with suppress(ValueError):  # the last line of a run that was killed
                entry = json.loads(line)
                if isinstance(entry, dict):
                    self.entries.append(entry)
        run = next((entry for entry in self.entries if entry.get("what") == "run"), {})
        if self.entries and (run.get("schema") != SCHEMA or run.get("kind") != self.kind):
            raise FlowdiagError(f"'{self.path}' holds a collection of another kind", hint=_HINT)
        if self.entries and run.get("url") != self.url:
            raise FlowdiagError(
                f"'{self.path}' holds what was collected from {run.get('url')}", hint=_HINT
            )

    def _end_torn_line(self) -> None:
        data = (self.path / MANIFEST).read_bytes()
        if data and not data.endswith(b"\n"):
            self._manifest.write(b"\n")
            self._manifest.flush()

    def _lock(self) -> None:
        try:
            import fcntl
        except ImportError:  # not on Windows
            return
        try:
            fcntl.flock(self._manifest.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise FlowdiagError(
                f"another `flowdiag collect` writes to '{self.path}'", hint="choose another folder"
            ) from None
        except OSError:
            return  # a file system without locks


def _compact(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _unwritable(path: Path, error: OSError) -> FlowdiagError:
    return FlowdiagError(
        f"cannot write to '{path}': {error.strerror or error}",
        hint="does the folder above exist, and is there room on the disk?",
    )


def now_ms() -> int:
    """Epoch milliseconds."""
    return int(time.time() * 1000)
