"""Runs the user's `--exec` command when findings change.

The command reads the report as JSON from standard input and the changes from environment variables. The variables
contain only rule codes and verdicts, so no log text reaches a command line or a variable. The command runs
without a shell in its own process group and is killed after a timeout.
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

from flowdiag.analyses.contract.encoding import encode
from flowdiag.analyses.contract.report import Report
from flowdiag.analyses.report.changes import Change, Kind
from flowdiag.cli.output.console import print_message
from flowdiag.cli.settings import CREDENTIAL_VARIABLES
from flowdiag.parsers.cleanup import at_exit, kill_now, signals_deferred
from flowdiag.parsers.errors import FlowdiagError

TIMEOUT_S: Final = 30.0


def parse_command(text: str) -> list[str]:
    """Split a command line into words.

    Raises:
        FlowdiagError: the command is empty, a quote is not closed, or the program does not exist.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise FlowdiagError(f"--exec: {str(error).lower()}", hint="close the quote") from None
    if not words:
        raise FlowdiagError("--exec is empty", hint="write --exec './notify.sh'")
    if shutil.which(words[0]) is None:
        raise FlowdiagError(
            f"--exec: program '{words[0]}' not found",
            hint="write the full path; for pipes, use --exec \"sh -c '…'\"",
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
    """Run the command, and warn if it fails.

    Args:
        words: the command and its arguments.
        report: written to the command's standard input.
        changes: since the previous round.
        number: the number of the round.
        before: the verdict of the previous round.
        timeout_s: after this time, the command and all processes that it started are killed.
    """
    variables = {
        "FLOWDIAG_ROUND": str(number),
        "FLOWDIAG_VERDICT": str(report.summary.verdict),
        "FLOWDIAG_VERDICT_BEFORE": before or "",
        **changed_codes(changes),
    }
    environment = {k: v for k, v in os.environ.items() if k not in CREDENTIAL_VARIABLES}
    try:
        with signals_deferred():
            process = subprocess.Popen(
                list(words),
                stdin=subprocess.PIPE,
                stdout=sys.stderr.fileno(),
                env=environment | variables,
                start_new_session=True,
            )
            forget = at_exit(partial(kill_now, process))
    except OSError as error:
        print_message("warning", f"--exec: {words[0]}: {error.strerror or error}")
        return
    try:
        process.communicate(encode(report), timeout=timeout_s)
    except subprocess.TimeoutExpired:
        print_message("warning", f"--exec: {words[0]} was killed after {timeout_s:g} s")
    except BrokenPipeError:
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=timeout_s)
    finally:
        if process.poll() is None:
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        forget()
    if process.returncode:
        print_message("warning", f"--exec: {words[0]} exited with code {process.returncode}")


def changed_codes(changes: Sequence[Change]) -> Mapping[str, str]:
    """Return the codes of the changed findings, one variable per kind of change.

    >>> changed_codes([])["FLOWDIAG_NEW"]
    ''
    """
    return {
        f"FLOWDIAG_{kind.name}": " ".join(
            dict.fromkeys(each.code for each in changes if each.change is kind)
        )
        for kind in Kind
    }
