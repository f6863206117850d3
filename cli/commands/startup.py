"""`flowdiag startup`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flowdiag.cli.diagnosing import diagnosing


@diagnosing()
def startup(given: Mapping[str, Any]) -> Mapping[str, Any]:
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
    return {}
