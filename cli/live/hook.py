"""`--exec`: a command of the user's that runs when something changed.

It gets the report as JSON on its standard input, and what changed in variables that hold nothing but words and codes
of ours: no text out of a log reaches a command line or a variable. It runs without a shell, in a process group of its
own, and is killed where it takes too long.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from flowdiag.analyses.report.changes import Change, Kind
from flowdiag.analyses.report.wire import Report, encode
from flowdiag.cli.options.settings import COLLECTING_VARIABLES
from flowdiag.cli.output.console import say
from flowdiag.parsers.cleanup import at_end, kill_now, undivided
from flowdiag.parsers.errors import FlowdiagError

TIMEOUT_S: Final = 30.0


def parsed(text: str) -> list[str]:
    """The words of a command.

    Raises:
        FlowdiagError: there are none, a quote is open, or there is no such program.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise FlowdiagError(f"--exec: {str(error).lower()}", hint="close the quote") from None
    if not words:
        raise FlowdiagError("--exec is empty", hint="write --exec './notify.sh'")
    if shutil.which(words[0]) is None:
        raise FlowdiagError(
            f"--exec: there is no program '{words[0]}'",
            hint="give a path to it; for pipes and the like, --exec \"sh -c '…'\"",
        )
    return words


def run(
    words: Sequence[str],
    report: Report,
    changes: Sequence[Change],
    *,
    number: int,
    before: str | None,
    timeout_s: float = TIMEOUT_S,
) -> None:
    """Run the command; that it fails is a warning.

    Args:
        words: of the command.
        report: for its standard input.
        changes: since the last round.
        number: of the round.
        before: verdict of the round before.
        timeout_s: after which it is killed, with all that it started.
    """
    told = {
        "FLOWDIAG_ROUND": str(number),
        "FLOWDIAG_VERDICT": str(report.summary.verdict),
        "FLOWDIAG_VERDICT_BEFORE": before or "",
        **variables(changes),
    }
    environment = {k: v for k, v in os.environ.items() if k not in COLLECTING_VARIABLES}
    try:
        with undivided():
            process = subprocess.Popen(
                list(words),
                stdin=subprocess.PIPE,
                stdout=sys.stderr.fileno(),
                env=environment | told,
                start_new_session=True,
            )
            forget = at_end(partial(kill_now, process))
    except OSError as error:
        say("warning", f"--exec: {words[0]}: {error.strerror or error}")
        return
    try:
        process.communicate(encode(report), timeout=timeout_s)
    except subprocess.TimeoutExpired:
        say("warning", f"--exec: {words[0]} was killed after {timeout_s:g} s")
    except BrokenPipeError:
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=timeout_s)
    finally:
        if process.poll() is None:
            _kill_group(process)
        forget()
    if process.returncode:
        say("warning", f"--exec: {words[0]} ended with {process.returncode}")


def variables(changes: Sequence[Change]) -> Mapping[str, str]:
    """Codes of what changed, by what became of it.

    >>> variables([])["FLOWDIAG_NEW"]
    ''
    """
    return {
        f"FLOWDIAG_{kind.name}": " ".join(
            dict.fromkeys(each.code for each in changes if each.change is kind)
        )
        for kind in Kind
    }


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
