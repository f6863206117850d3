"""The private folder of a session: for spill files, rows and logs, gone when the session is."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Self

from flowdiag.parsers.cleanup import LOCK, lock_folder, private_folder, remove_folder
from flowdiag.parsers.errors import no_temporary_space

_PREFIX: Final = "flowdiag-"


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateFolder:
    """A folder only we can enter, and the lock that says it is in use."""

    path: Path
    lock: IO[bytes]
    forget: Callable[[], object]

    @classmethod
    def made(cls) -> Self:
        """A new one; those of our own earlier processes that were killed are removed.

        Raises:
            FlowdiagError: there is no folder for temporary files with room.
        """
        try:
            remove_left_overs(Path(tempfile.gettempdir()))
            path, forget = private_folder(_PREFIX)
            lock = lock_folder(path)
        except OSError as error:
            raise no_temporary_space(error) from error
        return cls(path=path, lock=lock, forget=forget)

    def remove(self) -> None:
        """Remove it, now that nobody uses it."""
        self.lock.close()
        remove_folder(self.path)
        self.forget()


def remove_left_overs(parent: Path) -> None:
    """Remove the folders of our own earlier processes that were killed: their locks are free."""
    if os.name != "posix":
        return
    import fcntl

    for folder in parent.glob(_PREFIX + "*"):
        try:
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            with (folder / LOCK).open("r+b") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue  # in use, gone meanwhile, or none of ours
