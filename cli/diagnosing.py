"""From settings to an exit code: what commands that diagnose have in common."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from flowdiag.analyses.report.privacy import Privacy
from flowdiag.analyses.say import plural, size
from flowdiag.analyses.span import Selection, parse_moment
from flowdiag.cli.console import Progress, say, write_report
from flowdiag.cli.exit_codes import ExitCode, exit_code
from flowdiag.cli.settings import Format, Settings, rule_overrides
from flowdiag.parsers.errors import FlowdiagError, InputError

if TYPE_CHECKING:
    from flowdiag.analyses.engine.reading import Means
    from flowdiag.analyses.options import Wishes
    from flowdiag.analyses.report.wire import Data, Report
    from flowdiag.cli.spark.starter import SparkStarter
    from flowdiag.parsers.sources.discover import Discovery


class Diagnosis(NamedTuple):
    """What a command does with its inputs.

    Args:
        diagnose: the command's main function.
        wishes: of the user.
        empty: the command's tables where no input can be read.
    """

    diagnose: Callable[..., Report]
    wishes: Wishes
    empty: Data


def asked_for(
    settings: Settings,
    *,
    since: str | None = None,
    until: str | None = None,
    job: str | None = None,
) -> dict[str, Any]:
    """Settings and options of the command line in the terms of the analyses: fields of `Wishes`.

    Args:
        settings: of all layers.
        since, until, job: of the command line.

    Raises:
        FlowdiagError: a time, zone or threshold that is none.
    """
    overrides: Mapping[str, Mapping[str, float]] = {}
    if settings.thresholds:
        from flowdiag.analyses.topics import ALL_RULES  # of all commands: many imports

        overrides = rule_overrides(settings.thresholds, ALL_RULES)
    return {
        "selection": Selection(
            since=parse_moment(since) if since else None,
            until=parse_moment(until) if until else None,
            job=job,
        ),
        "tz": zone_name(settings.tz),
        "thresholds": overrides,
        "privacy": Privacy(excerpts=not settings.no_excerpts, redact=settings.redact),
        "max_rows": settings.max_rows,
    }


def run_on_spark(
    command: str,
    diagnosing: Callable[[], Diagnosis],
    paths: Sequence[str],
    settings: Settings,
    *,
    engine: str,
    spark: SparkStarter,
) -> ExitCode:
    """Find the inputs, diagnose them, report: the way of every command that always needs Spark.

    Args:
        command: without `flowdiag`.
        diagnosing: imports what diagnoses, which takes as long as looking at small inputs: called
            when these have been looked at, since Spark is still starting then.
        paths: as given.
        settings: of all layers.
        engine: whose inputs are read: flink or spark.
        spark: on its way since the command began: it takes seconds, so it starts while the inputs
            are found, sniffed and parsed.

    Raises:
        FlowdiagError: wrong usage or configuration, or no input can be read.
    """

    told: list[str] = []

    def diagnosis(progress: Progress) -> Report:
        with spark:
            progress("looking at the inputs")
            discovery = find(paths, strict=settings.strict_inputs, engine=engine)
            diagnose, wishes, empty = diagnosing()
            if all(source.kind == "not-read" for source in discovery.sources):
                from flowdiag.analyses.report.build import report_of

                # The document still says why, for each.
                return report_of(
                    command,
                    empty,
                    wishes,
                    sources=discovery.sources,
                    assessed=False,
                    notes=(*discovery.errors, *discovery.warnings),
                )
            from flowdiag.cli.spark.cluster import checked_session

            return diagnose(
                discovery,
                checked_session(spark.session, paths, discovery),
                wishes,
                means=means_of(spark, told if settings.verbose else None),
                say=stages(progress, discovery),
            )

    code = deliver(command, settings, diagnosis)
    for line in told:
        say("spark", line)
    from flowdiag.cli.spark.warm import warm_in_background

    if settings.master is None and warm_in_background() and not settings.quiet:
        say(
            "note",
            "keeping what Java loaded, so that later runs start faster",
            "flowdiag warm --help",
        )
    return code


def means_of(spark: SparkStarter, told: list[str] | None = None) -> Means:
    """With what a diagnosis reads and measures.

    Args:
        spark: on its way.
        told: filled with what was set, if somebody asked for it.
    """
    from flowdiag.analyses.engine import reading

    def tune(rows: int | None) -> None:
        spark.tune(rows)
        if told is not None:
            told[:] = spark.described()

    return reading.Means(
        tune=tune,
        executors=spark.on_cluster,
        here_bytes=reading.DRIVER_BYTES if spark.on_cluster else reading.HERE_BYTES,
        processes=spark.cores,
        folder=spark.folder / "rows",
    )


def stages(progress: Progress, discovery: Discovery) -> Callable[[str], None]:
    """Shows the stages of a diagnosis; the reading of the inputs with how much there is of them."""
    readable = [source for source in discovery.sources if source.kind != "not-read"]
    told = f"{plural(len(readable), 'input')}, {size(sum(s.size for s in readable))}"
    return lambda stage: progress(stage.replace("reading", f"reading {told}", 1))


def interval_ms(text: str | None, option: str = "--trigger-interval") -> int | None:
    """A length of time that a user wrote.

    Raises:
        FlowdiagError: it is none.

    >>> interval_ms("10s"), interval_ms("500 ms"), interval_ms(None)
    (10000, 500, None)
    """
    if text is None:
        return None
    from flowdiag.analyses.flink.judging import milliseconds

    value = milliseconds(text)
    if value is None or not 1 <= value < 1e12:
        raise FlowdiagError(
            f"{option}: '{text}' is no length of time", hint="write 10s, 500ms or 1m"
        )
    return round(value)


def configuration(pairs: Sequence[str]) -> dict[str, str]:
    """Options of an application as a user wrote them.

    Raises:
        FlowdiagError: one is no `KEY=VALUE`.

    >>> configuration(["spark.streaming.blockInterval=50ms"])
    {'spark.streaming.blockInterval': '50ms'}
    """
    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip().startswith("spark."):
            raise FlowdiagError(f"--conf: '{pair}' is no option", hint="write spark.key=value")
        found[key.strip()] = value.strip()
    return found


def find(paths: Sequence[str], *, strict: bool, engine: str) -> Discovery:
    """Find the inputs; those of the other engine are listed as not read.

    Raises:
        InputError: there is none, or `strict` and one is missing.
    """
    from flowdiag.parsers.sources.discover import discover, of_engine

    discovery = of_engine(discover(paths), engine)
    unreadable = [s for s in discovery.sources if (s.reason or "").startswith("unreadable")]
    missing = [*discovery.errors, *(f"{source.name}: {source.reason}" for source in unreadable)]
    none_left = len(unreadable) == len(discovery.sources)
    if missing and (none_left or strict):
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        hint = "no input can be read" if none_left else "--strict-inputs is set"
        raise InputError(missing[0] + more, hint=hint)
    return discovery


def deliver(command: str, settings: Settings, diagnosis: Callable[[Progress], Report]) -> ExitCode:
    """Run a diagnosis and write its report; with `--format json` even a bug leaves a document.

    Raises:
        FlowdiagError: from the diagnosis, or the report cannot be written.
    """
    try:
        with _silence(unless=settings.debug), Progress(quiet=settings.quiet) as progress:
            report = diagnosis(progress)
        # Not before: what renders is imported when there is something to render.
        from flowdiag.cli.output import render_report, tell

        text = render_report(report, settings)
    except FlowdiagError:
        raise
    except Exception as error:
        if settings.format is Format.JSON:
            from flowdiag.analyses.report.redact import clean
            from flowdiag.analyses.report.wire import failed_report
            from flowdiag.cli.output import render_report

            told = clean(f"this is a bug in flowdiag: {type(error).__name__}: {error}")
            write_report(render_report(failed_report(command, told), settings), settings.output)
        raise
    damaged = [item for item in report.inputs if item.error]
    if settings.strict_inputs and damaged:
        raise InputError(f"{damaged[0].source}: {damaged[0].error}", hint="--strict-inputs is set")
    if not settings.quiet:
        tell(report)
    write_report(text, settings.output)
    return exit_code(report, settings)


@contextmanager
def _silence(*, unless: bool) -> Iterator[None]:
    """Keep libraries from logging to stderr: py4j logs a traceback when Ctrl-C ends a query."""
    before = logging.root.manager.disable
    if not unless:
        logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def zone_name(text: str | None) -> str | None:
    """A zone that Python and Spark both know.

    Raises:
        FlowdiagError: there is no such zone.

    >>> zone_name("+08:00"), zone_name("Asia/Kolkata"), zone_name("Z"), zone_name(None)
    ('Etc/GMT-8', 'Asia/Kolkata', 'UTC', None)
    """
    if text is None:
        return None
    name = text.strip()
    if name.upper() in ("Z", "UTC", "GMT"):
        return "UTC"
    offset = name.upper().removeprefix("UTC").removeprefix("GMT")
    hours = offset[1:].removesuffix("00").removesuffix(":")
    if offset[:1] in ("+", "-") and hours.isdecimal() and int(hours) <= 14:
        # The sign of these names is the reverse of everybody else's.
        return f"Etc/GMT{'-' if offset[0] == '+' else '+'}{int(hours)}" if int(hours) else "UTC"
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise FlowdiagError(
            f"there is no zone '{text}'", hint="write Asia/Shanghai, UTC or +08:00"
        ) from None
    return name
