"""`flowdiag startup`."""

from __future__ import annotations

from flowdiag.cli import options as o
from flowdiag.cli.settings import load_settings
from flowdiag.cli.spark.early import spark_for


def startup(
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
    """How did the Flink job get to RUNNING, and what holds it if it did not?

    \b
    Examples:
      flowdiag startup logs/
      flowdiag startup jobmanager.log taskmanager-*.log.gz
      flowdiag startup logs/ --since 1h
      yarn logs -applicationId application_1651814400000_0042 | flowdiag startup -
      flowdiag startup logs/ --format json | jq '.data.attempts[] | {kind, cause, slowest}'

    Give it the JobManager's log; logs of TaskManagers, of the client and of the Kubernetes Operator add to
    it. Every start is split into its steps: submission, slots, deployment, initialisation; cold starts are
    told from restarts.
    """
    settings = load_settings(o.flags(locals()), config=config)

    with spark_for(settings, paths) as spark:
        from flowdiag.cli.diagnosing import Diagnosis, asked_for, run_on_spark

        asked = asked_for(settings, since=since, until=until, job=job)

        def diagnosing() -> Diagnosis:
            from flowdiag.analyses.options import Wishes
            from flowdiag.analyses.report.wire import Data
            from flowdiag.analyses.startup.topic import diagnose

            return Diagnosis(diagnose, Wishes(**asked), Data(attempts=[]))

        return run_on_spark("startup", diagnosing, paths, settings, engine="flink", spark=spark)
