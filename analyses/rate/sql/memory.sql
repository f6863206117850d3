-- One row per host that keeps blocks. A part of facts.sql.
-- {events}: see owned.sql. {spark_block}: whether an event is of the kind, `false` where none is.
SELECT 'memory' AS what, to_json(struct(*)) AS row
FROM (
  SELECT app, host, max_by(CAST(fields['free'] AS BIGINT), time_us) AS free, sum(bytes) AS bytes,
    min(time_us) DIV 1000 AS first, max(time_us) DIV 1000 AS last
  FROM {events} WHERE {spark_block} GROUP BY app, host)
