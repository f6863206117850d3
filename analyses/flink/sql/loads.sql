-- One row per subtask and window: the values of its metrics within the given spans.
-- {events}: resolved events, including metric rows. {inside}: whether a row is within the spans.
-- {window}: the number of its window. {job_id}: the column, or NULL.
WITH rows AS (
  SELECT cluster, {job_id} AS job_id, job_name, task, subtask_index, taskmanager, host, time_us,
    time_us + coalesce(duration_ms, 0) * 1000 AS until_us, {window} AS window, {place} AS place,
    {load_values}
  FROM {events}
  WHERE event = 'metric' AND subtask_index IS NOT NULL AND scope = 'task' AND ({inside})
), steps AS (
  SELECT *, {lags}
  FROM rows
  WHERE greatest({load_counts}) > 0
  -- Partition by a single number: comparing seven texts took longer than reading the logs.
  WINDOW in_order AS (
    PARTITION BY xxhash64(cluster, job_id, job_name, task, subtask_index, taskmanager, host)
    ORDER BY time_us, place)
)
SELECT 'load' AS what, cluster, job_id, job_name, task, subtask_index, taskmanager, host, window,
  greatest({samples}) AS samples, {load_means}, {load_increases}, min(time_us) AS first_us,
  max(until_us) AS last_us, {first_place} AS ref
FROM steps
GROUP BY cluster, job_id, job_name, task, subtask_index, taskmanager, host, window
