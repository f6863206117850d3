"""Runs Vega in a separate process, so that a crash costs only one chart.

`vl_convert` runs JavaScript and Rust, and a panic ends its process. A second Python process (`converting.py`) runs it.
It starts with the first chart, restarts after a crash, and ends with flowdiag. It serves all pages of this process,
because its start takes a third of a second.
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
"""Timeout for the start and for each chart. A chart normally takes a few hundredths of a second."""
_PROGRAM: Final = Path(__file__).with_name("converting.py")


class RefusedError(Exception):
    """A chart cannot be drawn: the library rejected it, or crashed."""


class SlowError(FlowdiagError):
    """A chart took too long, or the operating system killed the process."""


class NoConverterError(FlowdiagError):
    """No chart can be drawn: the process does not start."""


@dataclass(slots=True)
class _Process:
    """The converter process. For each specification, one per line, it writes one line of output."""

    popen: subprocess.Popen[bytes]
    forget: Forget
    owner: int = field(default_factory=os.getpid)

    @classmethod
    def start(cls) -> _Process:
        """Start a process and wait until it is ready.

        Raises:
            NoConverterError: the process does not start.
        """
        try:
            with signals_deferred():
                popen = subprocess.Popen(
                    [sys.executable, "-P", str(_PROGRAM)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                    process_group=0
                    if os.name == "posix"
                    else None,  # Ctrl-C must reach flowdiag only
                )
                process = cls(popen, at_exit(partial(_kill, popen)))
        except (OSError, ValueError) as error:
            raise NoConverterError(f"the chart process did not start: {error}") from error
        if process.answer() != b"ready\n":
            process.end()
            raise NoConverterError("the chart process exited during its start")
        return process

    def answer(self, line: bytes = b"") -> bytes | None:
        """Send a line and return the answer: empty if the process exited, None if it was too slow and was killed."""
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
            with contextlib.suppress(OSError):  # the process exited before it read the whole line
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
        """End the process and return its exit code."""
        for pipe in (self.popen.stdin, self.popen.stdout):
            with contextlib.suppress(OSError):  # unwritten data
                if pipe is not None:
                    pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.popen.wait(1)  # an aborting process first writes its message
        self.popen.kill()
        status = self.popen.wait()
        self.forget()
        return status


def _kill(popen: subprocess.Popen[bytes]) -> None:
    """Kill the process and close its pipes, so that threads blocked on them see the end of the file."""
    kill_now(popen)
    for pipe in (popen.stdin, popen.stdout):
        with contextlib.suppress(
            OSError, RuntimeError
        ):  # a signal handler may interrupt this thread at the pipe
            if pipe is not None:
                pipe.close()


@dataclass(slots=True)
class Converter:
    """Converts Vega-Lite to SVG, for one thread at a time."""

    _process: _Process | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def svg(self, spec: str) -> str:
        """Return a chart as SVG.

        Args:
            spec: Vega-Lite as JSON in one line.

        Raises:
            RefusedError: this chart cannot be drawn; others can.
            SlowError: this chart took too long.
            NoConverterError: no chart can be drawn.
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
                if status == -9:  # killed by Linux, for lack of memory
                    raise SlowError("the chart process was killed")
                raise RefusedError(f"the chart process exited with code {status}")
        result = json.loads(answer)
        if "svg" not in result:
            raise RefusedError(result["error"])
        return str(result["svg"])

    def close(self) -> None:
        """End the process; the next chart starts a new process."""
        with self._lock:
            if self._process is not None:
                self._process.end()
                self._process = None


CONVERTER: Final = Converter()
"""The converter of this process."""
