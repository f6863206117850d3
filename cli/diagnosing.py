"""Runs the commands that diagnose, from the command line to the exit code.

A command consists of its help, its own options, and a function that converts them (`commands/*.py`). The
decorator `diagnosing` adds the shared options, and runs the flow of `analyses.diagnosis` on the command's topic.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, Final

from flowdiag.analyses.inputs import inputs_of
from flowdiag.analyses.selection.zones import zone_name
from flowdiag.cli.exit_codes import ExitCode, exit_code
from flowdiag.cli.options import shared as o
from flowdiag.cli.options.routing import refuse_servers
from flowdiag.cli.output.console import Progress, check_output, print_message, write_report
from flowdiag.cli.render import check_format
from flowdiag.cli.settings import (
    EffectiveSettings,
    Format,
    Settings,
    Warm,
    resolve_settings,
)
from flowdiag.cli.spark.launch import start_spark
from flowdiag.cli.spark.resources import resources_for
from flowdiag.parsers.errors import (
    FlowdiagError,
    InputError,
    is_disk_full,
    is_out_of_resources,
    no_temporary_space,
    out_of_resources,
)

if TYPE_CHECKING:
    from flowdiag.analyses.contract.report import Report
    from flowdiag.analyses.report.data_dir import DataDir
    from flowdiag.analyses.selection.choice import Choice
    from flowdiag.analyses.topic import Topic
    from flowdiag.cli.spark.starter import SparkStarter
    from flowdiag.parsers.discover import Discovery

_LOG: Final = logging.getLogger("flowdiag")

Own = Mapping[str, tuple[Any, Any]]
"""Options of one command by name: the annotation for Typer (`Annotated[…]`) and the default."""

Meaning = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""Converts a command's own options to fields of `analyses.model.options.Options`."""

Inputs = Callable[[Callable[[str], None]], "tuple[Discovery, frozenset[str]]"]
"""Finds the inputs, and their engines: flink, spark."""

Run = Callable[[str, "Settings", Mapping[str, Any], "SparkStarter | None"], int]
"""Replaces `run` for inputs other than paths; gets the command's name, settings, fields of `Options`,
Spark."""


# Shared options, listed before and after a command's own options.
_FIRST: Final = {
    "tz": o.Tz,
    "strict_inputs": o.StrictInputs,
    "since": o.Since,
    "until": o.Until,
}
_LAST: Final = {
    "format": o.OutputFormat,
    "output": o.Output,
    "data_dir": o.DataDir,
    "min_severity": o.MinSeverityOption,
    "max_rows": o.MaxRows,
    "redact": o.Redact,
    "no_excerpts": o.NoExcerpts,
    "color": o.ColorOption,
    "no_color": o.NoColor,
    "hyperlinks": o.Hyperlinks,
    "show_tz": o.ShowTz,
    "fail_on": o.FailOnOption,
    "allow_inconclusive": o.AllowInconclusive,
    "baseline": o.BaselineOption,
    "select": o.Select,
    "ignore": o.Ignore,
    "master": o.Master,
    "java_heap": o.JavaHeap,
    "stay": o.StayOption,
    "warm": o.WarmOption,
    "config": o.Config,
    "show_config": o.ShowConfig,
    "quiet": o.Quiet,
    "verbose": o.Verbose,
    "debug": o.Debug,
}


