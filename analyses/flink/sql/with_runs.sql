-- One row per record about a checkpoint: the columns needed later, and (job_cluster, run).
-- {events}: resolved events.
-- Jobs are partitioned by a number instead of their texts, which are almost always the same. For 1.2 million rows,
-- this reduced the time of the whole query from 25 s to 22 s.
WITH selected AS (
  SELECT source, offset, event, job_id, checkpoint, epoch_ms, duration_ms, bytes, cause, fields, time_us,
    shown_us, cluster, attempt_id, task, subtask_index, vertex_id, attempt, taskmanager, host,
    IF(coalesce(job_id, '') IN ('', '{zero_job}'), cluster, '') AS job_cluster
  FROM {events}
  WHERE event IN ({of_checkpoint}, 'late_acknowledgement') AND checkpoint IS NOT NULL
), keyed AS (
  SELECT *, xxhash64(job_cluster, job_id) AS job_key,
    coalesce(epoch_ms * 1000, time_us, shown_us) AS at_us
  FROM selected
), begun AS (
  SELECT *,
    coalesce(event IN ('checkpoint_triggered', 'checkpoint_status')
      AND (event = 'checkpoint_triggered' OR epoch_ms IS NOT NULL)
      AND checkpoint <= lag(checkpoint) OVER in_order
      AND NOT epoch_ms <=> lag(epoch_ms) OVER in_order, false) AS again
  FROM keyed
  WINDOW in_order AS (
    PARTITION BY job_key ORDER BY at_us ASC NULLS FIRST, source, offset)
)
SELECT * EXCEPT (again, at_us, shown_us, job_key),
  1 + count_if(again) OVER (
    PARTITION BY job_key ORDER BY at_us ASC NULLS FIRST, source, offset
    ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS run
FROM begun
