-- One row per output operation, over all batches. A part of facts.sql.
SELECT 'operation' AS what, to_json(struct(*)) AS row
FROM (
  SELECT app, output, max(name) AS name, count(duration) AS batches, sum(duration) AS total
  FROM outputs GROUP BY app, output)
