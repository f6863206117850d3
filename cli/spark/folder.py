"""The private folder of a session: for sockets, spill files and logs, gone when the session is."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import IO, Final

_PREFIX: Final = "flowdiag-"
_LOCK: Final = "in-use"


def private_folder() -> tuple[Path, IO[bytes]]:
    """A folder only we can read (mkdtemp's mode is 0700), and the lock that says it is in use."""
    parent = Path(tempfile.gettempdir())
    remove_left_overs(parent)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    lock = (folder / _LOCK).open("wb")
    if os.name == "posix":
        import fcntl

        fcntl.flock(lock, fcntl.LOCK_EX)
    return folder, lock


def remove_left_overs(parent: Path) -> None:
    """Remove the folders of our own earlier processes that were killed: their locks are free."""
    if os.name != "posix":
        return
    import fcntl

    for folder in parent.glob(_PREFIX + "*"):
        try:
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            with (folder / _LOCK).open("r+b") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue  # in use, gone meanwhile, or none of ours