def diagnosing(
    *,
    inputs: Own | None = None,
    model: Own | None = None,
    paths: tuple[Any, Any] = (o.Paths, Parameter.empty),
    job: tuple[str, Any] | None = ("job", o.Job),
    early: bool = True,
    otherwise: Callable[[Mapping[str, Any], Settings], Run | None] = lambda arguments, settings: (
        None
    ),
) -> Callable[[Meaning], Callable[..., int]]:
    """Turn a function named after a topic into a command.

    The function's docstring is the help. It receives the values of all options, and returns the fields of
    `Options` that the command's own options set.

    Args:
        inputs: the command's own options, before the shared ones.
        model: the command's own options, after the selection.
        paths: annotation and default of the argument.
        job: name and annotation of the option that selects a job, if there is one.
        early: start Spark immediately, because the command always needs it.
        otherwise: returns a replacement for `run` if some inputs are not paths.
    """
    accepted = {
        "paths": paths,
        **(inputs or {}),
        **{name: (kind, None) for name, kind in _FIRST.items()},
        **({job[0]: (job[1], None)} if job else {}),
        **(model or {}),
        **{name: (kind, False if name == "show_config" else None) for name, kind in _LAST.items()},
    }

    def command_of(option_values: Meaning) -> Callable[..., int]:
        name: str = option_values.__name__

        def command(**arguments: Any) -> int:
            found = resolve_settings(o.flags(arguments), config=arguments["config"])
            if arguments["show_config"]:
                return show_config(found)
            settings = found.settings
            paths = arguments["paths"] or []
            other = otherwise(arguments, settings)
            with ExitStack() as stack:
                spark = stack.enter_context(start_spark(settings, paths)) if early else None
                fields = option_fields(settings, arguments, job[0] if job else None)
                fields |= option_values(arguments)
                if other is not None:
                    return other(name, settings, fields, spark)
                return run(name, paths, settings, fields, spark)

        command.__signature__ = Signature(  # type: ignore[attr-defined]
            [
                Parameter(each, Parameter.POSITIONAL_OR_KEYWORD, annotation=kind, default=default)
                for each, (kind, default) in accepted.items()
            ]
        )
        command.__annotations__ = {each: kind for each, (kind, _) in accepted.items()}
        command.__name__, command.__doc__ = name, option_values.__doc__
        return command

    return command_of


def option_fields(
    settings: Settings, arguments: Mapping[str, Any], job: str | None = None
) -> dict[str, Any]:
    """Convert settings and options of the command line to fields of `analyses.model.options.Options`.

    Args:
        settings: the effective settings.
        arguments: the values of the command line.
        job: name of the option that selects a job.

    Raises:
        FlowdiagError: an invalid time, zone, rule or threshold.
    """
    from flowdiag.analyses.selection.options import Privacy
    from flowdiag.analyses.selection.span import Selection, parse_moment

    overrides, choice = rule_settings(settings)
    since, until = arguments["since"], arguments["until"]
    return {
        "selection": Selection(
            since=parse_moment(since) if since else None,
            until=parse_moment(until) if until else None,
            job=arguments[job] if job else None,
        ),
        "tz": zone_name(settings.tz),
        "thresholds": overrides,
        "choice": choice,
        "privacy": Privacy(excerpts=not settings.no_excerpts, redact=settings.redact),
        "max_rows": settings.max_rows,
    }


def rule_settings(settings: Settings) -> tuple[Mapping[str, Mapping[str, float]], Choice]:
    """Return the configured thresholds by rule code, and the choice of rules.

    Raises:
        FlowdiagError: an unknown rule or threshold.
    """
    from flowdiag.analyses.selection.choice import Choice, choose_rules, rule_overrides

    if not (settings.thresholds or settings.select or settings.ignore):
        return {}, Choice()
    from flowdiag.analyses.topics import all_rules  # imports every topic

    rules = all_rules()
    overrides = rule_overrides(settings.thresholds, rules)
    return overrides, choose_rules(settings.select, settings.ignore, rules)


def show_config(found: EffectiveSettings) -> ExitCode:
    """Print the effective settings with their sources.

    Raises:
        FlowdiagError: an unknown rule, threshold or zone.
    """
    from flowdiag.cli.options.configuration import render_settings

    rule_settings(found.settings)
    zone_name(found.settings.tz)
    write_report(render_settings(found), found.settings.output)
    return ExitCode.CLEAR


def run(
    name: str,
    paths: Sequence[str],
    settings: Settings,
    fields: Mapping[str, Any],
    spark: SparkStarter | None,
    inputs: Inputs | None = None,
) -> ExitCode:
    """Find the inputs, diagnose them, and write the report.

    Args:
        name: the command, which is a topic, or `diagnose` for all topics.
        paths: as the user wrote them.
        settings: the effective settings.
        fields: fields of `Options`.
        spark: Spark, if it is already starting; otherwise `run` starts it only if the inputs need it.
        inputs: finds the inputs; by default, those at `paths`.

    Raises:
        FlowdiagError: a usage or configuration error, or no readable input.
    """
    spark_lines: list[str] = []
    check_output(settings.output)
    check_format(settings.format)
    if inputs is None:
        refuse_servers(paths, name)
    muting = muting_of(settings)
    tables_for(settings)  # fails early if the tables cannot be written

    def diagnosis(progress: Progress) -> Report:
        with ExitStack() as stack:
            if spark is not None:
                stack.enter_context(spark)

            def running() -> SparkStarter:
                return spark or stack.enter_context(start_spark(settings, paths))

            if spark is None:
                from flowdiag.cli.spark.cluster import check_paths

                check_paths(settings.master, paths)
            return muting(
                report_on_paths(
                    name, paths, settings, fields, running, progress, spark_lines, inputs
                )
            )

    code = deliver(name, settings, diagnosis)
    for line in spark_lines:
        print_message("spark", line)
    if spark is not None and settings.master is None:
        _keep_for_later(settings)
    return code


