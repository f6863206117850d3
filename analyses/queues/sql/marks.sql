-- One row per subtask, operator and event-time gauge. `points` is an array of structs (time_us, until_us, n, low,
-- high, first, last, place) in time order, one per bucket. If n = 0, the gauge had no value yet.
-- {events}: see series.sql. {width_us}: the length of a bucket.
WITH rows AS (
  -- One row per series and report, so that a log that is passed twice counts once.
  SELECT subject, time_us, duration_ms, metric.operator AS operator, metric.name AS name,
    metric.count AS n, metric.min AS low, metric.max AS high, metric.first AS first,
    metric.last AS last, min({place}) AS place
  FROM {events}
  WHERE event = 'metric' AND time_us IS NOT NULL AND subject IS NOT NULL
    AND (metric.scope = 'task' AND metric.name = 'currentInputWatermark'
      OR metric.scope = 'operator' AND (metric.name IN ({mark_metrics})
        OR metric.name RLIKE '{of_split}'))
  GROUP BY ALL
), folded AS (
  SELECT subject, operator, name, time_us DIV {width_us} AS bucket,
    min(time_us) AS time_us, max(time_us + coalesce(duration_ms, 0) * 1000) AS until_us,
    sum(n) AS n, min(low) AS low, max(high) AS high, min_by(first, time_us) AS first,
    max_by(last, time_us) AS last, min(place) AS place
  FROM rows
  GROUP BY ALL
)
SELECT 'mark' AS what, subject, operator, name, min(time_us) AS first_us,
  max(until_us) AS last_us,
  array_sort(collect_list(struct(time_us, until_us, n, low, high, first, last, place))) AS points
FROM folded
GROUP BY ALL
