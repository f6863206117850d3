"""Errors that end a command with a message and a hint for the user."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from typing import Final

_DISK_FULL: Final = frozenset(
    {getattr(errno, name, None) for name in ("ENOSPC", "EDQUOT", "EFBIG", "EROFS")} - {None}
)


def nearest(word: str, known: Iterable[str]) -> str:
    """Return a hint for an unknown word: the closest known word, or the list of all known words.

    >>> nearest("fail-onn", ["format", "fail-on"])
    "did you mean 'fail-on'?"
    """
    from difflib import get_close_matches  # imported only on errors

    known = list(known)
    near = get_close_matches(word, known, n=1)
    return f"did you mean '{near[0]}'?" if near else f"known: {', '.join(known) or 'none'}"


class FlowdiagError(Exception):
    """An error that the user can fix: one sentence and a hint.

    Args:
        message: starts in lower case, has no full stop, and contains the file or value in question.
        hint: one action that helps, or None. It is shown separately from the message.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class InputError(FlowdiagError):
    """No input can be read (exit code 2)."""


class Unreadable(ValueError):
    """An input is damaged, truncated or too large. The message is one clause. This is not a bug in flowdiag."""


def is_disk_full(error: OSError) -> bool:
    """Return whether a write failed for lack of space: a full disk, a quota, a file size limit."""
    return error.errno in _DISK_FULL


# No memory, file descriptors or processes left.
_OUT_OF_RESOURCES: Final = frozenset({errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN})
# Messages of Python and the dynamic linker that replace a MemoryError.
_NO_MEMORY: Final = (
    "can't start new thread",
    "failed to map segment",
    "annot allocate memory",
    "cannot create shared object descriptor",
)


def is_out_of_resources(error: BaseException) -> bool:
    """Return whether the process reached a limit on memory, threads or open files.

    >>> [is_out_of_resources(error) for error in (MemoryError(), RuntimeError("can't start new thread"), OSError(2))]
    [True, True, False]
    """
    if isinstance(error, OSError):
        return error.errno in _OUT_OF_RESOURCES
    if isinstance(error, RuntimeError | ImportError):
        return any(phrase in str(error) for phrase in _NO_MEMORY)
    return isinstance(error, MemoryError)


def out_of_resources(error: BaseException) -> FlowdiagError:
    """Return the user error for an error that `is_out_of_resources` accepts.

    >>> out_of_resources(MemoryError()).message
    'not enough memory: MemoryError'
    """
    files = isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)
    return FlowdiagError(
        f"{'too many open files' if files else 'not enough memory'}: {error_text(error) or type(error).__name__}",
        hint="raise the limit (see ulimit -a, or the limits of the container), or pass less input",
    )


def no_temporary_space(error: OSError) -> FlowdiagError:
    """Return the user error for a failed write of a temporary file.

    >>> no_temporary_space(OSError(28, "No space left on device", "/tmp/flowdiag-x/y")).message
    'cannot write temporary files (/tmp/flowdiag-x/y): no space left on device'
    """
    why = error.strerror or str(error)
    place = f" ({error.filename})" if error.filename else ""
    return FlowdiagError(
        f"cannot write temporary files{place}: {why[:1].lower()}{why[1:]}",
        hint="set TMPDIR to a writable folder with more free space",
    )


def error_clause(error: BaseException) -> str:
    """Describe an error in one clause: the operating system's message or, failing that, the error's own message or
    type.

    >>> error_clause(OSError(28, "No space left on device")), error_clause(ValueError())
    ('no space left on device', 'ValueError')
    """
    if isinstance(error, OSError) and error.strerror:
        return error.strerror[:1].lower() + error.strerror[1:]
    return str(error) or type(error).__name__


def error_text(error: BaseException | None) -> str:
    """Return the message of an exception. Empty for a Py4J error whose JVM, which has the message, is gone."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - py4j raises various types
        return type(error).__name__
