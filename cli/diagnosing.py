"""From a command line to an exit code: what every command that diagnoses has in common.

A command is its help, its own options and what they mean (`commands/*.py`); `diagnosing` gives it the
options that all share and runs the one flow of `analyses.diagnosis` over its topic.
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
from flowdiag.analyses.model.zones import zone_name
from flowdiag.cli.exit_codes import ExitCode, exit_code
from flowdiag.cli.options import shared as o
from flowdiag.cli.options.routing import refuse_servers
from flowdiag.cli.options.settings import Effective, Format, Settings, Warm, effective
from flowdiag.cli.output.console import Progress, check_output, print_message, write_report
from flowdiag.cli.render import check_format
from flowdiag.cli.spark.early import spark_for
from flowdiag.cli.spark.resources import resources_of
from flowdiag.parsers.errors import (
    FlowdiagError,
    InputError,
    is_disk_full,
    is_out_of_resources,
    no_temporary_space,
    out_of_resources,
)

if TYPE_CHECKING:
    from flowdiag.analyses.diagnosis import Topic
    from flowdiag.analyses.model.choice import Choice
    from flowdiag.analyses.model.options import Options
    from flowdiag.analyses.report.data_dir import DataDir
    from flowdiag.analyses.report.wire import Report
    from flowdiag.cli.spark.starter import SparkStarter
    from flowdiag.parsers.sources.discover import Discovery

_LOG: Final = logging.getLogger("flowdiag")

Own = Mapping[str, tuple[Any, Any]]
"""Options of one command by name: what Typer reads of it (`Annotated[…]`), and the default."""

Meaning = Callable[[Mapping[str, Any]], Mapping[str, Any]]
"""What a command's own options mean: fields of `analyses.options.Options`."""

Inputs = Callable[[Callable[[str], None]], "tuple[Discovery, frozenset[str]]"]
"""Finds what there is to be read, and whose it is: flink, spark."""

Run = Callable[[str, "Settings", Mapping[str, Any], "SparkStarter | None"], int]
"""What a command does instead of `run` over paths: told its name, the settings, fields of `Options`, Spark."""


# What all commands take, before and behind what is a command's own.
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
    otherwise: Callable[[Mapping[str, Any], Settings], Run | None] = lambda given, settings: None,
) -> Callable[[Meaning], Callable[..., int]]:
    """Make a command of a function that is named as its topic.

    The function's docstring is the help; it is given the values of all options, and returns what the
    command's own ones mean.

    Args:
        inputs: options of its own, before those that all share.
        model: options of its own, behind the selection.
        paths: the argument, and its default.
        job: name of the option that selects a job, and what Typer reads of it; None: there is none.
        early: whether it always needs Spark, which takes seconds: begin to start it at once.
        otherwise: what to do where the inputs are no paths alone; None: nothing of the kind.
    """
    accepted = {"paths": paths, **_accepted(inputs or {}, job, model or {})}

    def command_of(meaning: Meaning) -> Callable[..., int]:
        name: str = meaning.__name__

        def command(**given: Any) -> int:
            found = effective(o.flags(given), config=given["config"])
            if given["show_config"]:
                return show_config(found)
            settings = found.settings
            wanted = given["paths"] or []
            other = otherwise(given, settings)
            with ExitStack() as stack:
                spark = stack.enter_context(spark_for(settings, wanted)) if early else None
                asked = asked_for(settings, given, job[0] if job else None)
                asked |= meaning(given)
                if other is not None:
                    return other(name, settings, asked, spark)
                return run(name, wanted, settings, asked, spark)

        command.__signature__ = Signature(  # type: ignore[attr-defined]
            [
                Parameter(each, Parameter.POSITIONAL_OR_KEYWORD, annotation=kind, default=default)
                for each, (kind, default) in accepted.items()
            ]
        )
        command.__annotations__ = {each: kind for each, (kind, _) in accepted.items()}
        command.__name__, command.__doc__ = name, meaning.__doc__
        return command

    return command_of


def _accepted(inputs: Own, job: tuple[str, Any] | None, model: Own) -> dict[str, tuple[Any, Any]]:
    """What a command takes behind its paths, in the order of its help."""
    return {
        **inputs,
        **{name: (kind, None) for name, kind in _FIRST.items()},
        **({job[0]: (job[1], None)} if job else {}),
        **model,
        **{name: (kind, False if name == "show_config" else None) for name, kind in _LAST.items()},
    }


def asked_for(
    settings: Settings, given: Mapping[str, Any], job: str | None = None
) -> dict[str, Any]:
    """Settings and options of the command line in the terms of the analyses: fields of `Options`.

    Args:
        settings: of all layers.
        given: the values of the command line.
        job: name of the option that selects a job.

    Raises:
        FlowdiagError: a time, zone or threshold that is none.
    """
    from flowdiag.analyses.model.span import Selection, parse_moment
    from flowdiag.analyses.report.privacy import Privacy

    overrides, choice = rule_settings(settings)
    since, until = given["since"], given["until"]
    return {
        "selection": Selection(
            since=parse_moment(since) if since else None,
            until=parse_moment(until) if until else None,
            job=given[job] if job else None,
        ),
        "tz": zone_name(settings.tz),
        "thresholds": overrides,
        "choice": choice,
        "privacy": Privacy(excerpts=not settings.no_excerpts, redact=settings.redact),
        "max_rows": settings.max_rows,
    }


