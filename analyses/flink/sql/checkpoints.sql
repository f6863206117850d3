-- One row per checkpoint of a run: its trigger, its ends, and the details of each.
-- {lives}: events with (job_cluster, run), see with_runs.sql.
SELECT 'checkpoint' AS what, job_cluster, job_id, run, checkpoint,
  min(cluster) AS cluster,
  coalesce(
    max(epoch_ms) FILTER (WHERE event IN ('checkpoint_triggered', 'checkpoint_status')) * 1000,
    min(time_us) FILTER (WHERE event = 'checkpoint_triggered'),
    -- pasted Web UI pages show no instant
    min(time_us) FILTER (WHERE event = 'checkpoint_status')) AS triggered_us,
  -- from the log
  min(fields['type']) FILTER (WHERE event = 'checkpoint_triggered') AS type,
  min(duration_ms) FILTER (WHERE event = 'checkpoint_completed') AS duration_ms,
  min(CAST(fields['finalization_ms'] AS LONG))
    FILTER (WHERE event = 'checkpoint_completed') AS finalization_ms,
  min(bytes) FILTER (WHERE event = 'checkpoint_completed') AS bytes,
  -- from REST
  min(fields['type']) FILTER (WHERE event = 'checkpoint_status') AS rest_type,
  min(fields['is_savepoint']) FILTER (WHERE event = 'checkpoint_status') AS rest_savepoint,
  max_by(fields['status'], fields['status'] <> 'IN_PROGRESS')
    FILTER (WHERE event = 'checkpoint_status') AS rest_status,
  max(cause) FILTER (WHERE event = 'checkpoint_status') AS rest_reason,
  max(duration_ms) FILTER (WHERE event = 'checkpoint_status') AS rest_duration_ms,
  max(bytes) FILTER (WHERE event = 'checkpoint_status') AS rest_bytes,
  max(CAST(fields['failure_ms'] AS LONG))
    FILTER (WHERE event = 'checkpoint_status') AS rest_failure_ms,
  max(CAST(fields['num_acknowledged_subtasks'] AS INT))
    FILTER (WHERE event = 'checkpoint_status') AS acknowledged,
  max(CAST(fields['num_subtasks'] AS INT)) FILTER (WHERE event = 'checkpoint_status') AS subtasks,
  -- the cause for each kind of end
  max(cause) FILTER (WHERE event = 'checkpoint_failed') AS failed_cause,
  max(fields['exception']) FILTER (WHERE event = 'checkpoint_failed') AS failed_exception,
  max(fields['named_task']) FILTER (WHERE event = 'checkpoint_failed') AS failed_task,
  max(fields['named_subtask']) FILTER (WHERE event = 'checkpoint_failed') AS failed_subtask,
  min(CAST(fields['consecutive'] AS INT)) FILTER (WHERE event = 'checkpoint_failed') AS failed_before,
  max(cause) FILTER (WHERE event = 'checkpoint_discarded') AS discarded_cause,
  min_by(cause, struct(time_us, source, offset))
    FILTER (WHERE event = 'checkpoint_declined') AS declined_cause,
  -- the first record of each kind
  min(struct(time_us, source, offset)) FILTER (WHERE event = 'checkpoint_triggered') AS trigger,
  min(struct(time_us, source, offset)) FILTER (WHERE event = 'checkpoint_status') AS status_record,
  min(struct(time_us, source, offset)) FILTER (WHERE event = 'checkpoint_completed') AS completed,
  min(struct(time_us, source, offset)) FILTER (WHERE event = 'checkpoint_expired') AS expired,
  min(struct(time_us, source, offset)) FILTER (WHERE event = 'checkpoint_declined') AS declined,
  min(struct(time_us, source, offset)) FILTER (WHERE event = 'checkpoint_failed') AS failed,
  min(struct(time_us, source, offset)) FILTER (WHERE event = 'checkpoint_discarded') AS discarded
FROM {lives}
WHERE event IN ({of_checkpoint})
GROUP BY job_cluster, job_id, run, checkpoint
