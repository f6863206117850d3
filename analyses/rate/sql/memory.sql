-- One row per host that stores blocks. Part of facts.sql.
-- {events}: see owned.sql. {spark_block}: whether an event is of this kind; `false` if there are no such events.
SELECT 'memory' AS what, to_json(struct(*)) AS row
FROM (
  SELECT app, host, max_by(CAST(fields['free'] AS BIGINT), time_us) AS free, sum(bytes) AS bytes,
    min(time_us) DIV 1000 AS first, max(time_us) DIV 1000 AS last
  FROM {events} WHERE {spark_block} GROUP BY app, host)
