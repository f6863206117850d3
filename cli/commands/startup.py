"""`flowdiag startup`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flowdiag.cli.diagnosing import diagnosing


@diagnosing()
def startup(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Show how a Flink job got to RUNNING, and what delays, prevents or restarts it.

    \b
    Examples:
      flowdiag startup logs/
      flowdiag startup jobmanager.log taskmanager-*.log.gz --since 1h
      yarn logs -applicationId application_1651814400000_0042 | flowdiag startup -
      flowdiag startup logs/ --format json | jq '.data.attempts[] | {kind, cause, slowest}'

    Pass at least the JobManager's log. Logs of TaskManagers, the client and the Kubernetes operator add details.
    The report divides every start into steps: submission, slots, deployment, initialization.
    """
    return {}
