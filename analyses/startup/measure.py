"""What logs say about how a job got to RUNNING, measured with Spark: resolved events in, one frame out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from flowdiag.analyses.engine.frames import kept
from flowdiag.analyses.flink import lifecycle
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
"""What to keep of metric reports: what `collections` reads, and one that tells a TaskManager's name."""

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
)
# What goes wrong around a start; there may be many of them, so that they are counted by place.
_TROUBLES: Final = (
    "client-failed",
    "job-submission-failed",
    "rest-handler-failed",
    "rest-request-failed",
    "application-failed",
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
)
_RESTORES: Final = ("restore-started", "restore-finished", "download-started", "download-finished")
_COLLECTING: Final = 0.2  # of the time; below it nobody misses a heartbeat for it
_STATES: Final = ("SCHEDULED", "DEPLOYING", "INITIALIZING", "RUNNING")


def _words(words: Any) -> str:
    return "(" + ", ".join(f"'{word}'" for word in words) + ")"


def _query(text: str, **frames: DataFrame) -> DataFrame:
    spark = next(iter(frames.values())).sparkSession
    named: dict[str, Any] = dict(frames)
    return spark.sql(text, **named)


def milestones(events: DataFrame) -> DataFrame:
    """The records that mark steps, one by one; the same one told twice by one process counts once."""
    return _query(
        f"""
        SELECT 'milestone' AS what, event, template, min(struct(source, offset)).source AS source,
          min(struct(source, offset)).offset AS offset, owner, time_us, role, cluster, job_id,
          first(job_name, true) AS job_name, taskmanager, first(host, true) AS host,
          first(writer_taskmanager, true) AS writer_taskmanager,
          first(writer_host, true) AS writer_host,
          max(duration_ms) AS duration_ms, first(to_state, true) AS to_state,
          first(cause, true) AS cause,
          max_by(fields, struct(source, offset)) AS fields
        FROM {{events}}
        WHERE time_us IS NOT NULL AND fields['origin'] IS NULL AND (
          event IN {_words(event.value for event in _EVENTS)}
          OR event = '{Event.KNOWN}' AND template IN {_words(_KNOWN)})
        GROUP BY event, template, owner, time_us, role, cluster, job_id, taskmanager,
          to_json(fields), source
        """,
        events=events,
    )


def task_times(events: DataFrame) -> DataFrame:
    """When each execution attempt reached each state: the JobManager's word before the TaskManager's."""
    columns = ", ".join(
        f"coalesce(min(time_us) FILTER (WHERE to_state = '{state}' AND role <> 'taskmanager'), "
        f"min(time_us) FILTER (WHERE to_state = '{state}')) AS {state.lower()}_us"
        for state in _STATES
    )
    return _query(
        f"""
        SELECT 'times' AS what, attempt_id, {columns},
          min(time_us) FILTER (WHERE to_state IN ('FAILED', 'CANCELED', 'FINISHED')) AS ended_us,
          min_by(to_state, time_us)
            FILTER (WHERE to_state IN ('FAILED', 'CANCELED', 'FINISHED')) AS end_state,
          min(time_us) FILTER (WHERE role = 'taskmanager'
            AND to_state IN ('FAILED', 'CANCELED', 'CANCELING')) AS own_ended_us,
          min(struct(source, offset)).source AS source,
          min(struct(source, offset)).offset AS offset
        FROM {{events}}
        WHERE event = '{Event.TASK_STATE}' AND attempt_id IS NOT NULL AND fields['origin'] IS NULL
        GROUP BY attempt_id
        """,
        events=events,
    )


def troubles(events: DataFrame) -> DataFrame:
    """What went wrong around starts: one row per wording, writer and peer, the first record of each.

    The Kubernetes Operator's words are kept one by one for each reason and text; they are few.
    """
    return _query(
        f"""
        WITH named AS (
          SELECT *, coalesce(
            nullif(regexp_extract(coalesce(fields['address'], fields['target']), '@([^:/#\\\\]]+)', 1), ''),
            fields['master'], concat_ws('|', thread, fields['reason'], fields['state'], fields['said'])
          ) AS peer
          FROM {{events}}
          WHERE event = '{Event.KNOWN}' AND template IN {_words(_TROUBLES)}
        )
        SELECT 'trouble' AS what, template, source, owner, role, cluster, job_id,
          writer_taskmanager, writer_host, peer, count(*) AS n,
          min(time_us) AS first_us, max(time_us) AS last_us, max(bytes) AS bytes,
          min_by(thread, offset) AS thread, min_by(cause, offset) AS cause,
          min_by(fields, offset) AS fields, min(offset) AS offset,
          slice(array_sort(collect_set(time_us)), 1, 50) AS times
        FROM named
        GROUP BY template, source, owner, role, cluster, job_id, writer_taskmanager, writer_host, peer
        """,
        events=events,
    )


def restores(events: DataFrame) -> DataFrame:
    """When each TaskManager read state back: its first and last record of it in every second."""
    return _query(
        f"""
        SELECT 'restore' AS what, source, owner, writer_taskmanager, writer_host,
          template LIKE '%finished' AS done, template LIKE 'download%' AS download,
          min(time_us) AS first_us, max(time_us) AS last_us, count(*) AS n, min(offset) AS offset
        FROM {{events}}
        WHERE event = '{Event.KNOWN}' AND template IN {_words(_RESTORES)} AND time_us IS NOT NULL
        GROUP BY source, owner, writer_taskmanager, writer_host, template, time_us DIV 1000000
        """,
        events=events,
    )


def collections(events: DataFrame) -> DataFrame:
    """Minutes in which a TaskManager spent much of its time collecting garbage, by its metric reports."""
    return _query(
        f"""
        WITH minutes AS (
          SELECT source, taskmanager, host, time_us, min(offset) AS offset,
            sum(metric.last - metric.first) AS gc_ms, max(duration_ms) AS span_ms
          FROM {{events}}
          WHERE event = '{Event.METRIC}' AND metric.scope = 'tm' AND time_us IS NOT NULL
            AND metric.name LIKE 'Status.JVM.GarbageCollector.%.Time'
            AND metric.name NOT LIKE '%.All.Time' AND metric.last > metric.first
          GROUP BY source, taskmanager, host, time_us
        )
        SELECT 'collections' AS what, source, offset, taskmanager, host, time_us AS first_us,
          time_us + span_ms * 1000 AS last_us, CAST(gc_ms AS LONG) AS n, span_ms AS bytes
        FROM minutes
        WHERE span_ms > 0 AND gc_ms > {_COLLECTING} * span_ms
        """,
        events=events,
    )


def facts_frame(events: DataFrame, metrics: DataFrame) -> DataFrame:
    """Everything that `startup_assemble` needs, in one frame told apart by `what`.

    Args:
        events: resolved events.
        metrics: resolved rows of `METRICS`, among others or not.
    """
    unique = kept(lifecycle.once(events))
    return (
        lifecycle.facts_frame(unique)
        .unionByName(milestones(events), allowMissingColumns=True)
        .unionByName(task_times(unique), allowMissingColumns=True)
        .unionByName(troubles(events), allowMissingColumns=True)
        .unionByName(restores(events), allowMissingColumns=True)
        .unionByName(collections(metrics), allowMissingColumns=True)
    )
