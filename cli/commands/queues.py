"""`flowdiag queues`."""

from __future__ import annotations

from typing import Annotated

import typer

from flowdiag.cli import options as o
from flowdiag.cli.settings import load_settings
from flowdiag.cli.spark.early import spark_for

WhatIf = Annotated[
    bool,
    typer.Option(
        "--what-if",
        help="Play fewer buffers, debloating, unaligned checkpoints and more subtasks in a model that is"
        " fitted to the job; takes some seconds more.",
        rich_help_panel="Model",
    ),
]


def queues(
    paths: o.Paths,
    tz: o.Tz = None,
    strict_inputs: o.StrictInputs = None,
    since: o.Since = None,
    until: o.Until = None,
    job: o.Job = None,
    what_if: WhatIf = False,
    format: o.OutputFormat = None,
    output: o.Output = None,
    max_rows: o.MaxRows = None,
    redact: o.Redact = None,
    no_excerpts: o.NoExcerpts = None,
    no_color: o.NoColor = None,
    fail_on: o.FailOnOption = None,
    allow_inconclusive: o.AllowInconclusive = None,
    master: o.Master = None,
    config: o.Config = None,
    quiet: o.Quiet = None,
    verbose: o.Verbose = None,
    debug: o.Debug = None,
) -> int:
    """Where does the Flink job's back pressure start, and whose queues are full?

    \b
    Examples:
      flowdiag queues logs/
      flowdiag queues collected/ --since 30m
      flowdiag queues prometheus.json rest/ --job 'orders-*'
      flowdiag queues logs/ --what-if
      flowdiag queues logs/ --format json | jq '.summary.culprits[0]'

    Give it metrics and the job graph: logs with metric reports (Slf4jReporter), files of Prometheus,
    what `flowdiag collect` saved, saved REST answers, archives; logs and configurations add to it.
    """
    settings = load_settings(o.flags(locals()), config=config)

    with spark_for(settings, paths) as spark:
        from flowdiag.cli.diagnosing import Diagnosis, asked_for, run_on_spark

        asked = asked_for(settings, since=since, until=until, job=job)

        def diagnosing() -> Diagnosis:
            from flowdiag.analyses.queues.topic import Wishes, diagnose
            from flowdiag.analyses.report.wire import Data

            return Diagnosis(diagnose, Wishes(**asked, what_if=what_if), Data(vertices=[]))

        return run_on_spark("queues", diagnosing, paths, settings, engine="flink", spark=spark)