def muting_of(settings: Settings) -> Callable[[Report], Report]:
    """Return the function that mutes the known findings of a report.

    Raises:
        FlowdiagError: the baseline is invalid.
    """
    if settings.baseline is None:
        return lambda report: report
    from datetime import date

    from flowdiag.analyses.comparison.baseline import KnownFindings, with_baseline

    known = KnownFindings.read(settings.baseline)
    return lambda report: with_baseline(report, known, date.today(), private=settings.redact)


def report_on_paths(
    name: str,
    paths: Sequence[str],
    settings: Settings,
    fields: Mapping[str, Any],
    running: Callable[[], SparkStarter],
    progress: Callable[[str], None],
    spark_lines: list[str],
    inputs: Inputs | None = None,
) -> Report:
    """Find the inputs and diagnose them.

    Args:
        name, paths, settings, fields, inputs: as in `run`.
        running: returns the starting Spark; called only if the inputs need it.
        progress: receives the name of each stage.
        spark_lines: receives a description of Spark with `--verbose`.

    Raises:
        FlowdiagError: as in `run`.
    """
    from flowdiag.analyses.selection.options import Options
    from flowdiag.analyses.topic_names import EVERYTHING, names_of
    from flowdiag.analyses.topics import topic
    from flowdiag.cli.spark.cluster import session_after_checks
    from flowdiag.parsers.sources.remote import is_url, without_credentials

    tables = tables_for(settings)
    progress("checking the inputs")
    discovery, engines = (inputs or _path_inputs(name, paths, settings))(progress)
    # Imported late: the import takes as long as inspecting small inputs, while Spark starts in parallel.
    from flowdiag.analyses.diagnosis import diagnose, inspect_inputs
    from flowdiag.analyses.engine.reading import Resources

    topics = tuple(map(topic, names_of(name, engines)))
    named = tuple(without_credentials(path) if is_url(path) else path for path in paths)
    options = Options(**fields, named=named, everything=name == EVERYTHING)
    inspected = inspect_inputs(topics, discovery, options)
    if not inspected.needs_spark:
        alone = partial(diagnose, topics, inspected, _fail_without_session, options)
        return _with_tables(tables, topics, lambda: alone(resources=Resources(keep=tables)))
    starter = running()

    def attempt() -> Report:
        resources = resources_for(starter, spark_lines if settings.verbose else None)
        with starter.explain_failures():
            return diagnose(
                topics,
                inspected,
                session_after_checks(starter.session, paths, discovery),
                options,
                resources=replace(resources, keep=tables),
                progress=stages(progress, discovery),
            )

    return _with_retry(lambda: _with_tables(tables, topics, attempt), starter)


def _with_retry(attempt: Callable[[], Report], starter: SparkStarter) -> Report:
    """Run a diagnosis, and repeat it if the Java process of an earlier command ended during it."""
    try:
        return attempt()
    except Exception:
        if not starter.replace_lost_java():
            raise
        return attempt()


def _path_inputs(name: str, paths: Sequence[str], settings: Settings) -> Inputs:
    def find(progress: Callable[[str], None]) -> tuple[Discovery, frozenset[str]]:
        from flowdiag.parsers.discover import Discovery

        if not paths:
            return Discovery(sources=(), warnings=(), errors=()), frozenset()
        return inputs_of(name, paths, strict=settings.strict_inputs)

    return find


def _with_tables(
    tables: DataDir | None, topics: Sequence[Topic], diagnosis: Callable[[], Report]
) -> Report:
    return diagnosis() if tables is None else tables.of(topics, diagnosis)


def tables_for(settings: Settings) -> DataDir | None:
    """Return the writer of complete tables, or None without `--data-dir`.

    Raises:
        FlowdiagError: the folder cannot be written.
    """
    if settings.data_dir is None:
        return None
    from flowdiag.analyses.report.data_dir import DataDir
    from flowdiag.cli.spark.settings import is_remote

    if settings.redact:
        raise FlowdiagError(
            "--data-dir and --redact cannot be combined: tables contain the original names",
            hint="remove one of them",
        )
    tables = DataDir(settings.data_dir, excerpts=not settings.no_excerpts)
    if is_remote(settings.master):
        tables.check_cluster()
    return tables


