-- One row per operator (or per task if it names none) and record counter. `increases` is an array of structs (time_us,
-- until_us, increase, place) in time order, one per bucket, summed over the subtasks.
-- {events}: see series.sql. {width_us}: the length of a bucket.
WITH rows AS (
  -- One row per series and report, so that a log that is passed twice counts once.
  SELECT subject, vertex, time_us, duration_ms, IF(metric.scope = 'operator', metric.operator, NULL) AS operator,
    metric.name AS name, metric.first AS first, metric.last AS last, min({place}) AS place
  FROM {events}
  WHERE event = 'metric' AND time_us IS NOT NULL AND subject IS NOT NULL
    AND metric.count > 0 AND metric.scope IN ('task', 'operator') AND metric.name IN ({flow_metrics})
  GROUP BY ALL
), steps AS (
  SELECT *, lag(last) OVER (
    PARTITION BY subject, vertex, operator, name ORDER BY time_us, place) AS before
  FROM rows
), folded AS (
  SELECT vertex, operator, name,
    time_us DIV {width_us} AS bucket, min(time_us) AS time_us,
    max(time_us + coalesce(duration_ms, 0) * 1000) AS until_us,
    sum(greatest(last - first, 0) + CASE
      WHEN before IS NULL THEN 0 WHEN first >= before THEN first - before ELSE first END) AS increase,
    min(place) AS place
  FROM steps
  GROUP BY ALL
)
SELECT 'flow' AS what, vertex, operator, name,
  min(time_us) AS first_us, max(until_us) AS last_us,
  array_sort(collect_list(struct(time_us, until_us, increase, place))) AS increases
FROM folded
GROUP BY ALL
