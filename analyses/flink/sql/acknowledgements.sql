-- One row per late acknowledgement (`late`) and per declined checkpoint (`decline`), unchanged.
-- {lives}: events with (job_cluster, run), see with_runs.sql.
SELECT IF(event = 'late_acknowledgement', 'late', 'decline') AS what,
  job_cluster, job_id, run, checkpoint, attempt_id, task, subtask_index, vertex_id, attempt,
  taskmanager, host, time_us, cause, source, offset
FROM {lives}
WHERE event IN ('late_acknowledgement', 'checkpoint_declined')
