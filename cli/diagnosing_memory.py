"""From settings to an exit code for `flowdiag memory`, which often needs no Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from flowdiag.analyses.report.wire import Report
from flowdiag.cli.console import Progress
from flowdiag.cli.diagnosing import asked_for, deliver, find, means_of, stages
from flowdiag.cli.exit_codes import ExitCode
from flowdiag.cli.settings import Settings
from flowdiag.parsers.errors import FlowdiagError


def run_memory(
    paths: Sequence[str],
    settings: Settings,
    *,
    options: Mapping[str, str],
    version: str | None = None,
    container: bool | None = None,
    since: str | None = None,
    until: str | None = None,
) -> ExitCode:
    """`flowdiag memory`: a calculator without inputs; with them, configured against observed.

    Raises:
        FlowdiagError: wrong usage or configuration, or no input can be read.
    """
    from flowdiag.analyses.memory import topic as memory

    if not paths and not options:
        raise FlowdiagError(
            "nothing to look at: no input and no option",
            hint="flowdiag memory logs/ or flowdiag memory --process-size 4g --flink 1.20",
        )
    wishes = memory.Wishes(
        **asked_for(settings, since=since, until=until),
        options=options,
        version=version,
        container=container,
    )

    def diagnosis(progress: Progress) -> Report:
        if not paths:
            return memory.calculate(wishes)
        from flowdiag.cli.spark.cluster import check_inputs_of, checked_session

        check_inputs_of(settings.master, paths)
        progress("looking at the inputs")
        discovery = find(paths, strict=settings.strict_inputs, engine="flink")
        others = memory.look_at(discovery, wishes)
        if not memory.needs_spark(discovery.sources, others):
            return memory.diagnose(discovery, others, None, wishes)

        from flowdiag.cli.spark.early import spark_for

        with spark_for(settings, paths) as spark:
            return memory.diagnose(
                discovery,
                others,
                checked_session(spark.session, paths, discovery),
                wishes,
                means=means_of(spark),
                say=stages(progress, discovery),
            )

    return deliver("memory", settings, diagnosis)
