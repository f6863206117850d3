"""From settings to an exit code, for the commands about how a Flink cluster starts and what it holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flowdiag.analyses.report import Privacy, Report
from flowdiag.analyses.rules.every import ALL_RULES
from flowdiag.cli.console import Progress
from flowdiag.cli.exit_codes import ExitCode
from flowdiag.cli.render.words import plural, size
from flowdiag.cli.run import deliver, find, zone_name
from flowdiag.cli.settings import Settings, rule_overrides
from flowdiag.parsers.errors import FlowdiagError


def run_memory(
    paths: Sequence[str],
    settings: Settings,
    *,
    options: Mapping[str, str],
    version: str | None = None,
    container: bool | None = None,
) -> ExitCode:
    """`flowdiag memory`: a calculator without inputs; with them, configured against observed.

    Raises:
        FlowdiagError: wrong usage or configuration, or no input can be read.
    """
    from flowdiag.analyses.memory import diagnosis as memory

    if not paths and not options:
        raise FlowdiagError(
            "nothing to look at: no input and no option",
            hint="flowdiag memory logs/ or flowdiag memory --process-size 4g --flink 1.20",
        )
    wishes = memory.Wishes(
        options=options,
        version=version,
        container=container,
        tz=zone_name(settings.tz),
        thresholds=rule_overrides(settings.thresholds, ALL_RULES),
        privacy=Privacy(excerpts=not settings.no_excerpts, redact=settings.redact),
        max_rows=settings.max_rows,
    )

    def diagnosis(progress: Progress) -> Report:
        if not paths:
            return memory.calculate(wishes)
        progress("looking at the inputs")
        discovery = find(paths, strict=settings.strict_inputs, engine="flink")
        others = memory.look_at(discovery, wishes)
        if not memory.needs_spark(discovery.sources, others):
            return memory.diagnose(discovery, others, None, wishes)

        from flowdiag.cli.session import SparkStarter

        readable = [source for source in discovery.sources if source.kind != "not-read"]
        told = f"{plural(len(readable), 'input')}, {size(sum(s.size for s in readable))}"
        with SparkStarter.begin() as spark:
            return memory.diagnose(
                discovery,
                others,
                spark.session,
                wishes,
                tune=lambda small: spark.tune(small=small),
                say=lambda stage: progress(f"{stage} {told}" if stage == "reading" else stage),
            )

    return deliver("memory", settings, diagnosis)


def run_startup(paths: Sequence[str], settings: Settings, *, job: str | None = None) -> ExitCode:
    """`flowdiag startup`: find the inputs, rebuild the starts, report.

    Raises:
        FlowdiagError: wrong usage or configuration, or no input can be read.
    """
    from flowdiag.analyses.selection import Selection
    from flowdiag.analyses.startup import diagnosis as startup

    wishes = startup.Wishes(
        selection=Selection(job=job),
        tz=zone_name(settings.tz),
        thresholds=rule_overrides(settings.thresholds, ALL_RULES),
        privacy=Privacy(excerpts=not settings.no_excerpts, redact=settings.redact),
        max_rows=settings.max_rows,
    )

    def diagnosis(progress: Progress) -> Report:
        from flowdiag.cli.session import SparkStarter

        with SparkStarter.begin() as spark:
            progress("looking at the inputs")
            discovery = find(paths, strict=settings.strict_inputs, engine="flink")
            readable = [source for source in discovery.sources if source.kind != "not-read"]
            if not readable:
                return startup.nothing_read(discovery, wishes.privacy)
            told = f"{plural(len(readable), 'input')}, {size(sum(s.size for s in readable))}"
            return startup.diagnose(
                discovery,
                spark.session,
                wishes,
                tune=lambda small: spark.tune(small=small),
                say=lambda stage: progress(f"{stage} {told}" if stage == "reading" else stage),
            )

    return deliver("startup", settings, diagnosis)