def _fail_without_session() -> Any:
    raise AssertionError("Spark is not needed for these inputs")


def _keep_for_later(settings: Settings) -> None:
    if settings.warm is Warm.NEVER:
        return
    from flowdiag.cli.spark.warm import warm_in_background

    if not settings.quiet and warm_in_background():
        print_message(
            "note",
            "caching Java's classes in the background for faster starts (half a minute, 170 MB)",
            "--warm never or FLOWDIAG_WARM=never turns this off; flowdiag warm --remove deletes it",
        )


def stages(progress: Callable[[str], None], discovery: Discovery) -> Callable[[str], None]:
    """Return a progress function that also shows the number and size of the inputs while they are read."""
    from flowdiag.analyses.model.fmt import plural, size

    readable = [source for source in discovery.sources if source.kind != "not-read"]
    amount = f"{plural(len(readable), 'input')}, {size(sum(s.size for s in readable))}"
    return lambda stage: progress(stage.replace("reading", f"reading {amount}", 1))


def parse_interval_ms(text: str | None, option: str = "--trigger-interval") -> int | None:
    """Parse a duration from the command line.

    Raises:
        FlowdiagError: the text is not a duration, or has no unit.

    >>> parse_interval_ms("10s"), parse_interval_ms("500 ms"), parse_interval_ms(None)
    (10000, 500, None)
    """
    if text is None:
        return None

    from flowdiag.cli.options.values import parse_duration_ms

    value = parse_duration_ms(text, option, below=1e12)
    if value < 1:
        raise FlowdiagError(f"{option} must be at least 1 ms")
    return round(value)


def parse_configuration(pairs: Sequence[str]) -> dict[str, str]:
    """Parse the values of `--conf`.

    Raises:
        FlowdiagError: a value is not of the form `spark.KEY=VALUE`.

    >>> parse_configuration(["spark.streaming.blockInterval=50ms"])
    {'spark.streaming.blockInterval': '50ms'}
    """
    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip().startswith("spark."):
            raise FlowdiagError(f"--conf: '{pair}' is not an option", hint="write spark.key=value")
        found[key.strip()] = value.strip()
    return found


def deliver(command: str, settings: Settings, diagnosis: Callable[[Progress], Report]) -> ExitCode:
    """Run a diagnosis and write its report; with `--format json`, even a bug produces a document.

    Raises:
        FlowdiagError: from the diagnosis, or the report cannot be written.
    """
    try:
        with library_logging(debug=settings.debug):
            with Progress(quiet=settings.quiet) as progress:
                report = diagnosis(progress)
            # Imported late, when there is something to render.
            from flowdiag.cli.output.writing import (
                add_faults,
                filter_findings,
                print_warnings,
                render_with_faults,
            )

            text, faults = render_with_faults(filter_findings(report, settings), settings)
        report = add_faults(report, faults)
    except FlowdiagError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and is_disk_full(error):
            raise no_temporary_space(error) from error
        if is_out_of_resources(error):
            raise out_of_resources(error) from error
        if settings.format is Format.JSON:
            from flowdiag.analyses.faults import fault_of
            from flowdiag.analyses.report.build import failed_report
            from flowdiag.cli.output.writing import render_report

            report = failed_report(command, fault_of(error))
            write_report(render_report(report, settings), settings.output)
        raise
    damaged = [item for item in report.inputs if item.error]
    if settings.strict_inputs and damaged:
        raise InputError(f"{damaged[0].source}: {damaged[0].error}", hint="--strict-inputs is set")
    if not settings.quiet:
        print_warnings(report)
    write_report(text, settings.output)
    return exit_code(report, settings)


@contextmanager
def library_logging(*, debug: bool) -> Iterator[None]:
    """Silence the loggers of libraries. For example, py4j logs a traceback when Ctrl-C ends a query.

    Args:
        debug: do not silence them, and show the tracebacks of bugs.
    """
    before, ours, handler = logging.root.manager.disable, _LOG.level, logging.StreamHandler()
    if debug:
        _LOG.addHandler(handler)
        _LOG.setLevel(logging.DEBUG)
    else:
        logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
        _LOG.removeHandler(handler)
        _LOG.setLevel(ours)
