"""`flowdiag rate`."""

from __future__ import annotations

from typing import Any

from flowdiag.cli import options as o
from flowdiag.cli.settings import load_settings
from flowdiag.cli.spark.early import spark_for


def rate(
    paths: o.Paths,
    trigger_interval: o.TriggerInterval = None,
    real_time: o.RealTime = None,
    conf: o.Conf = None,
    retention: o.Retention = None,
    tz: o.Tz = None,
    strict_inputs: o.StrictInputs = None,
    since: o.Since = None,
    until: o.Until = None,
    application: o.Application = None,
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
    """Why can a Spark streaming application not keep up, or what holds it back?

    \b
    Examples:
      flowdiag rate listener/ eventlog/
      flowdiag rate eventlog_v2_app-20260131184301-0007/ driver.log
      flowdiag rate logs/ --trigger-interval 10s --since 2h
      flowdiag rate rest/ --conf spark.streaming.backpressure.enabled=true
      flowdiag rate logs/ --format json | jq '.data.applications[].pid[-1]'

    Give it whatever there is, of one application or of several: event logs in every codec, the lines of
    `flowdiag listener`, saved answers of /streaming/batches and its siblings and of /environment, logs
    of driver and executors. Nothing is changed or sent.
    """
    settings = load_settings(o.flags(locals()), config=config)

    with spark_for(settings, paths) as spark:
        from flowdiag.cli.diagnosing import (
            Diagnosis,
            asked_for,
            configuration,
            interval_ms,
            run_on_spark,
        )

        asked = asked_for(settings, since=since, until=until, job=application)
        own: dict[str, Any] = {
            "trigger_interval_ms": interval_ms(trigger_interval),
            "real_time": real_time,
            "configuration": configuration(conf or ()),
            "retention_ms": interval_ms(retention, "--retention"),
        }

        def diagnosing() -> Diagnosis:
            from flowdiag.analyses.rate.topic import Wishes, diagnose
            from flowdiag.analyses.report.wire import Data

            return Diagnosis(diagnose, Wishes(**asked, **own), Data(applications=[]))

        return run_on_spark("rate", diagnosing, paths, settings, engine="spark", spark=spark)
