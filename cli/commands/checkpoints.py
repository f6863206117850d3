"""`flowdiag checkpoints`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flowdiag.cli.diagnosing import diagnosing


@diagnosing()
def checkpoints(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Find out why Flink's checkpoints fail or are slow, and which subtask causes it.

    \b
    Examples:
      flowdiag checkpoints logs/
      flowdiag checkpoints jobmanager.log taskmanager-*.log.gz --since 2h
      kubectl logs my-jobmanager | flowdiag checkpoints -
      flowdiag checkpoints logs/ --job 'orders-*' --format json | jq .summary

    Pass whatever you have: logs of the JobManager and the TaskManagers, garbage collection logs, History Server
    archives, and saved responses of /jobs/:id/checkpoints.
    """
    return {}
