-- One row per distinct record, the first by position among records with the same text at the same instant. For
-- options, the instant does not matter, because a process prints them again at each start.
-- {events}: resolved events. {settled}: their columns, without those used only to resolve time and owner.
SELECT row.* FROM (
  SELECT min_by(struct({settled}), struct(source, offset)) AS row
  FROM {events}
  WHERE event NOT IN ('metric', 'split', 'known')
  GROUP BY xxhash64(
    event,
    IF(event = 'configuration', NULL, time_us), IF(event = 'configuration', NULL, shown_us),
    job_id, checkpoint, attempt_id, task, vertex_id, subtask_index, epoch_ms,
    from_state, to_state, taskmanager, host, duration_ms, bytes, cause, map_entries(fields),
    CASE WHEN event = 'configuration' THEN concat_ws(':', source, owner)
      WHEN role = 'taskmanager' THEN coalesce(writer_taskmanager, concat_ws(':', source, owner)) END)
)
