-- One row per distinct record: the first by place of those that say the same at the same instant.
-- {events}: resolved events. {settled}: their columns but those that told time and owner.
SELECT row.* FROM (
  SELECT min_by(struct({settled}), struct(source, offset)) AS row
  FROM {events}
  WHERE event NOT IN ('metric', 'split', 'known')
  GROUP BY event, xxhash64(
    time_us, shown_us, job_id, checkpoint, attempt_id, task, vertex_id, subtask_index, epoch_ms,
    from_state, to_state, taskmanager, host, duration_ms, bytes, cause, map_entries(fields),
    IF(role = 'taskmanager', coalesce(writer_taskmanager, concat_ws(':', source, owner)), NULL))
)
