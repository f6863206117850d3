"""The `flowdiag` process from start to end: signals, standard streams, exit status.

Ctrl-C, SIGTERM and a closed terminal end the process immediately, at any point. `flowdiag.parsers.cleanup`
kills child processes and removes temporary files; nothing is unwound or printed. An exception, which Python
would raise at Ctrl-C, would pass through libraries that mistake it for a broken connection.

`flowdiag.cli.app.main` runs a command inside another process and changes none of this.
"""

# Few imports come before the signal handlers: until then Python answers signals with a traceback.
from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NoReturn

from flowdiag.cli.signals import handle_signals, on_signal

if TYPE_CHECKING:
    from collections.abc import Callable


def run(main: Callable[[], int]) -> NoReturn:
    """Run the main function of a process, and end the process with its exit status.

    Args:
        main: does its own imports, so that the signal handlers are installed before them.
    """
    handle_signals(lambda number, frame: os._exit(128 + number))
    from flowdiag.parsers import cleanup

    handle_signals(on_signal)
    _open_streams()
    try:
        status = int(main())
    except (MemoryError, ImportError) as error:  # before the error reporting is loaded
        from flowdiag.parsers.errors import is_out_of_resources

        if not is_out_of_resources(error):
            raise
        os.write(2, b"error: not enough memory to start\n  hint: raise the limit (ulimit -a)\n")
        status = 2
    cleanup.clean_up()
    # Skip the interpreter's own shutdown, which takes time and has no benefit here.
    os._exit(status)


def _open_streams() -> None:
    """Replace closed standard streams.

    Otherwise a file opened later would get the number of a closed stream, and would receive the text for that stream.
    The replacement of standard output is read-only, so writing the report fails with an error.
    """
    for number, mode in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)  # opens the lowest free number, which is this one
    if sys.stdin is None:
        sys.stdin = os.fdopen(0)
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w")
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w")
