"""The process that diagnoses for `flowdiag mcp`: it reads requests and writes answers, a line of JSON each.

It starts Spark once, when a request needs it, and exits when its input ends. `flowdiag.cli.mcp.session` is the client.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from queue import SimpleQueue
from typing import IO, TYPE_CHECKING, Any, Final

import msgspec

from flowdiag.cli.settings import Settings
from flowdiag.parsers.errors import FlowdiagError, error_text

if TYPE_CHECKING:
    from flowdiag.analyses.contract.report import Report
    from flowdiag.cli.spark.starter import SparkStarter

_LINE: Final = 2_000  # bytes shown of a line


class Worker:
    """Handles requests, one at a time. It keeps the settings and, once started, the Spark session."""

    def __init__(self, settings: Settings, stack: ExitStack, answers: IO[bytes]) -> None:
        self._settings, self._stack, self._answers = settings, stack, answers
        self._spark: SparkStarter | None = None

    def answer(self, request: Mapping[str, Any]) -> None:
        """Handle a request and write the result or the error."""
        try:
            if request["do"] == "lines":
                self._write(lines=lines_around(request))
            else:
                self._write(report=msgspec.to_builtins(self._diagnose(request)))
        except FlowdiagError as error:
            self._write(error=error.message, hint=error.hint)
        except Exception as error:  # noqa: BLE001 - the answer reports it, and the next request may succeed
            message = f"this is a bug in flowdiag: {type(error).__name__}: {error_text(error)}"
            self._write(error=message, hint="please report it", bug=True)

    def _write(self, **fields: Any) -> None:
        self._answers.write(json.dumps(fields).encode() + b"\n")
        self._answers.flush()

    def _diagnose(self, request: Mapping[str, Any]) -> Report:
        from flowdiag.cli.diagnosing import option_fields, report_on_paths

        topic = request["topic"]
        selector = "application" if topic == "rate" else "job"
        given = {"since": request["since"], "until": request["until"], selector: request["job"]}
        settings = msgspec.structs.replace(self._settings, tz=request["tz"] or self._settings.tz)
        return report_on_paths(
            topic,
            request["paths"],
            settings,
            option_fields(settings, given, selector),
            self._start_spark,
            lambda text: self._write(progress=text),
            [],
        )

    def _start_spark(self) -> SparkStarter:
        """Return the Spark session, started by the first call."""
        from flowdiag.cli.spark.launch import start_spark

        if self._spark is None:
            self._spark = self._stack.enter_context(start_spark(self._settings, []))
        return self._spark


def lines_around(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the lines around records, without secrets and control characters.

    Args:
        request: `paths`, `places` (pairs of an input name and a line number from 1), and `around`.

    Returns:
        `source`, `first` (the number of the first line) and `lines` for each place; no lines if the input cannot be
        read again.

    Raises:
        FlowdiagError: no input can be read.
    """
    from flowdiag.analyses.contract.redact import clean
    from flowdiag.parsers.discover import discover
    from flowdiag.parsers.source import open_source

    sources = {source.name: source for source in discover(request["paths"]).sources}
    around = int(request["around"])
    found = []
    for name, line in request["places"]:
        first, lines = max(1, line - around), []
        source = sources.get(name)
        if source is not None and source.kind != "not-read":
            with open_source(source) as stream:
                lines = _lines_between(stream, first, line + around)
        shown = [clean(text.decode("utf-8", "replace")) for text in lines]
        found.append({"source": name, "first": first, "lines": shown})
    return found


def _lines_between(stream: IO[bytes], first: int, last: int) -> list[bytes]:
    """Return the lines from `first` to `last`, each cut to `_LINE` bytes."""
    found, number, rest = [], 1, b""
    while number <= last:
        chunk = stream.read(1 << 20)
        parts = (rest + chunk).split(b"\n") if chunk else [rest]
        rest = parts.pop() if chunk else b""
        for part in parts:
            if first <= number <= last:
                found.append(part[:_LINE])
            number += 1
        if not chunk:
            break
        rest = rest[:_LINE] if number < first else rest[: 1 << 20]
    return found


def main() -> int:
    """Answer requests until the input ends; the first argument contains the settings as JSON."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of libraries must not mix with answers
    requests = os.fdopen(os.dup(0), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    settings = msgspec.json.decode(sys.argv[1], type=Settings)
    queue: SimpleQueue[bytes] = SimpleQueue()

    def listen() -> None:
        from flowdiag.parsers.cleanup import end_now

        for line in requests:
            queue.put(line)
        end_now(0)  # the client is gone

    threading.Thread(target=listen, daemon=True).start()
    with ExitStack() as stack:
        worker = Worker(settings, stack, answers)
        while True:
            worker.answer(json.loads(queue.get()))


if __name__ == "__main__":
    from flowdiag.cli.process import run

    run(main)
