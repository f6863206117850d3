"""`flowdiag diagnose` for live servers, once or repeatedly (`--every`).

Each round collects data, diagnoses everything that recent rounds collected, and prints the changes. All rounds share
one Spark session. The rows and copies of a round are removed before the next round starts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from flowdiag.analyses.inputs import find, with_owners
from flowdiag.cli import diagnosing
from flowdiag.cli.exit_codes import ExitCode, exit_code
from flowdiag.cli.output.console import (
    Progress,
    check_output,
    print_message,
    write_report,
    write_stdout,
)
from flowdiag.cli.settings import Format, Settings
from flowdiag.cli.spark.launch import start_spark
from flowdiag.parsers.errors import FlowdiagError, InputError

if TYPE_CHECKING:
    from flowdiag.analyses.contract.report import Report
    from flowdiag.analyses.report.changes import Round
    from flowdiag.cli.live.servers import Servers
    from flowdiag.cli.spark.starter import SparkStarter
    from flowdiag.parsers.discover import Discovery
    from flowdiag.parsers.live.client import Access

ROUNDS_DIAGNOSED: Final = 3
"""The number of recent rounds that are diagnosed together, unless `--since` sets another span."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The live servers to diagnose, and how often to do so.

    Attributes:
        paths: all inputs, as the user wrote them.
        urls: inputs that are servers.
        doubtful: URLs that may be servers or files.
        others: the remaining inputs.
        access: credentials and TLS settings.
        for_s: how long a round collects.
        keep: the user's own folder for the responses.
        every_s: interval between round starts; None: run a single round.
        times: number of rounds; None: until interrupted.
        words: the `--exec` command.
        stacks: when to take thread dumps.
    """

    paths: Sequence[str]
    urls: Sequence[str]
    doubtful: Sequence[str]
    others: Sequence[str]
    access: Access
    for_s: float
    keep: str | None = None
    every_s: float | None = None
    times: int | None = None
    words: Sequence[str] = ()
    stacks: str = "auto"

    def __call__(
        self, name: str, settings: Settings, fields: Mapping[str, Any], spark: SparkStarter | None
    ) -> int:
        """Run the plan; implements `diagnosing.Run`."""
        with self._servers(fields) as servers:
            inputs = _Inputs(plan=self, servers=servers, strict=settings.strict_inputs)
            if self.every_s is None:
                return diagnosing.run(name, self.paths, settings, fields, spark, inputs)
            return _RepeatedRounds(
                plan=self, name=name, settings=settings, fields=fields, spark=spark, inputs=inputs
            ).run()

    @contextmanager
    def _servers(self, fields: Mapping[str, Any]) -> Iterator[Servers]:
        from flowdiag.analyses.report.version import tool_version
        from flowdiag.cli.live.servers import CollectOptions, Servers
        from flowdiag.parsers.cleanup import temporary_folder
        from flowdiag.parsers.live.thread_dumps import Stacks

        selection = fields["selection"]
        options = CollectOptions(
            access=self.access,
            for_s=self.for_s,
            selection=selection,
            tool=tool_version(),
            stacks=Stacks(self.stacks),
        )
        back_us = selection.since.before_end_us if selection.since else None
        every_s = self.every_s or 0
        span_s = back_us / 1e6 if back_us is not None else (ROUNDS_DIAGNOSED - 1) * every_s
        with ExitStack() as stack:
            root = (
                Path(self.keep)
                if self.keep is not None
                else stack.enter_context(temporary_folder("flowdiag-live-"))
            )
            yield Servers(
                [*self.urls, *self.doubtful],
                options,
                root,
                kept=self.keep is not None,
                span_s=span_s,
            )


@dataclass(slots=True, kw_only=True)
class _Inputs:
    """The inputs of one round: the collected responses and the other paths."""

    plan: Plan
    servers: Servers
    strict: bool

    def __call__(self, progress: Callable[[str], None]) -> tuple[Discovery, frozenset[str]]:
        """Collect and find inputs; implements `diagnosing.Inputs`."""
        found = self.servers.collect(progress, self.plan.doubtful)
        others = [*self.plan.others, *found.paths]
        # Responses from earlier rounds do not describe the current state.
        if found.errors and (self.strict or not (found.fresh or others)):
            first = found.errors[0]
            more = f" (and {len(found.errors) - 1} more)" if len(found.errors) > 1 else ""
            raise InputError(first.message + more, hint=first.hint)
        from flowdiag.cli.live.servers import unavailable_note

        progress("checking the inputs")
        discovery = find([*others, *found.files], strict=self.strict)
        notes = [*map(unavailable_note, found.errors), *found.warnings]
        return with_owners(
            replace(
                discovery,
                sources=tuple(
                    replace(source, name=found.display_name(source.name))
                    for source in discovery.sources
                ),
                warnings=(*notes, *discovery.warnings),
            )
        )


@dataclass(slots=True, kw_only=True)
class _RepeatedRounds:
    """Runs rounds at an interval until interrupted or `times` is reached."""

    plan: Plan
    name: str
    settings: Settings
    fields: Mapping[str, Any]
    spark: SparkStarter | None
    inputs: _Inputs
    before: Report | None = None
    shown_warnings: set[str] = field(default_factory=set)  # shown in the previous round
    muting: Callable[[Report], Report] = field(init=False)

    def __post_init__(self) -> None:
        """Read the baseline before contacting any server, so that a broken baseline fails early."""
        self.muting = diagnosing.muting_of(self.settings)

    def run(self) -> int:
        """Run all rounds and return the exit code of the last round.

        Raises:
            FlowdiagError: the first round had nothing to read, or the error is permanent.
        """
        check_output(self.settings.output)
        plan, number, code = self.plan, 0, ExitCode.CLEAR
        assert plan.every_s is not None
        with ExitStack() as stack:
            if self.spark is not None:
                stack.enter_context(self.spark)
            while True:
                number += 1
                begun = time.monotonic()
                code = self._run_round(number, stack)
                if number == plan.times:
                    return code
                self._remove_round_data()
                with self._progress() as progress:
                    progress(f"round {number} done; a round starts every {plan.every_s:g} s")
                    pause(begun + plan.every_s - time.monotonic())

    def _run_round(self, number: int, stack: ExitStack) -> ExitCode:
        settings = self.settings
        try:
            with diagnosing.library_logging(debug=settings.debug), self._progress() as progress:
                report = diagnosing.report_on_paths(
                    self.name,
                    self.plan.paths,
                    settings,
                    self.fields,
                    lambda: self._start_spark(stack),
                    progress,
                    [],
                    self.inputs,
                )
                report = self.muting(report)
        except InputError as trouble:
            if self.before is None:
                raise
            self._report_failed_round(number, trouble)
            return ExitCode.USAGE
        self._report_round(number, report)
        return exit_code(report, settings)

    def _start_spark(self, stack: ExitStack) -> SparkStarter:
        """Return the Spark session that all rounds share, and start it on first use."""
        if self.spark is None:
            self.spark = stack.enter_context(start_spark(self.settings, self.plan.paths))
        return self.spark

    def _report_round(self, number: int, report: Report) -> None:
        """Print the changes, run the `--exec` command, and keep the report for the next round."""
        from flowdiag.analyses.report.changes import changes
        from flowdiag.cli.output.writing import filter_findings, print_warnings, render_report

        settings, before = self.settings, self.before
        shown = filter_findings(report, settings)
        if not settings.quiet:
            self.shown_warnings = print_warnings(report, self.shown_warnings)
        changed = changes(before, shown)
        verdict = before.summary.verdict if before is not None else None
        this = self._round_record(number, report, exit_code(report, settings), changed)
        if settings.output not in (None, "-"):
            write_report(render_report(shown, settings), settings.output)
            self._write_changes(this)
        elif settings.format is Format.JSON:
            from flowdiag.analyses.report.changes import encode_round

            write_stdout(encode_round(this))
        elif before is None:
            write_stdout(render_report(shown, settings))
        else:
            self._write_changes(this)
        if changed and self.plan.words:
            from flowdiag.cli.live import hook

            hook.run(self.plan.words, shown, changed, number=number, before=verdict)
        self.before = shown

    def _report_failed_round(self, number: int, trouble: InputError) -> None:
        """Warn about a round without any response; the next round may succeed."""
        from flowdiag.analyses.contract.report import Note
        from flowdiag.analyses.report.changes import encode_round

        print_message("warning", f"round {number}: {trouble.message}; will retry", trouble.hint)
        if self.settings.format is Format.JSON and self.settings.output in (None, "-"):
            note = Note(message=trouble.message, hint=trouble.hint)
            write_stdout(encode_round(self._round_record(number, None, ExitCode.USAGE, [], [note])))

    def _round_record(
        self, number: int, report: Report | None, code: int, changed: Any, errors: Any = ()
    ) -> Round:
        from flowdiag.analyses.contract.report import iso
        from flowdiag.analyses.report.changes import Round

        now = iso(time.time_ns() // 1000)
        assert now is not None
        return Round(
            round=number,
            time=now,
            verdict=report.summary.verdict if report is not None else None,
            verdict_before=self.before.summary.verdict if self.before is not None else None,
            exit_code=int(code),
            changes=changed,
            errors=list(errors),
            report=report,
        )

    def _write_changes(self, this: Round) -> None:
        from flowdiag.cli.output.writing import stdout_page
        from flowdiag.cli.settings import When
        from flowdiag.cli.views.changes import changes_text

        settings = self.settings
        color = When.NEVER if settings.no_color else settings.color
        page = replace(stdout_page(color), zone=settings.show_tz)
        write_stdout(changes_text(this, page))

    def _progress(self) -> Progress:
        return Progress(quiet=self.settings.quiet)

    def _remove_round_data(self) -> None:
        """Free the memory and disk space of this round."""
        from flowdiag.parsers.sources.containers import remove_copies

        remove_copies()
        if self.spark is not None and self.spark.is_ready:
            self.spark.release_rows()


def pause(seconds: float) -> None:
    """Wait for the next round; return at once if this round took longer than the interval."""
    time.sleep(max(0.0, seconds))


def plan_from(
    paths: Sequence[str],
    arguments: Mapping[str, Any],
    settings: Settings,
) -> Plan | None:
    """Build the plan for live servers, or None if all inputs are plain paths.

    Args:
        paths: as the user wrote them.
        arguments: the values of the command line.
        settings: from all layers.

    Raises:
        FlowdiagError: options contradict each other or do not apply to the inputs.
    """
    from flowdiag.cli.options.routing import split_servers

    urls, doubtful, others = split_servers(paths)
    live = bool(urls or doubtful)
    _check_option_conflicts(arguments, live=live)
    if not live and arguments["every"] is None:
        return None
    from flowdiag.cli.live.access import access_from, seconds

    every_s = (
        None if arguments["every"] is None else seconds(arguments["every"], "--every", least_s=10)
    )
    for_s = seconds(arguments["duration"], "--for") if arguments["duration"] else ROUND_DURATION_S
    if every_s is not None:
        if arguments["duration"] and for_s > every_s:
            raise FlowdiagError(
                f"--for {arguments['duration']} is longer than --every {arguments['every']}",
                hint="a round must end before the next round starts",
            )
        for_s = min(for_s, every_s)
        _check_rounds(paths, arguments, settings)
    words: Sequence[str] = ()
    if arguments["command"] is not None:
        from flowdiag.cli.live.hook import parse_command

        words = parse_command(arguments["command"])
    if arguments["keep"] is not None:
        _check_writable(Path(arguments["keep"]))
    return Plan(
        paths=tuple(paths),
        urls=urls,
        doubtful=doubtful,
        others=others,
        access=access_from(arguments),
        for_s=for_s,
        keep=arguments["keep"],
        every_s=every_s,
        times=arguments["times"],
        words=words,
        stacks=arguments["stacks"],
    )


ROUND_DURATION_S: Final = 60.0
"""How long a round collects by default.

