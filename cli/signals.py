"""Handles signals of the `flowdiag` process: they end it immediately, unless a command overrides that.

Imports little, because until the handlers are installed Python answers signals with a traceback.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from types import FrameType

_SIGNALS: Final = ("SIGINT", "SIGTERM", "SIGHUP")  # Windows lacks SIGHUP

_overrides: Final[list[Callable[[int], None]]] = []


def handle_signals(handler: Callable[[int, FrameType | None], None]) -> None:
    """Install a signal handler, except for signals that the parent ignores (`nohup`)."""
    for name in _SIGNALS:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def on_signal(number: int, frame: FrameType | None) -> None:
    """Call the override for the first signal, or clean up and end the process."""
    from flowdiag.parsers import cleanup

    if _overrides:
        _overrides.pop()(number)
    else:
        cleanup.end_now(128 + number)


def override_signals(act: Callable[[int], None]) -> AbstractContextManager[None]:
    """Call `act` with the number of the first signal; the second signal ends the process.

    It has no effect unless `flowdiag.cli.process.run` runs this process.
    """
    from contextlib import contextmanager

    @contextmanager
    def override() -> Iterator[None]:
        _overrides.append(act)
        try:
            yield
        finally:
            if act in _overrides:
                _overrides.remove(act)

    return override()
