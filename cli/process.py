"""The process `flowdiag`, from its first moment to its last: signals, standard streams, the exit status.

Ctrl-C, SIGTERM and a closed terminal end it at once, wherever it is: what it started is killed, what it
made is removed (`flowdiag.parsers.cleanup`), and nothing is unwound or said. To raise an exception
instead, as Python does at Ctrl-C, would lead through libraries that take it for a broken connection.

`flowdiag.cli.app.main` is for whoever runs a command within a process of his own: it sets none of this.
"""

# Little is imported before signals are obeyed: until then Python answers them itself, with a traceback.
from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Final, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from types import FrameType

_SIGNALS: Final = ("SIGINT", "SIGTERM", "SIGHUP")  # some systems lack the last

_instead: Final[list[Callable[[int], None]]] = []


def start(run: Callable[[], int] | None = None) -> NoReturn:
    """Run the command line of the process.

    Args:
        run: what it does instead, for a process that flowdiag starts itself.
    """
    _obey_signals(lambda number, frame: os._exit(128 + number))
    from flowdiag.parsers import cleanup

    _obey_signals(_arrived)
    _open_streams()
    try:
        if run is None:
            from flowdiag.cli.app import main

            run = main
        status = int(run())
    except (MemoryError, ImportError) as error:  # before anything is there that could tell it
        from flowdiag.parsers.errors import is_out_of_resources

        if not is_out_of_resources(error):
            raise
        os.write(2, b"error: not enough memory to start\n  hint: raise the limit (ulimit -a)\n")
        status = 2
    cleanup.clean_up()
    # What the interpreter does at its end takes a while and is of no use.
    os._exit(status)


def _obey_signals(handler: Callable[[int, FrameType | None], None]) -> None:
    """Handle signals, but for those that whoever started the process wants ignored (`nohup`)."""
    for name in _SIGNALS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _arrived(number: int, frame: FrameType | None) -> None:
    from flowdiag.parsers import cleanup

    if _instead:
        _instead.pop()(number)
    else:
        cleanup.end_now(128 + number)


def instead(act: Callable[[int], None]) -> AbstractContextManager[None]:
    """Do something else at the first signal, in the main thread; the second one ends the process.

    Only for a process that `start` runs: elsewhere signals are not ours to handle.

    Args:
        act: given the signal's number.
    """
    from contextlib import contextmanager

    @contextmanager
    def replaced() -> Iterator[None]:
        _instead.append(act)
        try:
            yield
        finally:
            if act in _instead:
                _instead.remove(act)

    return replaced()


def _open_streams() -> None:
    """Put something in the place of standard streams that are closed.

    A file opened later would get the number of a closed one, and what is meant for a reader would go
    into it. What stands in for standard output takes no bytes, so that the report's loss is told.
    """
    for number, mode in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)  # the lowest number that is free is this one
    if sys.stdin is None:
        sys.stdin = os.fdopen(0)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w")
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w")