def rule_settings(settings: Settings) -> tuple[Mapping[str, Mapping[str, float]], Choice]:
    """What the settings say about rules: thresholds by code, and which ones are heard.

    Raises:
        FlowdiagError: a rule or a threshold that there is none of.
    """
    from flowdiag.analyses.model.choice import Choice, chosen, rule_overrides

    if not (settings.thresholds or settings.select or settings.ignore):
        return {}, Choice()
    from flowdiag.analyses.topics import all_rules  # of all commands: many imports

    rules = all_rules()
    overrides = rule_overrides(settings.thresholds, rules)
    return overrides, chosen(settings.select, settings.ignore, rules)


def show_config(found: Effective) -> ExitCode:
    """Show the settings of all layers instead of doing anything.

    Raises:
        FlowdiagError: a rule, a threshold or a zone that there is none of.
    """
    from flowdiag.cli.options.configuration import shown

    rule_settings(found.settings)
    zone_name(found.settings.tz)
    write_report(shown(found), found.settings.output)
    return ExitCode.CLEAR


def run(
    name: str,
    paths: Sequence[str],
    settings: Settings,
    asked: Mapping[str, Any],
    spark: SparkStarter | None,
    inputs: Inputs | None = None,
) -> ExitCode:
    """Find the inputs, diagnose them, report.

    Args:
        name: of the command without `flowdiag`: its topic, or `diagnose` for all that fit.
        paths: as given.
        settings: of all layers.
        asked: fields of `Options`.
        spark: on its way since the command began; None: started only where the inputs need it.
        inputs: finds what there is to be read, where that is not what lies at the paths.

    Raises:
        FlowdiagError: wrong usage or configuration, or no input can be read.
    """
    told: list[str] = []
    check_output(settings.output)
    check_format(settings.format)
    if inputs is None:
        refuse_servers(paths, name)
    muting = muting_of(settings)
    tables_for(settings)  # what cannot be written is told before the work

    def diagnosis(progress: Progress) -> Report:
        with ExitStack() as stack:
            if spark is not None:
                stack.enter_context(spark)

            def running() -> SparkStarter:
                return spark or stack.enter_context(spark_for(settings, paths))

            if spark is None:
                from flowdiag.cli.spark.cluster import check_inputs_of

                check_inputs_of(settings.master, paths)
            report = muting(
                diagnosed(name, paths, settings, asked, running, progress, told, inputs)
            )
            return report if inputs is None else asked_again(report)

    code = deliver(name, settings, diagnosis)
    for line in told:
        print_message("spark", line)
    if spark is not None and settings.master is None:
        _keep_for_later(settings)
    return code


def muting_of(settings: Settings) -> Callable[[Report], Report]:
    """What to do with a report that is judged, before it is shown: mute what the baseline knows.

    Raises:
        FlowdiagError: something in the baseline is wrong.
    """
    if settings.baseline is None:
        return lambda report: report
    from datetime import date

    from flowdiag.analyses.comparison.baseline import KnownFindings, with_baseline

    known = KnownFindings.read(settings.baseline)
    return lambda report: with_baseline(report, known, date.today(), private=settings.redact)


def asked_again(report: Report) -> Report:
    """A report on live servers, where what checks a remedy is to ask them again: only `diagnose` does."""
    first = report.summary.first_action
    if first is None:
        return report
    from msgspec.structs import replace as changed

    _, _, paths = first.run.removeprefix("flowdiag ").partition(" ")
    first = changed(first, run=f"flowdiag {report.tool.command} {paths}")
    return changed(report, summary=changed(report.summary, first_action=first))


def diagnosed(
    name: str,
    paths: Sequence[str],
    settings: Settings,
    asked: Mapping[str, Any],
    running: Callable[[], SparkStarter],
    progress: Callable[[str], None],
    told: list[str],
    inputs: Inputs | None = None,
) -> Report:
    """Find the inputs and diagnose them.

    Args:
        name, paths, settings, asked, inputs: as of `run`.
        running: Spark on its way; called where the inputs need it.
        progress: is told what is being done.
        told: filled with what Spark runs on, if somebody asked for it.

    Raises:
        FlowdiagError: as of `run`.
    """
    from flowdiag.analyses.topics import names_of, topic
    from flowdiag.cli.spark.cluster import checked_session

    tables = tables_for(settings)
    progress("looking at the inputs")
    discovery, engines = (inputs or _found(name, paths, settings))(progress)
    # Not before: to import what diagnoses takes as long as to look at small inputs, and Spark, which
    # is waited for, is on its way meanwhile.
    from flowdiag.analyses.diagnosis import diagnose, inspect_inputs
    from flowdiag.analyses.engine.reading import Resources

    topics = tuple(map(topic, names_of(name, engines)))
    options = _options(name, paths, asked)
    inspected = inspect_inputs(topics, discovery, options)
    if not inspected.needs_spark:
        alone = partial(diagnose, topics, inspected, _no_session, options)
        return _kept(tables, topics, lambda: alone(resources=Resources(keep=tables)))
    starter = running()

    def attempt() -> Report:
        resources = resources_of(starter, told if settings.verbose else None)
        with starter.explaining():
            return diagnose(
                topics,
                inspected,
                checked_session(starter.session, paths, discovery),
                options,
                resources=replace(resources, keep=tables),
                progress=stages(progress, discovery),
            )

    return _tried_again(lambda: _kept(tables, topics, attempt), starter)


