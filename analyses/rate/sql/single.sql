-- One row per record that is needed unchanged. Part of facts.sql.
-- {events}: see owned.sql.
SELECT 'single' AS what, to_json(struct(
  app, event, template, time_us, source, offset,
  epoch_ms, checkpoint, duration_ms, host, job_name, cause, fields)) AS row
FROM {events} WHERE event IN ({single})
