"""From the command line of `flowdiag compare` to its exit code."""

from __future__ import annotations

import codecs
import os
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from flowdiag.cli.exit_codes import ExitCode
from flowdiag.cli.options import shared as o
from flowdiag.cli.options.settings import Settings, effective
from flowdiag.parsers.errors import FlowdiagError

if TYPE_CHECKING:
    from flowdiag.analyses.comparison.wire import Comparison
    from flowdiag.analyses.report.wire import Report
    from flowdiag.cli.output.console import Progress

_HEAD: Final = 4096  # bytes: a report says at once what it is
_SMALL: Final = 64 << 20  # bytes of a document that somebody may have sorted, so that it does not
_ONLY_INPUTS: Final = ("tz", "since", "until", "job", "strict_inputs")
_BLANK: Final = b" \t\r\n"
_SCHEMA: Final = re.compile(rb'\s*\{\s*"schema"\s*:\s*"flowdiag\.')


class _Schema(msgspec.Struct):
    schema: str


class FailOnChange(StrEnum):
    """What makes the exit code of a comparison 1."""

    REGRESSION = "regression"
    CHANGE = "change"
    NEVER = "never"


def run(before: str, after: str, given: Mapping[str, Any]) -> ExitCode:
    """Read or make both reports, compare them, show it.

    Args:
        before, after: as given.
        given: the options by name.

    Raises:
        FlowdiagError: wrong usage, no input can be read, or the two have nothing in common.
    """
    found = effective(o.flags(given), config=given["config"])
    if given["show_config"]:
        from flowdiag.cli.diagnosing import show_config

        return show_config(found)
    settings = found.settings
    from flowdiag.analyses.report.muting import muted
    from flowdiag.cli.diagnosing import muting_of
    from flowdiag.cli.output.console import Progress, check_output, write_report

    check_output(settings.output)
    renderer = _renderer(settings)
    factor = _factor(given["factor"])
    muting = muting_of(settings)
    from flowdiag.analyses.comparison.compare import compared
    from flowdiag.analyses.comparison.measures import FACTOR
    from flowdiag.analyses.comparison.wire import redacted

    with Progress(quiet=settings.quiet) as progress:
        old, new = _reports(before, after, settings, given, progress)
    known = muting(new)
    if not settings.quiet:
        _tell_known(known)
    comparison = compared(
        old,
        new,
        names=(before, after),
        factor=FACTOR if factor is None else factor,
        same_job=given["same_job"],
        muted=muted(known),
        warnings=[*old.warnings, *new.warnings],
    )
    if settings.redact:
        comparison = redacted(comparison)
    write_report(renderer(comparison, settings), settings.output)
    return _exit_code(comparison, settings, given["fail_on_change"])


def _tell_known(report: Report) -> None:
    """What the baseline says of the later side: what got worse counts again, what is gone is to be taken out."""
    from flowdiag.cli.output.console import print_message
    from flowdiag.cli.text import words

    for line in words.baseline_lines(report):
        print_message("note", line)


def _reports(
    before: str,
    after: str,
    settings: Settings,
    given: Mapping[str, Any],
    progress: Progress,
) -> tuple[Report, Report]:
    """Both reports; inputs are diagnosed in one session of Spark."""
    from flowdiag.cli.output.saved import read_report

    paths = (before, after)
    if paths == ("-", "-"):
        raise FlowdiagError("only one of BEFORE and AFTER can be standard input")
    saved = {path: read_report(path) for path in dict.fromkeys(paths) if is_report(path)}
    wanted = [path for path in dict.fromkeys(paths) if path not in saved]
    if not wanted:
        for name in _ONLY_INPUTS:
            if given[name]:
                option = f"--{name.replace('_', '-')}"
                raise FlowdiagError(f"{option} is for inputs, and both sides are reports")
    made = _diagnosed(wanted, _command(saved), settings, given, progress) if wanted else {}
    found = {**saved, **made}
    return found[before], found[after]


def _command(saved: Mapping[str, Report]) -> str:
    """What inputs are diagnosed by: the command of the report they are compared with, else all."""
    from flowdiag.analyses.topics import EVERYTHING

    return next((report.tool.command for report in saved.values()), EVERYTHING)


