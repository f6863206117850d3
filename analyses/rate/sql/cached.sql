-- One row per cached RDD: its size, and when its first block was stored. A part of facts.sql.
-- {events}: see owned.sql. {spark_cached}: whether an event is of the kind, `false` where none is.
SELECT 'cached' AS what, to_json(struct(*)) AS row
FROM (
  SELECT app, rdd, sum(bytes) AS bytes, min(first) AS first
  FROM (
    SELECT app, CAST(fields['rdd'] AS BIGINT) AS rdd, max(bytes) AS bytes,
      min(time_us) DIV 1000 AS first
    FROM {events} WHERE {spark_cached} AND time_us IS NOT NULL
    GROUP BY app, fields['rdd'], fields['partition'])
  GROUP BY app, rdd)
