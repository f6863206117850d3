-- One row per (job, checkpoint, subtask, origin): the subtask's report on a checkpoint.
-- {events}: resolved events without duplicates.
WITH selected AS (
  SELECT *, event NOT IN ('checkpoint_subtask', 'checkpoint_vertex') AS debug
  FROM {events}
  WHERE event IN ({parts}) AND checkpoint IS NOT NULL
    AND fields['outcome'] IS NULL -- a part that "could not be completed" is not a report
)
SELECT 'part' AS what, job_id, checkpoint, vertex_id, task, subtask_index,
  IF(debug, attempt_id, NULL) AS attempt_id,
  IF(debug, 'debug', coalesce(fields['origin'], 'rest')) AS origin,
  max(parallelism) AS parallelism,
  max(duration_ms) AS duration_ms,
  max(bytes) AS bytes,
  max(taskmanager) AS taskmanager,
  max(host) AS host,
  max(writer_taskmanager) AS writer_taskmanager,
  min(time_us) AS time_us,
  sort_array(collect_set(event)) AS events,
  max_by(fields, struct(time_us, source, offset)) AS fields,
  max(duration_ms) FILTER (WHERE event = 'synchronous_part') AS sync_ms,
  max(CAST(fields['alignment_ms'] AS LONG))
    FILTER (WHERE event = 'synchronous_part') AS alignment_ms,
  max(duration_ms) FILTER (WHERE event = 'asynchronous_part') AS async_ms,
  min(struct(source, offset)).source AS source,
  min(struct(source, offset)).offset AS offset
FROM selected
GROUP BY ALL