def _diagnosed(
    paths: list[str],
    command: str,
    settings: Settings,
    given: Mapping[str, Any],
    progress: Progress,
) -> dict[str, Report]:
    """The reports of some inputs, one for each."""
    from flowdiag.analyses.inputs import find
    from flowdiag.cli.diagnosing import asked_for, diagnosed, logged
    from flowdiag.cli.options.routing import refuse_servers
    from flowdiag.cli.output.console import print_message
    from flowdiag.cli.output.writing import print_warnings
    from flowdiag.cli.spark.early import spark_for

    refuse_servers(paths, command)
    for path in paths:
        if path != "-":  # which can be read only once
            find([path], strict=settings.strict_inputs)
    # Pseudonyms of two reports would not be the same: the comparison is redacted as a whole.
    plain = msgspec.structs.replace(settings, redact=False)
    asked = asked_for(plain, given, "job")
    made: dict[str, Report] = {}
    told: list[str] = []
    with logged(debug=settings.debug), ExitStack() as stack:
        spark = stack.enter_context(spark_for(settings, paths))
        stack.enter_context(spark)
        for path in paths:
            made[path] = diagnosed(command, [path], plain, asked, lambda: spark, progress, told)
    for report in made.values():
        if not settings.quiet:
            print_warnings(report)
    for line in told:
        print_message("spark", line)
    return made


def is_report(path: str) -> bool:
    """Whether it is a document of flowdiag's, and no input; standard input is looked into, not read."""
    if path == "-":
        return _begins_as_report(sys.stdin.buffer.peek(_HEAD)[:_HEAD])  # type: ignore[union-attr]
    try:
        if not os.path.isfile(path):
            return False
        with open(path, "rb") as file:
            head = file.read(_HEAD)
        if _begins_as_report(head):
            return True
        small = os.path.getsize(path) <= _SMALL
        if not small or head.lstrip(_BLANK)[:1] != b"{" or b"}\n{" in head:
            return False
        document = Path(path).read_bytes().removeprefix(codecs.BOM_UTF8)
        return msgspec.json.decode(document, type=_Schema).schema.startswith("flowdiag.")
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False


def _begins_as_report(head: bytes) -> bool:
    return _SCHEMA.match(head.removeprefix(codecs.BOM_UTF8)) is not None


def _renderer(settings: Settings) -> Callable[[Comparison, Settings], str]:
    """What writes the comparison in the wanted format.

    Raises:
        FlowdiagError: there is none for a comparison.
    """
    from flowdiag.cli.render.comparison import RENDERERS

    found = RENDERERS.get(settings.format)
    if found is None:
        raise FlowdiagError(
            f"a comparison cannot be written as {settings.format}",
            hint=f"write --format {', '.join(RENDERERS)}",
        )

    def rendered(comparison: Comparison, settings: Settings) -> str:
        from flowdiag.cli.output.writing import page_for

        return found(comparison, page_for(settings))

    return rendered


def _factor(given: float | None) -> float | None:
    if given is not None and not 1 < given <= 1000:
        raise FlowdiagError(f"--factor is {given:g}", hint="write a number above 1, as 1.25")
    return given


def _exit_code(comparison: Comparison, settings: Settings, fail_on: FailOnChange) -> ExitCode:
    """A regression is one, whatever else could not be assessed."""
    if fail_on is FailOnChange.REGRESSION and comparison.regression:
        return ExitCode.FOUND
    if fail_on is FailOnChange.CHANGE and changed(comparison):
        return ExitCode.FOUND
    assessed = comparison.before.assessed and comparison.after.assessed
    if not assessed or not (comparison.conclusive or settings.allow_inconclusive):
        return ExitCode.NOT_ASSESSED
    return ExitCode.CLEAR


def changed(comparison: Comparison) -> bool:
    """Whether anything is not what it was, as far as that is known."""
    same = ("unchanged", "not-comparable")
    return any(one.change not in same and not one.muted for one in comparison.findings) or any(
        one.significant for one in comparison.measures
    )
