-- One row per topic partition that was read. Part of facts.sql.
-- {events}: see owned.sql. {spark_range}: whether an event is of this kind; `false` if there are no such events.
SELECT 'range' AS what, to_json(struct(*)) AS row
FROM (
  SELECT app, partition, count(*) AS tasks, sum(high - low) AS records,
    min(high - low) AS fewest, max(high - low) AS most, min(ref) AS ref
  FROM (
    SELECT app, concat(fields['topic'], '-', fields['number']) AS partition,
      CAST(fields['low'] AS BIGINT) AS low, CAST(fields['high'] AS BIGINT) AS high,
      min(struct(source, offset)) AS ref
    FROM {events} WHERE {spark_range} GROUP BY ALL)
  WHERE high >= low GROUP BY app, partition)
