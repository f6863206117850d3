"""The process that diagnoses for `flowdiag mcp`: a request per line of its standard input, an answer per line.

It starts Spark once, when something needs it, and ends when its input does: with whoever started it.
Requests and answers are JSON; `flowdiag.cli.mcp.session` is the other side.
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

from flowdiag.cli.options.settings import Settings
from flowdiag.parsers.errors import FlowdiagError, error_text

if TYPE_CHECKING:
    from flowdiag.analyses.report.wire import Report
    from flowdiag.cli.spark.starter import SparkStarter

_LINE: Final = 2_000  # bytes of a line that are looked at


class Worker:
    """What stays between requests: the settings, and Spark once it was needed."""

    def __init__(self, settings: Settings, stack: ExitStack, answers: IO[bytes]) -> None:
        """Begin with nothing started.

        Args:
            settings: of the server.
            stack: closed when the process ends.
            answers: where they go.
        """
        self._settings, self._stack, self._answers = settings, stack, answers
        self._spark: SparkStarter | None = None

    def answer(self, request: Mapping[str, Any]) -> None:
        """Do what is asked for, and say what came of it; whatever goes wrong is an answer as well."""
        try:
            if request["do"] == "lines":
                self._say(lines=lines_around(request))
            else:
                self._say(report=msgspec.to_builtins(self._diagnosed(request)))
        except FlowdiagError as error:
            self._say(error=error.message, hint=error.hint)
        except Exception as error:  # noqa: BLE001 - it is told, and the next request is another one
            said = f"this is a bug in flowdiag: {type(error).__name__}: {error_text(error)}"
            self._say(error=said, hint="please report it", bug=True)

    def _say(self, **told: Any) -> None:
        self._answers.write(json.dumps(told).encode() + b"\n")
        self._answers.flush()

    def _diagnosed(self, request: Mapping[str, Any]) -> Report:
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
            self._running,
            lambda text: self._say(progress=text),
            [],
        )

    def _running(self) -> SparkStarter:
        """Spark, started once."""
        from flowdiag.cli.spark.early import spark_for

        if self._spark is None:
            self._spark = self._stack.enter_context(spark_for(self._settings, []))
        return self._spark


def lines_around(request: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The lines around records of inputs, cleaned of secrets and control characters.

    Args:
        request: `paths`, `places` as pairs of an input's name and a line from 1, `around`.

    Returns:
        for each place `source`, `first` (the number of the first line) and `lines`; empty where the input
        cannot be read again.

    Raises:
        FlowdiagError: no input can be read.
    """
    from flowdiag.analyses.report.redact import clean
    from flowdiag.parsers.sources.discover import discover
    from flowdiag.parsers.sources.open import open_source

    sources = {source.name: source for source in discover(request["paths"]).sources}
    around = int(request["around"])
    told = []
    for name, line in request["places"]:
        first, lines = max(1, line - around), []
        source = sources.get(name)
        if source is not None and source.kind != "not-read":
            with open_source(source) as stream:
                lines = _between(stream, first, line + around)
        shown = [clean(text.decode("utf-8", "replace")) for text in lines]
        told.append({"source": name, "first": first, "lines": shown})
    return told


def _between(stream: IO[bytes], first: int, last: int) -> list[bytes]:
    """Some lines of a stream, the beginning of each."""
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
    """Answer until the input ends; settings are the first argument, as JSON."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints is no answer
    requests = os.fdopen(os.dup(0), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    settings = msgspec.json.decode(sys.argv[1], type=Settings)
    queue: SimpleQueue[bytes] = SimpleQueue()

    def listen() -> None:
        from flowdiag.parsers.cleanup import end_now

        for line in requests:
            queue.put(line)
        end_now(0)  # nobody waits for an answer any more

    threading.Thread(target=listen, daemon=True).start()
    with ExitStack() as stack:
        worker = Worker(settings, stack, answers)
        while True:
            worker.answer(json.loads(queue.get()))


if __name__ == "__main__":
    from flowdiag.cli.process import start

    start(main)
