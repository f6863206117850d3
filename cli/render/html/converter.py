"""Vega in a process of its own: what makes it abort ends that process, and costs one picture.

`vl_convert` runs JavaScript and Rust; where either gives up, it ends the process that it runs in. So another
Python (`converting.py`) runs it: started when there is something to draw, again when it ended, killed when
flowdiag ends. One serves all pages of a process, since to start it takes a third of a second.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from flowdiag.parsers.cleanup import Forget, at_exit, kill_now, signals_deferred
from flowdiag.parsers.errors import FlowdiagError

TIMEOUT_S: Final = 30.0
"""For one picture, which takes some hundredths of a second; and for the start."""
_PROGRAM: Final = Path(__file__).with_name("converting.py")


class RefusedError(Exception):
    """One picture cannot be drawn: the library refused it, or ended."""


class SlowError(FlowdiagError):
    """One picture took too long, or the machine ended the process that drew it."""


class NoConverterError(FlowdiagError):
    """Nothing can be drawn: the process does not start."""


@dataclass(slots=True)
class _Process:
    """The other Python: it reads a specification in each line, and answers with a line."""

    popen: subprocess.Popen[bytes]
    forget: Forget
    owner: int = field(default_factory=os.getpid)

    @classmethod
    def start(cls) -> _Process:
        """One that is ready.

        Raises:
            NoConverterError: it does not start.
        """
        try:
            with signals_deferred():
                popen = subprocess.Popen(
                    [sys.executable, "-P", str(_PROGRAM)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                    process_group=0 if os.name == "posix" else None,  # Ctrl-C is for us to handle
                )
                process = cls(popen, at_exit(partial(_kill, popen)))
        except (OSError, ValueError) as error:
            raise NoConverterError(f"the process that draws does not start: {error}") from error
        if process.answer() != b"ready\n":
            process.end()
            raise NoConverterError("the process that draws ended as it started")
        return process

    def answer(self, line: bytes = b"") -> bytes | None:
        """Its answer to a line, which is empty where it ended; None: it took too long, and was killed."""
        late = threading.Event()
        assert self.popen.stdin is not None
        assert self.popen.stdout is not None

        def kill() -> None:
            late.set()
            self.popen.kill()

        timer = threading.Timer(TIMEOUT_S, kill)
        timer.daemon = True
        timer.start()
        answer = b""
        try:
            with contextlib.suppress(OSError):  # it ended before it had read all of it
                if line:
                    self.popen.stdin.write(line)
                    self.popen.stdin.flush()
                answer = self.popen.stdout.readline()
        finally:
            timer.cancel()
        if answer.endswith(b"\n"):
            return answer
        return None if late.is_set() else b""

    def end(self) -> int:
        """Its status, when it is gone."""
        for pipe in (self.popen.stdin, self.popen.stdout):
            with contextlib.suppress(OSError):  # what it did not take any more
                if pipe is not None:
                    pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(1)  # one that aborts says so first
        self.popen.kill()
        status = self.popen.wait()
        self.forget()
        return status


def _kill(popen: subprocess.Popen[bytes]) -> None:
    """End it at once: what reads from it, or writes to it, gets an end of file and lets the pipes go."""
    kill_now(popen)
    for pipe in (popen.stdin, popen.stdout):
        with contextlib.suppress(
            OSError, RuntimeError
        ):  # a signal came while this thread was at the pipe
            if pipe is not None:
                pipe.close()


@dataclass(slots=True)
class Converter:
    """Makes SVG of Vega-Lite, for one thread at a time."""

    _process: _Process | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def svg(self, spec: str) -> str:
        """A picture.

        Args:
            spec: Vega-Lite, as JSON in one line.

        Raises:
            RefusedError: it cannot be drawn; others can.
            SlowError: it took too long; others may not.
            NoConverterError: nothing can be drawn.
        """
        with self._lock:
            process = self._process
            if process is None or process.owner != os.getpid():  # a forked child shares no pipes
                process = self._process = _Process.start()
            answer = process.answer(spec.encode() + b"\n")
            if not answer:
                self._process = None
                status = process.end()
                if answer is None:
                    raise SlowError(f"not drawn within {TIMEOUT_S:.0f} s")
                if status == -9:  # Linux, which had no memory left
                    raise SlowError("the process that drew it was killed")
                raise RefusedError(f"the process that drew it ended with status {status}")
        told = json.loads(answer)
        if "svg" not in told:
            raise RefusedError(told["error"])
        return str(told["svg"])

    def close(self) -> None:
        """End the process, which the next picture would start again."""
        with self._lock:
            if self._process is not None:
                self._process.end()
                self._process = None


CONVERTER: Final = Converter()
"""That of this process."""
