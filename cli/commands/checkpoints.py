"""`flowdiag checkpoints`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flowdiag.cli.diagnosing import diagnosing


@diagnosing()
def checkpoints(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Why do Flink's checkpoints fail, and who is it?

    \b
    Examples:
      flowdiag checkpoints logs/
      flowdiag checkpoints jobmanager.log taskmanager-*.log.gz --since 2h
      kubectl logs my-jobmanager | flowdiag checkpoints -
      flowdiag checkpoints logs/ --job 'orders-*' --format json | jq .summary

    Give it whatever there is: logs of the JobManager and of the TaskManagers, rolled and compressed, logs
    of their garbage collectors, History Server archives, saved answers of /jobs/:id/checkpoints. Nothing is
    changed or sent.
    """
    return {}
