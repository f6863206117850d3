-- One row per Spark job: its batch or trigger, when it ran, and how it ended.
-- A job known only from REST responses counts only if the last response lists it.
-- {events}: see owned.sql. {spark_job}: whether an event is of this kind; `false` if there are no such events.
SELECT app, checkpoint AS job,
  max(epoch_ms) AS batch,
  max(fields['output']) AS output,
  max(fields['run_id']) AS run_id,
  max(fields['batch_id']) AS batch_id,
  min(time_us) FILTER (WHERE fields['what'] = 'started') DIV 1000 AS start,
  max(time_us) FILTER (WHERE fields['what'] = 'ended') DIV 1000 AS end,
  max(fields['failed']) = 'true' AS failed,
  max(cause) AS cause,
  max(fields['stages']) AS stages,
  max(fields['stage_name']) AS name,
  max(fields['lineage']) AS lineage,
  min(struct(source, offset)) AS ref
FROM {events} LEFT JOIN (
  SELECT app, max(CAST(fields['seen'] AS BIGINT)) AS look FROM {events}
  WHERE {spark_job} AND fields['what'] = 'look' GROUP BY app) USING (app)
WHERE {spark_job} AND checkpoint IS NOT NULL
GROUP BY app, checkpoint
HAVING count_if(fields['seen'] IS NULL) > 0 OR max(CAST(fields['seen'] AS BIGINT)) >= max(look)
