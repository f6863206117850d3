-- One row per subtask, operator and metric of its state store (RocksDB, ForSt). Sizes and counts are summed over the
-- column families, other values are the largest. `family`: the column family with most. `points`: as in marks.sql.
-- {events}: see series.sql. {width_us}: the length of a bucket.
WITH rows AS (
  SELECT subject, time_us, duration_ms, metric.operator AS operator,
    regexp_extract(metric.name, '([^.]*)[.]?rocksdb[.][^.]*$', 1) AS family,
    regexp_extract(metric.name, '[^.]*$', 0) AS name,
    metric.count AS n, metric.min AS low, metric.max AS high, metric.first AS first,
    metric.last AS last, min({place}) AS place
  FROM {events}
  WHERE event = 'metric' AND time_us IS NOT NULL AND subject IS NOT NULL
    AND metric.scope IN ('task', 'operator') AND metric.count > 0 AND metric.name RLIKE '{of_store}'
  GROUP BY ALL
), families AS (
  SELECT subject, operator, name, family, time_us DIV {width_us} AS bucket,
    min(time_us) AS time_us, max(time_us + coalesce(duration_ms, 0) * 1000) AS until_us,
    sum(n) AS n, min(low) AS low, max(high) AS high, min_by(first, time_us) AS first,
    max_by(last, time_us) AS last, min(place) AS place
  FROM rows
  GROUP BY ALL
), folded AS (
  SELECT subject, operator, name, bucket,
    min(time_us) AS time_us, max(until_us) AS until_us, max(n) AS n,
    if(name IN ({added_up}), sum(low), max(low)) AS low, if(name IN ({added_up}), sum(high), max(high)) AS high,
    if(name IN ({added_up}), sum(first), max(first)) AS first, if(name IN ({added_up}), sum(last), max(last)) AS last,
    max_by(family, struct(last, family)) AS family, min_by(place, struct(-last, place)) AS place
  FROM families
  GROUP BY ALL
)
SELECT 'store' AS what, subject, operator, name, max_by(family, struct(last, family)) AS family,
  min(time_us) AS first_us, max(until_us) AS last_us,
  array_sort(collect_list(struct(time_us, until_us, n, low, high, first, last, place))) AS points
FROM folded
GROUP BY ALL