A JobManager refreshes metrics every 10 s, and queue analysis needs five samples. The first sample is often
missing, because the JobManager fetches metrics only after a request.
"""


def _check_option_conflicts(arguments: Mapping[str, Any], *, live: bool) -> None:
    for name, option in (("duration", "--for"), ("keep", "--keep")):
        if arguments[name] is not None and not live:
            raise FlowdiagError(
                f"{option} requires a live server, but no input is a live server",
                hint="pass a URL: flowdiag diagnose http://jobmanager:8081",
            )
    for name, option in (("times", "--times"), ("command", "--exec")):
        if arguments[name] is not None and arguments["every"] is None:
            raise FlowdiagError(f"{option} requires --every", hint="add --every 5m")


def _check_rounds(paths: Sequence[str], arguments: Mapping[str, Any], settings: Settings) -> None:
    from flowdiag.analyses.selection.span import parse_moment

    if "-" in paths:
        raise FlowdiagError("standard input can be read only once", hint="remove --every")
    if arguments["since"] and parse_moment(arguments["since"]).before_end_us is None:
        raise FlowdiagError(
            f"--since {arguments['since']}: --every requires a duration here",
            hint="write --since 1h: each round then looks back one hour",
        )
    if settings.format not in (Format.TABLE, Format.JSON) and settings.output in (None, "-"):
        raise FlowdiagError(
            f"--every cannot print {settings.format} repeatedly",
            hint="write the last round's report to a file with --output, or use --format json",
        )


def _check_writable(folder: Path) -> None:
    """Fail before collecting if the folder cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".flowdiag"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise FlowdiagError(
            f"--keep: cannot write to '{folder}': {error.strerror or error}",
            hint="choose a writable folder",
        ) from None
