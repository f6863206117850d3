"""Writes the folder of a collection that consists of many kinds of files."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.live.client import RequestFailed
from flowdiag.parsers.sources.collected import MANIFEST

Json = Mapping[str, Any]

FILE_BYTES: Final = 4 * 1024 * 1024
"""Maximum size of a file with a list, because the parsers read such files as a whole."""


class SnapshotFolder:
    """A folder in which every file is complete and free of secrets, with a manifest."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.names: set[str] = set()
        self._lock = threading.Lock()
        try:
            path.mkdir(parents=True, exist_ok=True)
            if any(not each.startswith(".") for each in os.listdir(path)):
                raise FlowdiagError(f"'{path}' contains other files", hint="choose an empty folder")
        except OSError as error:
            raise unwritable(path, error) from None

    def note(self, **entry: Any) -> None:
        """Append a line to the manifest."""
        try:
            with self._lock, (self.path / MANIFEST).open("ab") as file:
                file.write(json.dumps(entry, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
        except OSError as error:
            raise unwritable(self.path, error) from None

    def write(self, name: str, pieces: Iterable[bytes]) -> int:
        """Write a file from its pieces, and return its size. Without any bytes, no file is created.

        If the pieces raise `RequestFailed`, the file keeps the bytes before that.
        """
        target, size = self.path / name, 0
        hidden = target.with_name(f".{target.name}")
        try:
            target.parent.mkdir(exist_ok=True)
            with hidden.open("wb") as file:
                try:
                    for piece in pieces:
                        file.write(piece)
                        size += len(piece)
                finally:
                    file.flush()
            if size:
                self._publish(hidden, name, size)
        except RequestFailed:
            if size:
                self._publish(hidden, name, size, complete=False)
            raise
        except OSError as error:
            raise unwritable(self.path, error) from None
        finally:
            with suppress(OSError):
                hidden.unlink(missing_ok=True)
        return size

    def _publish(self, hidden: Path, name: str, size: int, *, complete: bool = True) -> None:
        hidden.replace(self.path / name)
        with self._lock:
            self.names.add(name)
        self.note(what="file", file=name, bytes=size, complete=complete)

    def write_object(self, name: str, value: Json) -> None:
        """Write an object in kubectl's format."""
        text = json.dumps(value, indent=2, ensure_ascii=False)
        self.write(f"{name}.json", [text.encode("utf-8", "replace"), b"\n"])

    def write_list(self, name: str, items: Iterable[Json]) -> None:
        """Write objects as lists, split into files below the size limit."""
        batch: list[Json] = []
        number = size = 0
        for item in items:
            batch.append(item)
            size += len(json.dumps(item, indent=2))
            if size > FILE_BYTES:
                number += 1
                self.write_object(f"{name}-{number:03}", _list_of(batch))
                batch, size = [], 0
        if batch:
            self.write_object(f"{name}-{number + 1:03}", _list_of(batch))


def _list_of(items: Sequence[Json]) -> Json:
    return {"apiVersion": "v1", "kind": "List", "items": items}


COMPLETE: Final = "all data is collected"
PARTIAL: Final = "the warnings show what is missing"
"""The normal ends of a collection, with and without warnings."""


class Failures:
    """Collects the reasons for missing data, each with the places affected."""

    def __init__(self) -> None:
        self._places: dict[str, list[str]] = {}
        self._lock = threading.Lock()

    def add(self, why: str, place: str | None = None) -> None:
        """Add a reason and the place affected."""
        with self._lock:
            places = self._places.setdefault(why, [])
            if place is not None and place not in places:
                places.append(place)

    def texts(self) -> Iterator[str]:
        """Yield one line per reason."""
        for why, places in self._places.items():
            if not places:
                yield why
            elif len(places) == 1:
                yield f"{places[0]}: {why}"
            else:
                yield f"{places[0]} and {len(places) - 1} more: {why}"


def unwritable(path: Path, error: OSError) -> FlowdiagError:
    """Return the user error for a folder that is not writable."""
    return FlowdiagError(
        f"cannot write to '{path}': {error.strerror or error}",
        hint="check that the parent folder exists and that the disk has free space",
    )
