-- One row per output operation, over all batches. If there is only an event log, only its jobs are known.
-- Part of facts.sql.
SELECT 'operation' AS what, to_json(struct(*)) AS row
FROM (
  SELECT app, output, max(name) AS name, count(duration) AS batches, sum(duration) AS total
  FROM (
    SELECT app, batch, output, coalesce(max(name), max(of_jobs.name)) AS name,
      coalesce(max(duration), max(of_jobs.duration)) AS duration
    FROM (
      SELECT app, batch, output, name, duration, NULL AS of_jobs FROM outputs
      UNION ALL
      SELECT app, batch, output, NULL, NULL, struct(
        max_by(name, end - start) AS name,
        IF(count(end) = count(*), max(end) - min(start), NULL) AS duration)
      FROM {jobs} WHERE batch IS NOT NULL AND output IS NOT NULL GROUP BY app, batch, output)
    GROUP BY app, batch, output)
  GROUP BY app, output)
