"""Limits the files that clients may read to the folders of `--root`.

Text in a log may instruct an agent to read other files. Paths are therefore checked after following all links, and a
folder with a link to the outside is rejected. Error messages never reveal whether a path outside exists.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from flowdiag.parsers.errors import FlowdiagError

MOST_PATHS: Final = 50  # maximum number of paths per call
_MOST_ENTRIES: Final = 100_000  # maximum number in a folder; larger folders are rejected
_OUTSIDE: Final = "is outside the folders that this server may read"


class Roots:
    """The folders that clients may read, including subfolders."""

    def __init__(self, folders: Sequence[str]) -> None:
        """Resolve the links of the folders.

        Raises:
            FlowdiagError: there is no folder, or a path is not a folder.
        """
        self.folders: list[Path] = []
        for folder in folders:
            path = Path(folder)
            if not path.is_dir():
                raise FlowdiagError(f"--root '{folder}' is not a folder")
            self.folders.append(path.resolve())
        if not self.folders:
            raise FlowdiagError("no root folder", hint="add one with --root DIR")

    def find(self, given: Sequence[str]) -> list[str]:
        """Resolve paths to absolute paths without links.

        Args:
            given: absolute paths, paths relative to a root, or globs.

        Raises:
            FlowdiagError: a path does not exist, or clients may not read it.
        """
        if not given:
            raise FlowdiagError("no path", hint=f"pass paths below {self.description()}")
        if len(given) > MOST_PATHS:
            raise FlowdiagError(
                f"{len(given)} paths, more than the {MOST_PATHS} allowed in one call"
            )
        found = [path for each in given for path in self._find(each)]
        return list(dict.fromkeys(found))

    def description(self) -> str:
        return ", ".join(map(str, self.folders))

    def contains(self, path: Path) -> bool:
        """Return whether a resolved path is under a root."""
        return any(path.is_relative_to(folder) for folder in self.folders)

    def _find(self, given: str) -> Iterator[str]:
        if "\0" in given or "://" in given or given.strip() in ("", "-"):
            raise FlowdiagError(
                f"'{given}' is not a file", hint="pass files and folders, not URLs or streams"
            )
        candidates = self._candidates(given)
        inside = [path for path in candidates if self._is_inside(path)]
        if not inside:
            # The message must not reveal whether the path exists outside the roots.
            raise FlowdiagError(
                f"'{given}' does not exist, or {_OUTSIDE}",
                hint=f"these folders: {self.description()}",
            )
        for path in inside:
            self._check_links(path)
            yield str(path.resolve())

    def _candidates(self, given: str) -> list[Path]:
        """Return the paths that match in the first root with a match."""
        for folder in self.folders:
            path = folder / given  # an absolute path stays unchanged
            if self._is_inside(path):
                return [path]
            if glob.has_magic(given) and ".." not in Path(given).parts:
                matches = [Path(each) for each in sorted(glob.glob(str(path), recursive=True))]
                inside = [match for match in matches if self._is_inside(match)]
                if inside:
                    return inside[:MOST_PATHS]
        return []

    def _is_inside(self, path: Path) -> bool:
        try:
            return self.contains(path.resolve(strict=True))
        except (OSError, RuntimeError):
            return False

    def _check_links(self, path: Path) -> None:
        """Reject a folder with a link to the outside.

        Raises:
            FlowdiagError: there is such a link, or the folder is too large to check.
        """
        entries = 0
        for folder, folders, files in os.walk(path):
            for name in (*folders, *files):
                entries += 1
                if entries > _MOST_ENTRIES:
                    raise FlowdiagError(
                        f"'{path}' contains more than {_MOST_ENTRIES:,} files",
                        hint="pass single files",
                    )
                link = Path(folder, name)
                if link.is_symlink() and link.exists() and not self._is_inside(link):
                    raise FlowdiagError(
                        f"'{link}' is a link, and its target {_OUTSIDE}",
                        hint="pass the other files one by one, or start the server with another --root for the target",
                    )
