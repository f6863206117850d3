"""`flowdiag rate`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flowdiag.cli.diagnosing import diagnosing, parse_configuration, parse_interval_ms
from flowdiag.cli.options import shared as o


@diagnosing(
    inputs={
        "trigger_interval": (o.TriggerInterval, None),
        "real_time": (o.RealTime, None),
        "conf": (o.Conf, None),
        "retention": (o.Retention, None),
    },
    job=("application", o.Application),
)
def rate(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Find out why a Spark streaming application cannot keep up, or what limits its rate.

    \b
    Examples:
      flowdiag rate listener/ eventlog/
      flowdiag rate eventlog_v2_app-20260131184301-0007/ driver.log
      flowdiag rate logs/ --trigger-interval 10s --since 2h

    Pass whatever you have: event logs, lines of `flowdiag listener`, saved REST responses (/streaming/batches,
    /environment, …), and logs of the driver and the executors.
    """
    from flowdiag.analyses.selection.options import RateOptions

    return {
        "rate": RateOptions(
            trigger_interval_ms=parse_interval_ms(arguments["trigger_interval"]),
            real_time=arguments["real_time"],
            configuration=parse_configuration(arguments["conf"] or ()),
            retention_ms=parse_interval_ms(arguments["retention"], "--retention"),
        )
    }
