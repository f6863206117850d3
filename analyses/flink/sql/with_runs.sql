-- One row per record about a checkpoint: the same + (job_cluster, run).
-- {events}: resolved events.
WITH keyed AS (
  SELECT *,
    IF(coalesce(job_id, '') IN ('', '{zero_job}'), cluster, '') AS job_cluster,
    coalesce(epoch_ms * 1000, time_us, shown_us) AS at_us
  FROM {events}
  WHERE event IN ({of_checkpoint}, 'late_acknowledgement') AND checkpoint IS NOT NULL
), begun AS (
  SELECT *,
    coalesce(event IN ('checkpoint_triggered', 'checkpoint_status')
      AND (event = 'checkpoint_triggered' OR epoch_ms IS NOT NULL)
      AND checkpoint <= lag(checkpoint) OVER in_order
      AND NOT epoch_ms <=> lag(epoch_ms) OVER in_order, false) AS again
  FROM keyed
  WINDOW in_order AS (
    PARTITION BY job_cluster, job_id ORDER BY at_us ASC NULLS FIRST, source, offset)
)
SELECT * EXCEPT (again, at_us),
  1 + count_if(again) OVER (
    PARTITION BY job_cluster, job_id ORDER BY at_us ASC NULLS FIRST, source, offset
    ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS run
FROM begun
