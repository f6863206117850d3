-- One row per subtask and window: the values of its metrics within the given spans.
-- {events}: resolved events, including metric rows. {inside}: whether a row is within the spans.
-- {window}: the number of its window. {job_id}: the column, or NULL.
WITH rows AS (
  SELECT cluster, {job_id} AS job_id, job_name, task, subtask_index, taskmanager, host, time_us,
    time_us + coalesce(duration_ms, 0) * 1000 AS until_us, {window} AS window, {place} AS place, metric.name AS name, CASE metric.name {load_keys} END AS key,
    metric.count AS n, metric.first AS first, metric.last AS last,
    -- Multiples of 1/1024 have an exact sum, which does not depend on the order of addition.
    rint(metric.sum * 1024) / 1024 AS total
  FROM {events}
  WHERE event = 'metric' AND subtask_index IS NOT NULL AND metric.scope = 'task'
    AND metric.count > 0 AND metric.name IN ({load_names}) AND ({inside})
), steps AS (
  -- Partition by a single number: comparing seven texts took longer than reading the logs.
  SELECT *, lag(last) OVER (
    PARTITION BY xxhash64(
      cluster, job_id, job_name, task, subtask_index, taskmanager, host, name)
    ORDER BY time_us, place) AS before
  FROM rows WHERE key IN ({counters})
), series AS (
  SELECT cluster, job_id, job_name, task, subtask_index, taskmanager, host, window, key, name,
    min(time_us) AS first_us, max(until_us) AS last_us,
    sum(greatest(last - first, 0) + CASE
      WHEN before IS NULL THEN 0 WHEN first >= before THEN first - before ELSE first
    END) AS increase,
    sum(total) AS total, sum(n) AS n, min(place) AS place
  FROM steps
  GROUP BY ALL
  UNION ALL
  SELECT cluster, job_id, job_name, task, subtask_index, taskmanager, host, window, key, name,
    min(time_us), max(until_us), NULL, sum(total), sum(n), min(place)
  FROM rows WHERE key NOT IN ({counters})
  GROUP BY ALL
)
SELECT 'load' AS what, cluster, job_id, job_name, task, subtask_index, taskmanager, host, window,
  max(n) AS samples, {load_means}, {load_increases}, min(first_us) AS first_us,
  max(last_us) AS last_us, {first_place} AS ref
FROM series
GROUP BY ALL
