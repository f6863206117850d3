"""Which files may be read: those below the folders that the server was started with, and no others.

Whoever asks may be a program that a log has told what to ask for. So a path counts as what it is once every
link in it is followed; a folder is refused if anything below it leads out. Whether something lies outside is
never told.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from flowdiag.parsers.errors import FlowdiagError

MOST_PATHS: Final = 50  # of one call
_MOST_ENTRIES: Final = 100_000  # of one folder: more are not looked through for links
_OUTSIDE: Final = "lies outside of the folders that this server may read"


class Roots:
    """The folders that may be read, and everything below."""

    def __init__(self, folders: Sequence[str]) -> None:
        """Follow their links once, when the server starts.

        Raises:
            FlowdiagError: there is none, or one is no folder.
        """
        self.folders: list[Path] = []
        for folder in folders:
            path = Path(folder)
            if not path.is_dir():
                raise FlowdiagError(f"--root '{folder}' is no folder")
            self.folders.append(path.resolve())
        if not self.folders:
            raise FlowdiagError("no folder may be read", hint="name one with --root DIR")

    def find(self, given: Sequence[str]) -> list[str]:
        """The files and folders that paths name, as absolute paths without links.

        Args:
            given: absolute, or relative to a root; globs are taken apart.

        Raises:
            FlowdiagError: one is none, or may not be read.
        """
        if not given:
            raise FlowdiagError("no path was given", hint=f"one of {self.described()}, or below it")
        if len(given) > MOST_PATHS:
            raise FlowdiagError(f"{len(given)} paths; at most {MOST_PATHS} in one call")
        found = [path for each in given for path in self._find(each)]
        return list(dict.fromkeys(found))

    def described(self) -> str:
        """The roots, for messages."""
        return ", ".join(map(str, self.folders))

    def holds(self, path: Path) -> bool:
        """Whether a path without links lies below a root."""
        return any(path.is_relative_to(folder) for folder in self.folders)

    def _find(self, given: str) -> Iterator[str]:
        if "\0" in given or "://" in given or given.strip() in ("", "-"):
            raise FlowdiagError(
                f"'{given}' is no file", hint="only files and folders are read, no URLs or streams"
            )
        candidates = self._candidates(given)
        inside = [path for path in candidates if self._inside(path)]
        if not inside:
            # The same words for what is not there: who asks learns nothing of what lies outside.
            raise FlowdiagError(
                f"'{given}' is not there, or {_OUTSIDE}", hint=f"they are {self.described()}"
            )
        for path in inside:
            self._check_links(path)
            yield str(path.resolve())

    def _candidates(self, given: str) -> list[Path]:
        """What a path may mean, as the first root says that has it."""
        for folder in self.folders:
            path = folder / given  # an absolute one stays as it is
            if self._inside(path):
                return [path]
            if glob.has_magic(given) and ".." not in Path(given).parts:
                matches = [Path(each) for each in sorted(glob.glob(str(path), recursive=True))]
                inside = [match for match in matches if self._inside(match)]
                if inside:
                    return inside[:MOST_PATHS]
        return []

    def _inside(self, path: Path) -> bool:
        try:
            return self.holds(path.resolve(strict=True))
        except (OSError, RuntimeError):
            return False

    def _check_links(self, path: Path) -> None:
        """Refuse a folder with a link that leads out.

        Raises:
            FlowdiagError: there is one, or there is too much to look through.
        """
        entries = 0
        for folder, folders, files in os.walk(path):
            for name in (*folders, *files):
                entries += 1
                if entries > _MOST_ENTRIES:
                    raise FlowdiagError(
                        f"'{path}' holds more than {_MOST_ENTRIES:,} files", hint="name one of them"
                    )
                link = Path(folder, name)
                if link.is_symlink() and link.exists() and not self._inside(link):
                    raise FlowdiagError(
                        f"'{link}' is a link, and what it leads to {_OUTSIDE}",
                        hint="name the files beside it, or start the server with --root for that folder, too",
                    )
