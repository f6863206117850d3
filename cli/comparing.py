"""Runs `flowdiag compare`, from its command line to its exit code."""

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
from flowdiag.cli.settings import Settings, resolve_settings
from flowdiag.parsers.errors import FlowdiagError

if TYPE_CHECKING:
    from flowdiag.analyses.comparison.wire import Comparison
    from flowdiag.analyses.contract.report import Report
    from flowdiag.cli.output.console import Progress

_HEAD: Final = 4096  # bytes; the schema is at the beginning of a report
_SMALL: Final = 64 << 20  # bytes; another program may have sorted the keys of such a document
_ONLY_INPUTS: Final = ("tz", "since", "until", "job", "strict_inputs")
_WHITESPACE: Final = b" \t\r\n"
_SCHEMA: Final = re.compile(rb'\s*\{\s*"schema"\s*:\s*"flowdiag\.')


class _Schema(msgspec.Struct):
    schema: str


class FailOnChange(StrEnum):
    """Changes that lead to exit code 1."""

    REGRESSION = "regression"
    CHANGE = "change"
    NEVER = "never"


def run(before: str, after: str, arguments: Mapping[str, Any]) -> ExitCode:
    """Read both reports, or diagnose the inputs, and print the comparison.

    Args:
        before, after: paths of reports or inputs.
        arguments: the options by name.

    Raises:
        FlowdiagError: a usage error, no readable input, or reports that cannot be compared.
    """
    found = resolve_settings(o.flags(arguments), config=arguments["config"])
    if arguments["show_config"]:
        from flowdiag.cli.diagnosing import show_config

        return show_config(found)
    settings = found.settings
    from flowdiag.analyses.report.muting import muted_fingerprints
    from flowdiag.cli.diagnosing import muting_of
    from flowdiag.cli.output.console import Progress, check_output, print_message, write_report
    from flowdiag.cli.text import words

    check_output(settings.output)
    renderer = _renderer(settings)
    factor = _factor(arguments["factor"])
    muting = muting_of(settings)
    from flowdiag.analyses.comparison.compare import compare_reports
    from flowdiag.analyses.comparison.measures import FACTOR
    from flowdiag.analyses.comparison.wire import redacted

    with Progress(quiet=settings.quiet) as progress:
        old, new = _reports(before, after, settings, arguments, progress)
    known = muting(new)
    if not settings.quiet:
        for line in words.baseline_lines(known):
            print_message("note", line)
    comparison = compare_reports(
        old,
        new,
        names=(before, after),
        factor=FACTOR if factor is None else factor,
        same_job=arguments["same_job"],
        muted=muted_fingerprints(known),
        warnings=[*old.warnings, *new.warnings],
    )
    if settings.redact:
        comparison = redacted(comparison)
    write_report(renderer(comparison, settings), settings.output)
    fail_on = arguments["fail_on_change"]
    if fail_on is FailOnChange.REGRESSION and comparison.regression:
        return ExitCode.FOUND
    if fail_on is FailOnChange.CHANGE and has_changes(comparison):
        return ExitCode.FOUND
    assessed = comparison.before.assessed and comparison.after.assessed
    if not assessed or not (comparison.conclusive or settings.allow_inconclusive):
        return ExitCode.NOT_ASSESSED
    return ExitCode.CLEAR


def _reports(
    before: str,
    after: str,
    settings: Settings,
    arguments: Mapping[str, Any],
    progress: Progress,
) -> tuple[Report, Report]:
    """Return both reports. A single Spark session diagnoses all inputs."""
    from flowdiag.cli.output.saved import read_report

    paths = (before, after)
    if paths == ("-", "-"):
        raise FlowdiagError("only one of BEFORE and AFTER can be standard input")
    saved = {path: read_report(path) for path in dict.fromkeys(paths) if is_report(path)}
    unread = [path for path in dict.fromkeys(paths) if path not in saved]
    if not unread:
        for name in _ONLY_INPUTS:
            if arguments[name]:
                option = f"--{name.replace('_', '-')}"
                raise FlowdiagError(f"{option} applies to inputs, but both sides are reports")
    made = _diagnose(unread, _command(saved), settings, arguments, progress) if unread else {}
    found = {**saved, **made}
    return found[before], found[after]


def _command(saved: Mapping[str, Report]) -> str:
    """Return the command that diagnoses the inputs: that of the saved report or, without one, `diagnose`."""
    from flowdiag.analyses.topic_names import EVERYTHING

    return next((report.tool.command for report in saved.values()), EVERYTHING)


def _diagnose(
    paths: list[str],
    command: str,
    settings: Settings,
    arguments: Mapping[str, Any],
    progress: Progress,
) -> dict[str, Report]:
    from flowdiag.analyses.inputs import find
    from flowdiag.cli.diagnosing import library_logging, option_fields, report_on_paths
    from flowdiag.cli.options.routing import refuse_servers
    from flowdiag.cli.output.console import print_message
    from flowdiag.cli.output.writing import print_warnings
    from flowdiag.cli.spark.launch import start_spark

    refuse_servers(paths, command)
    for path in paths:
        if path != "-":  # standard input can be read only once
            find([path], strict=settings.strict_inputs)
    # Two reports would use different pseudonyms, so the comparison is redacted as a whole.
    plain = msgspec.structs.replace(settings, redact=False)
    fields = option_fields(plain, arguments, "job")
    made: dict[str, Report] = {}
    spark_lines: list[str] = []
    with library_logging(debug=settings.debug), ExitStack() as stack:
        spark = stack.enter_context(start_spark(settings, paths))
        stack.enter_context(spark)
        for path in paths:
            made[path] = report_on_paths(
                command, [path], plain, fields, lambda: spark, progress, spark_lines
            )
    for report in made.values():
        if not settings.quiet:
            print_warnings(report)
    for line in spark_lines:
        print_message("spark", line)
    return made


def is_report(path: str) -> bool:
    """Return whether a path is a saved report, without consuming standard input."""
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
        if not small or head.lstrip(_WHITESPACE)[:1] != b"{" or b"}\n{" in head:
            return False
        document = Path(path).read_bytes().removeprefix(codecs.BOM_UTF8)
        return msgspec.json.decode(document, type=_Schema).schema.startswith("flowdiag.")
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False


def _begins_as_report(head: bytes) -> bool:
    return _SCHEMA.match(head.removeprefix(codecs.BOM_UTF8)) is not None


def _renderer(settings: Settings) -> Callable[[Comparison, Settings], str]:
    """Return the renderer for the chosen format.

    Raises:
        FlowdiagError: comparisons do not support the format.
    """
    from flowdiag.cli.render.comparison import RENDERERS

    found = RENDERERS.get(settings.format)
    if found is None:
        raise FlowdiagError(
            f"a comparison cannot be written as {settings.format}",
            hint=f"choose one of: {', '.join(RENDERERS)}",
        )

    def render(comparison: Comparison, settings: Settings) -> str:
        from flowdiag.cli.output.writing import page_for

        return found(comparison, page_for(settings))

    return render


def _factor(arguments: float | None) -> float | None:
    if arguments is not None and not 1 < arguments <= 1000:
        raise FlowdiagError(f"--factor is {arguments:g}", hint="use a number above 1, such as 1.25")
    return arguments


def has_changes(comparison: Comparison) -> bool:
    """Return whether any assessed finding or measure changed."""
    same = ("unchanged", "not-comparable")
    return any(one.change not in same and not one.muted for one in comparison.findings) or any(
        one.significant for one in comparison.measures
    )