def _tried_again(attempt: Callable[[], Report], starter: SparkStarter) -> Report:
    """What an attempt comes to; the Java of an earlier command may end at any time: then all is done anew."""
    try:
        return attempt()
    except Exception:
        if not starter.leave_kept():
            raise
        return attempt()


def _found(name: str, paths: Sequence[str], settings: Settings) -> Inputs:
    """Finds what lies at the paths, if there are any."""

    def find(progress: Callable[[str], None]) -> tuple[Discovery, frozenset[str]]:
        from flowdiag.parsers.sources.discover import Discovery

        if not paths:
            return Discovery(sources=(), warnings=(), errors=()), frozenset()
        return inputs_of(name, paths, strict=settings.strict_inputs)

    return find


def _kept(
    tables: DataDir | None, topics: Sequence[Topic], diagnosis: Callable[[], Report]
) -> Report:
    """What a diagnosis reports, its tables kept where they are wanted."""
    return diagnosis() if tables is None else tables.of(topics, diagnosis)


def tables_for(settings: Settings) -> DataDir | None:
    """What keeps the complete tables; None: nobody wants them.

    Raises:
        FlowdiagError: they cannot be written where they are wanted.
    """
    if settings.data_dir is None:
        return None
    from flowdiag.analyses.report.data_dir import DataDir
    from flowdiag.cli.spark.cluster import is_remote

    if settings.redact:
        raise FlowdiagError(
            "--data-dir and --redact do not go together: tables keep names as the logs have them",
            hint="leave out one of them",
        )
    tables = DataDir(settings.data_dir, excerpts=not settings.no_excerpts)
    if is_remote(settings.master):
        tables.check_cluster()
    return tables


def _options(name: str, paths: Sequence[str], asked: Mapping[str, Any]) -> Options:
    """What was asked; URLs are named without what opens doors."""
    from flowdiag.analyses.model.options import Options
    from flowdiag.analyses.topics import EVERYTHING
    from flowdiag.parsers.sources.remote import is_url, without_credentials

    named = tuple(without_credentials(path) if is_url(path) else path for path in paths)
    return Options(**asked, named=named, everything=name == EVERYTHING)


def _no_session() -> Any:
    raise AssertionError("nothing was left to be scanned")


def _keep_for_later(settings: Settings) -> None:
    if settings.warm is Warm.NEVER:
        return
    from flowdiag.cli.spark.warm import warm_in_background

    if warm_in_background(told=not settings.quiet):
        print_message(
            "note",
            "a process in the background keeps what Java loaded, so that later runs start faster"
            " (half a minute, 170 MB)",
            "--warm never or FLOWDIAG_WARM=never turns that off; flowdiag warm --remove undoes it",
        )


def stages(progress: Callable[[str], None], discovery: Discovery) -> Callable[[str], None]:
    """Shows the stages of a diagnosis; the reading of the inputs with how much there is of them."""
    from flowdiag.analyses.model.fmt import plural, size

    readable = [source for source in discovery.sources if source.kind != "not-read"]
    told = f"{plural(len(readable), 'input')}, {size(sum(s.size for s in readable))}"
    return lambda stage: progress(stage.replace("reading", f"reading {told}", 1))


def interval_ms(text: str | None, option: str = "--trigger-interval") -> int | None:
    """A length of time that a user wrote.

    Raises:
        FlowdiagError: it is none, or has no unit.

    >>> interval_ms("10s"), interval_ms("500 ms"), interval_ms(None)
    (10000, 500, None)
    """
    if text is None:
        return None
    from flowdiag.cli.options.values import length

    value = length(text, option, below=1e12)
    if value < 1:
        raise FlowdiagError(f"{option} must be at least 1 ms")
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


def deliver(command: str, settings: Settings, diagnosis: Callable[[Progress], Report]) -> ExitCode:
    """Run a diagnosis and write its report; with `--format json` even a bug leaves a document.

    Raises:
        FlowdiagError: from the diagnosis, or the report cannot be written.
    """
    try:
        with logged(debug=settings.debug):
            with Progress(quiet=settings.quiet) as progress:
                report = diagnosis(progress)
            # Not before: what renders is imported when there is something to render.
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
            from flowdiag.analyses.report.build import failed_report
            from flowdiag.analyses.report.faults import fault_of
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
def logged(*, debug: bool) -> Iterator[None]:
    """Keep libraries from logging to stderr: py4j logs a traceback when Ctrl-C ends a query.

    Args:
        debug: let them, and show the traces of faults.
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
