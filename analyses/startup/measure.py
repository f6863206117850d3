"""What logs say about how a job got to RUNNING, measured with Spark: resolved events in, one frame out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from flowdiag.analyses import lifecycle
from flowdiag.analyses.frames import kept
from flowdiag.parsers.schema import Event

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_EVENTS: Final = (
    Event.PROCESS_STARTED,
    Event.LEADERSHIP,
    Event.JOB_SUBMITTED,
    Event.JOB_STARTED,
    Event.SLOTS,
    Event.WORKER,
    Event.TASKMANAGER_REGISTERED,
    Event.RESOURCE_FAILURE,
    Event.TASKMANAGER_LOST,
)
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
)
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
          max(duration_ms) AS duration_ms, first(cause, true) AS cause,
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
          min(struct(source, offset)).source AS source,
          min(struct(source, offset)).offset AS offset
        FROM {{events}}
        WHERE event = '{Event.TASK_STATE}' AND attempt_id IS NOT NULL AND fields['origin'] IS NULL
        GROUP BY attempt_id
        """,
        events=events,
    )


def facts_frame(events: DataFrame) -> DataFrame:
    """Everything that `startup_assemble` needs, in one frame told apart by `what`."""
    unique = kept(lifecycle.once(events))
    return (
        lifecycle.facts_frame(unique)
        .unionByName(milestones(events), allowMissingColumns=True)
        .unionByName(task_times(unique), allowMissingColumns=True)
    )
