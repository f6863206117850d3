"""What flowdiag tells the user when it cannot go on."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from typing import Final

_NO_ROOM: Final = frozenset(
    {getattr(errno, name, None) for name in ("ENOSPC", "EDQUOT", "EFBIG", "EROFS")} - {None}
)


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint for a word that nobody knows: a near miss, or everything there is.

    >>> nearest("fail-onn", ["format", "fail-on"])
    "did you mean 'fail-on'?"
    """
    from difflib import get_close_matches  # only where something is wrong

    known = list(known)
    near = get_close_matches(word, known, n=1)
    return f"did you mean '{near[0]}'?" if near else f"there are: {', '.join(known) or 'none'}"


class FlowdiagError(Exception):
    """An error that is the user's to mend: one sentence, and what to do about it.

    Args:
        message: lower-case first word, no full stop, names the file or the value.
        hint: one action that helps, or None.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        """Keep the sentence and the hint apart, since they are shown apart."""
        super().__init__(message)
        self.message = message
        self.hint = hint


class InputError(FlowdiagError):
    """No input can be read at all (exit code 2)."""


class Unreadable(ValueError):
    """What an input holds cannot be read, as one clause says: damaged, cut off, too large. No fault of ours."""


def is_disk_full(error: OSError) -> bool:
    """Whether a file could not be written for want of room: a full disk, a quota, a limit of size."""
    return error.errno in _NO_ROOM


# The machine has no more memory, files, processes.
_USED_UP: Final = frozenset({errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN})
# What Python and the system's linker say instead of raising a MemoryError.
_NO_MEMORY: Final = (
    "can't start new thread",
    "failed to map segment",
    "annot allocate memory",
    "cannot create shared object descriptor",
)


def is_out_of_resources(error: BaseException) -> bool:
    """Whether the machine has no more memory, threads or open files, as limits of users and containers set them.

    >>> is_used_up(MemoryError()), is_used_up(RuntimeError("can't start new thread")), is_used_up(OSError(2, "x"))
    (True, True, False)
    """
    if isinstance(error, OSError):
        return error.errno in _USED_UP
    if isinstance(error, RuntimeError | ImportError):
        return any(said in str(error) for said in _NO_MEMORY)
    return isinstance(error, MemoryError)


def out_of_resources(error: BaseException) -> FlowdiagError:
    """What to tell of it.

    >>> used_up(MemoryError()).message
    'not enough memory: MemoryError'
    """
    files = isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)
    return FlowdiagError(
        f"{'too many open files' if files else 'not enough memory'}: {error_text(error) or type(error).__name__}",
        hint="raise the limit (ulimit -a, or that of the container), or give less input",
    )


def no_temporary_space(error: OSError) -> FlowdiagError:
    """What to tell of a temporary file that could not be written.

    >>> no_temporary_room(OSError(28, "No space left on device", "/tmp/flowdiag-x/y")).message
    'cannot write temporary files (/tmp/flowdiag-x/y): no space left on device'
    """
    why = error.strerror or str(error)
    place = f" ({error.filename})" if error.filename else ""
    return FlowdiagError(
        f"cannot write temporary files{place}: {why[:1].lower()}{why[1:]}",
        hint="set TMPDIR to a folder that you may write to, with more room",
    )


def error_text(error: BaseException | None) -> str:
    """What an exception says; py4j's ask their JVM for it, which may be gone."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - of whatever kind
        return type(error).__name__
