-- One row per source (`stream`) with the ids of applications and runs, its first batch times and its clock readings,
-- and one per record that starts an application or describes a split (`rare`).
-- {events}: EVENTS.
SELECT 'stream' AS what, source, CAST(NULL AS LONG) AS offset, NULL AS event,
  NULL AS job_name, NULL AS application, CAST(NULL AS MAP<STRING, STRING>) AS fields,
  sort_array(collect_set(application)) AS applications,
  slice(sort_array(collect_set(fields['run_id'])), 1, {most}) AS runs,
  slice(sort_array(collect_set(epoch_ms)), 1, {most}) AS batches,
  min(local_us DIV 1000 - coalesce(epoch_ms, utc_us DIV 1000)) AS shift_ms,
  min(coalesce(utc_us, local_us)) AS first_us,
  max(coalesce(utc_us, local_us)) AS last_us,
  count(local_us) > 0 AS printed,
  count(*) AS rows
FROM {events} WHERE event <> 'split'
GROUP BY source
UNION ALL
SELECT 'rare', source, offset, event, job_name, application, fields,
  NULL, NULL, NULL, NULL, coalesce(utc_us, local_us), NULL, NULL, NULL
FROM {events}
WHERE event IN ('split', 'spark_log_started')
  OR event = 'spark_application' AND fields['what'] = 'started'
  OR event = 'section' AND application IS NOT NULL
