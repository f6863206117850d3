"""An agent session: the process that runs the diagnosis, and its reports.

The process handles one request at a time. A timeout or a canceled request kills it and all its children, including
Java. The next request starts a new process.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

import anyio
import msgspec
from anyio.abc import ByteReceiveStream, ByteSendStream, Process
from anyio.streams.buffered import BufferedByteReceiveStream

from flowdiag.analyses.contract.report import Report
from flowdiag.analyses.model.fmt import duration
from flowdiag.cli.settings import Settings
from flowdiag.parsers.errors import FlowdiagError

MOST_REPORTS: Final = 8
_MOST_BYTES: Final = 256 << 20  # maximum size of one answer of the worker
_GRACE_S: Final = 10.0

ReportProgress = Callable[[str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class SessionReport:
    """A report of this session.

    Args:
        name: its name in later requests, such as `r1`.
        report: the whole report.
        paths: the resolved paths of its inputs.
    """

    name: str
    report: Report
    paths: tuple[str, ...]


class Session:
    def __init__(self, settings: Settings, timeout_s: float) -> None:
        self._settings, self._timeout_s = settings, timeout_s
        self._lock = anyio.Lock()
        self._process: Process | None = None
        self._answers: BufferedByteReceiveStream | None = None
        self._reports: dict[str, SessionReport] = {}
        self._made = 0

    async def diagnose(self, request: dict[str, Any], progress: ReportProgress) -> SessionReport:
        """Diagnose and store the report.

        Args:
            request: `topic`, `paths`, `since`, `until`, `job`, `tz`.
            progress: receives the current step.

        Raises:
            FlowdiagError: the diagnosis failed or timed out.
        """
        answer = await self._ask({"do": "diagnose", **request}, progress)
        self._made += 1
        report = msgspec.convert(answer["report"], type=Report)
        stored = SessionReport(f"r{self._made}", report, tuple(request["paths"]))
        self._reports[stored.name] = stored
        while len(self._reports) > MOST_REPORTS:
            self._reports.pop(next(iter(self._reports)))
        return stored

    async def lines(
        self, paths: tuple[str, ...], places: list[tuple[str, int]], around: int
    ) -> list[dict[str, Any]]:
        """Return the lines around records; see `worker.lines_around`."""
        request = {"do": "lines", "paths": paths, "places": places, "around": around}
        answer = await self._ask(request, _ignore_progress)
        return list(answer["lines"])

    def report(self, name: str | None) -> SessionReport:
        """Return a report by name, or the last report.

        Raises:
            FlowdiagError: there is no such report.
        """
        if name is None and self._reports:
            return self._reports[next(reversed(self._reports))]
        if name in self._reports:
            return self._reports[name]
        known = f"available: {', '.join(self._reports)}" if self._reports else "call diagnose first"
        raise FlowdiagError(f"there is no report '{name}'" if name else "no report yet", hint=known)

    async def close(self) -> None:
        """End the worker process and its children."""
        process, self._process, self._answers = self._process, None, None
        if process is None:
            return
        with anyio.CancelScope(shield=True):
            if process.returncode is None:
                process.terminate()
                with anyio.move_on_after(_GRACE_S):
                    await process.wait()
                if process.returncode is None:
                    process.kill()
                    await process.wait()
            await process.aclose()

    async def _ask(self, request: dict[str, Any], progress: ReportProgress) -> dict[str, Any]:
        async with self._lock:
            answer: dict[str, Any] | None = None
            try:
                with anyio.fail_after(self._timeout_s):
                    answer = await self._request(request, progress)
            except TimeoutError:
                raise FlowdiagError(
                    f"no response within {duration(self._timeout_s * 1000)}",
                    hint="pass fewer inputs or a shorter period, or start the server with a longer --timeout",
                ) from None
            except (anyio.BrokenResourceError, anyio.EndOfStream, anyio.IncompleteRead):
                raise FlowdiagError(
                    "the diagnosis process exited without a response",
                    hint="try again; the server's standard error shows the reason",
                ) from None
            finally:
                if answer is None:
                    await self.close()
        if "error" in answer:
            raise FlowdiagError(answer["error"], hint=answer.get("hint"))
        return answer

    async def _request(self, request: dict[str, Any], progress: ReportProgress) -> dict[str, Any]:
        requests, answers = await self._streams()
        await requests.send(json.dumps(request).encode() + b"\n")
        while True:
            line = await answers.receive_until(b"\n", _MOST_BYTES)
            answer: dict[str, Any] = json.loads(line)
            if "progress" not in answer:
                return answer
            await progress(answer["progress"])

    async def _streams(self) -> tuple[ByteSendStream, BufferedByteReceiveStream]:
        if self._process is None:
            # A cancellation during the start would leave an orphaned process.
            with anyio.CancelScope(shield=True):
                self._process = await anyio.open_process(
                    [
                        *(sys.executable, "-P", "-m", "flowdiag.cli.mcp.worker"),
                        msgspec.json.encode(self._settings).decode(),
                    ],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=None,
                )
        assert self._process is not None
        requests, answers = self._process.stdin, self._process.stdout
        assert requests is not None and answers is not None
        if self._answers is None:
            stream: ByteReceiveStream = answers
            self._answers = BufferedByteReceiveStream(stream)
        return requests, self._answers


async def _ignore_progress(text: str) -> None:
    pass
