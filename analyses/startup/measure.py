"""Measures with Spark how a job reached RUNNING, from resolved events to one frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from flowdiag.analyses.engine.sql import Part, Queries, sql_literals
from flowdiag.parsers.rows import Event

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_EVENTS: Final = (
    Event.PROCESS_STARTED,
    Event.LEADERSHIP,
    Event.JOB_SUBMITTED,
    Event.JOB_STARTED,
    Event.JOB_FINISHED,
    Event.SLOTS,
    Event.WORKER,
    Event.TASKMANAGER_REGISTERED,
    Event.RESOURCE_FAILURE,
    Event.TASKMANAGER_LOST,
)
METRICS: Final = frozenset({"Status.JVM.GarbageCollector.*.Time", "Status.JVM.CPU.Load"})
"""Metrics to keep: the metrics that `collections` reads, and a metric that shows the names of TaskManagers."""

# Milestones that no other command needs.
_KNOWN: Final = (
    "actor-system",
    "blob-server",
    "rest-endpoint",
    "web-frontend",
    "connecting-to-resourcemanager",
    "jobmaster-registered",
    "resourcemanager-registered",
    "jobmaster-registered-at",
    "job-initializing",
    "initialization-span",
    "master-initialized",
    "scheduling-started",
    "restart-strategy",
    "restart-strategy-legacy",
    "failover-strategy",
    "client-cluster-specification",
    "client-application-submitted",
    "client-waiting",
    "client-deploying",
    "client-deployment-slow",
    "client-deployed",
    "client-deployment-failed",
    "client-kubernetes-deployed",
    "client-job-submitted",
    "client-command",
    "client-program-started",
    "client-job-sent",
    "client-job-accepted",
    "adaptive-transition",
    "rest-rescale",
    "rest-resource-requirements",
)
# Troubles around a start. There may be many, so they are counted by place.
_TROUBLES: Final = (
    "client-failed",
    "client-deployment-slow",
    "client-deployed",  # ends the trouble above
    "job-submission-failed",
    "rest-handler-failed",
    "rest-request-failed",
    "application-failed",
    "application-not-executed",
    "entrypoint-failed",
    "yarn-request-too-large",
    "yarn-largest-container",
    "yarn-too-little-free",
    "yarn-queue-missing",
    "worker-failure-rate",
    "rpc-oversized",
    "rpc-frame-exceeded",
    "rpc-result-too-large",
    "rpc-ask-timed-out",
    "rpc-invocation-timed-out",
    "rpc-quarantined-by-peer",
    "rpc-unreachable",
    "remote-gated",
    "remote-quarantined",
    "master-heartbeat-lost",
    "operator-event",
    "operator-event-warning",
    "operator-status",
    "operator-status-error",
    "autoscaler-event",
    "autoscaler-no-metric",
    "autoscaler-no-rate",
    "autoscaler-not-adaptive",
)
_COLLECTING: Final = 0.2  # share of the time; less garbage collection does not cost a heartbeat

SQL: Final = Queries(
    "flowdiag.analyses.startup",
    {
        "milestones": sql_literals(*_EVENTS),
        "known": sql_literals(*_KNOWN),
        "troubles": sql_literals(*_TROUBLES),
        "collecting": str(_COLLECTING),
    },
)


def milestones(events: DataFrame) -> Part:
    """Return the records that mark steps. A record that a process logs twice counts once."""
    return SQL.part("milestones", events=events)


def task_times(events: DataFrame) -> Part:
    """Return when each execution attempt reached each state, preferably from the JobManager's log."""
    return SQL.part("task_times", events=events)


def troubles(events: DataFrame) -> Part:
    """Return troubles around starts, one row per message, writer and peer, with the first record of each.

    Messages of the Kubernetes Operator have a row per reason and text, because they are few.
    """
    return SQL.part("troubles", events=events)


def restores(events: DataFrame) -> Part:
    """Return when each TaskManager read state: the first and the last record within each second."""
    return SQL.part("restores", events=events)


def collections(events: DataFrame) -> Part:
    """Return the minutes of heavy garbage collection per TaskManager, based on its metric reports."""
    return SQL.part("collections", events=events)


def queries(events: DataFrame, unique: DataFrame, metrics: DataFrame) -> tuple[Part, ...]:
    """Return the queries for the input of `assemble_startup` in addition to the shared facts.

    Args:
        events: resolved events.
        unique: the events without duplicates.
        metrics: resolved metric rows, including those of `METRICS`.
    """
    return (
        milestones(events),
        task_times(unique),
        troubles(events),
        restores(events),
        collections(metrics),
    )
