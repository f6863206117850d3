-- One row per Spark job: the batch or trigger it worked for, when it ran, how it ended.
-- A job that only answers of the REST API contain counts while the last answer lists it as running.
-- {events}: see owned.sql. {spark_job}: whether an event is of the kind, `false` where none is.
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
  min(struct(source, offset)) AS ref
FROM {events} LEFT JOIN (
  SELECT app, max(CAST(fields['seen'] AS BIGINT)) AS look FROM {events}
  WHERE {spark_job} AND fields['what'] = 'look' GROUP BY app) USING (app)
WHERE {spark_job} AND checkpoint IS NOT NULL
GROUP BY app, checkpoint
HAVING count_if(fields['seen'] IS NULL) > 0 OR max(CAST(fields['seen'] AS BIGINT)) >= max(look)
