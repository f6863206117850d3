"""The private folder of a session for spill files, rows and logs. It is removed with the session."""

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
    """A folder that only this user can enter, and the lock that marks it as in use.

    Attributes:
        unregister: cancels the removal at exit.
    """

    path: Path
    lock: IO[bytes]
    unregister: Callable[[], object]

    @classmethod
    def create(cls) -> Self:
        """Create a folder, after removing the folders of killed flowdiag processes.

        Raises:
            FlowdiagError: no folder for temporary files has free space.
        """
        try:
            remove_leftovers(Path(tempfile.gettempdir()))
            path, unregister = private_folder(_PREFIX)
            lock = lock_folder(path)
        except OSError as error:
            raise no_temporary_space(error) from error
        return cls(path=path, lock=lock, unregister=unregister)

    def remove(self) -> None:
        self.lock.close()
        remove_folder(self.path)
        self.unregister()


def remove_leftovers(parent: Path) -> None:
    """Remove this user's folders whose lock is free: their processes were killed."""
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
            continue  # in use, already removed, or another user's
