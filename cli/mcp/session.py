"""One session of an agent: the process that diagnoses, and the reports that it made.

One request at a time. What takes too long, and what nobody wants any more, ends with its process: Java and all
that it started go with it, and the next request starts another one.
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

from flowdiag.analyses.model.fmt import duration
from flowdiag.analyses.report.wire import Report
from flowdiag.cli.options.settings import Settings
from flowdiag.parsers.errors import FlowdiagError

MOST_REPORTS: Final = 8
_MOST_BYTES: Final = 256 << 20  # of one answer
_GRACE_S: Final = 10.0

Told = Callable[[str], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Kept:
    """A report of this session.

    Args:
        name: by which it is asked for again.
        report: whole.
        paths: of its inputs, as they were resolved.
    """

    name: str
    report: Report
    paths: tuple[str, ...]


class Session:
    """What one agent asked for so far."""

    def __init__(self, settings: Settings, timeout_s: float) -> None:
        """Begin with no process and no report."""
        self._settings, self._timeout_s = settings, timeout_s
        self._lock = anyio.Lock()
        self._process: Process | None = None
        self._answers: BufferedByteReceiveStream | None = None
        self._reports: dict[str, Kept] = {}
        self._made = 0

    async def diagnose(self, request: dict[str, Any], told: Told) -> Kept:
        """Diagnose, and keep the report.

        Args:
            request: `topic`, `paths`, `since`, `until`, `job`, `tz`.
            told: is called with what is being done.

        Raises:
            FlowdiagError: what the command would end with, or the time is up.
        """
        answer = await self._ask({"do": "diagnose", **request}, told)
        self._made += 1
        report = msgspec.convert(answer["report"], type=Report)
        kept = Kept(f"r{self._made}", report, tuple(request["paths"]))
        self._reports[kept.name] = kept
        while len(self._reports) > MOST_REPORTS:
            self._reports.pop(next(iter(self._reports)))
        return kept

    async def lines(
        self, paths: tuple[str, ...], places: list[tuple[str, int]], around: int
    ) -> list[dict[str, Any]]:
        """Lines around records of a report's inputs; as `worker.lines_around`."""
        request = {"do": "lines", "paths": paths, "places": places, "around": around}
        answer = await self._ask(request, _nobody)
        return list(answer["lines"])

    def report(self, name: str | None) -> Kept:
        """A report by its name, or the last one.

        Raises:
            FlowdiagError: there is none.
        """
        if name is None and self._reports:
            return self._reports[next(reversed(self._reports))]
        if name in self._reports:
            return self._reports[name]
        known = f"there are {', '.join(self._reports)}" if self._reports else "call diagnose first"
        raise FlowdiagError(f"there is no report '{name}'" if name else "no report yet", hint=known)

    async def close(self) -> None:
        """End the process, with all that it started."""
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

    async def _ask(self, request: dict[str, Any], told: Told) -> dict[str, Any]:
        async with self._lock:
            answer: dict[str, Any] | None = None
            try:
                with anyio.fail_after(self._timeout_s):
                    answer = await self._answered(request, told)
            except TimeoutError:
                raise FlowdiagError(
                    f"no answer within {duration(self._timeout_s * 1000)}",
                    hint="ask about fewer inputs or a shorter time, or start the server with a longer --timeout",
                ) from None
            except (anyio.BrokenResourceError, anyio.EndOfStream, anyio.IncompleteRead):
                raise FlowdiagError(
                    "the process that diagnoses ended without an answer",
                    hint="ask again; the server's standard error says why",
                ) from None
            finally:
                if answer is None:
                    await self.close()
        if "error" in answer:
            raise FlowdiagError(answer["error"], hint=answer.get("hint"))
        return answer

    async def _answered(self, request: dict[str, Any], told: Told) -> dict[str, Any]:
        asking, answers = await self._started()
        await asking.send(json.dumps(request).encode() + b"\n")
        while True:
            line = await answers.receive_until(b"\n", _MOST_BYTES)
            answer: dict[str, Any] = json.loads(line)
            if "progress" not in answer:
                return answer
            await told(answer["progress"])

    async def _started(self) -> tuple[ByteSendStream, BufferedByteReceiveStream]:
        if self._process is None:
            # Cancelled in the middle, nobody would end what has begun.
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
        asking, answers = self._process.stdin, self._process.stdout
        assert asking is not None and answers is not None
        if self._answers is None:
            stream: ByteReceiveStream = answers
            self._answers = BufferedByteReceiveStream(stream)
        return asking, self._answers


async def _nobody(text: str) -> None:
    pass
