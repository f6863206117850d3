-- One row per record that rules need individually.
-- {events}: resolved events without duplicates.
SELECT 'incident' AS what, event, template, source, offset, owner, time_us, role, level, logger,
  thread, cluster, job_id, job_name, vertex_id, task, subtask_index, parallelism, attempt_id,
  attempt, coalesce(taskmanager, writer_taskmanager) AS taskmanager,
  coalesce(host, writer_host) AS host, checkpoint, epoch_ms, duration_ms, bytes, from_state,
  to_state, cause, fields
FROM {events}
WHERE event IN ({incidents})
  OR event = 'task_state' AND to_state = 'FAILED'
  OR event = 'asynchronous_part' AND duration_ms IS NULL AND (level <> 'DEBUG' OR cause IS NOT NULL)
