"""`flowdiag diagnose`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flowdiag.cli.diagnosing import diagnosing


@diagnosing()
def diagnose(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is wrong here, and who is it? All questions at once, Flink and Spark.

    \b
    Examples:
      flowdiag diagnose logs/
      flowdiag diagnose logs/ metrics/ flink-conf.yaml --since 2h
      kubectl logs my-jobmanager | flowdiag diagnose -
      flowdiag diagnose incident.tar.zst --format json | jq '.summary.stories[0]'

    Give it whatever there is. It reads everything once, lets every rule judge it, and tells what belongs together as
    one story: the culprit first, and what followed from it. The other commands ask one question each, and show the
    tables behind it.
    """
    return {}
