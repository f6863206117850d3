-- One row per receiver: the blocks it stored. Part of facts.sql.
SELECT 'blocks' AS what, to_json(struct(*)) AS row
FROM (
  SELECT app, stream, count(*) AS blocks, sum(bytes) AS bytes, min(time) AS first,
    max(time) AS last
  FROM blocks GROUP BY app, stream)
