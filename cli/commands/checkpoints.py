"""`flowdiag checkpoints`."""

from __future__ import annotations

from flowdiag.cli import options as o
from flowdiag.cli.settings import load_settings
from flowdiag.cli.spark.early import spark_for


def checkpoints(
    paths: o.Paths,
    tz: o.Tz = None,
    strict_inputs: o.StrictInputs = None,
    since: o.Since = None,
    until: o.Until = None,
    job: o.Job = None,
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
    """Why do Flink's checkpoints fail, and who is it?

    \b
    Examples:
      flowdiag checkpoints logs/
      flowdiag checkpoints jobmanager.log taskmanager-*.log.gz --since 2h
      kubectl logs my-jobmanager | flowdiag checkpoints -
      flowdiag checkpoints logs/ --job 'orders-*' --format json | jq .summary

    Give it whatever there is: logs of the JobManager and of the TaskManagers, rolled and compressed,
    History Server archives, saved answers of /jobs/:id/checkpoints. Nothing is changed or sent.
    """
    settings = load_settings(o.flags(locals()), config=config)

    with spark_for(settings, paths) as spark:
        from flowdiag.cli.diagnosing import Diagnosis, asked_for, run_on_spark

        asked = asked_for(settings, since=since, until=until, job=job)

        def diagnosing() -> Diagnosis:
            from flowdiag.analyses.checkpoints.topic import diagnose
            from flowdiag.analyses.options import Wishes
            from flowdiag.analyses.report.wire import Data

            return Diagnosis(diagnose, Wishes(**asked), Data(jobs=[]))

        return run_on_spark("checkpoints", diagnosing, paths, settings, engine="flink", spark=spark)
