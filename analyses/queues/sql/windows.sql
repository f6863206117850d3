-- One row per subtask and window: a struct (n, total, low, high) per gauge, the increase of each counter (from
-- zero after a decrease), samples and resets.
-- {events}: see series.sql. {width_us}: the length of the windows.
WITH rows AS (
  -- One row per series and report, so that a log that is passed twice counts once.
  SELECT subject, time_us, duration_ms, metric.name AS name, metric.count AS n,
    metric.sum AS total, metric.min AS low, metric.max AS high, metric.first AS first,
    metric.last AS last, min({place}) AS place
  FROM {events}
  -- Text copied from a Web UI page has no time and is a single sample.
  WHERE event = 'metric' AND (time_us IS NOT NULL OR origin = 'page') AND metric.count > 0 AND subject IS NOT NULL AND (
    metric.scope = 'task' AND metric.name IN ({task_metrics})
    OR metric.scope IN ('task', 'operator') AND metric.name IN ({operator_metrics}))
  GROUP BY ALL
), steps AS (
  SELECT *, lag(last) OVER (
    PARTITION BY subject, name ORDER BY time_us, place) AS before
  FROM rows
), folded AS (
  SELECT subject, coalesce(time_us DIV {width_us}, 0) AS window, name,
    CASE name {task_keys} END AS key,
    sum(n) AS n, sum(total) AS total, min(low) AS low, max(high) AS high, max_by(last, time_us) AS latest,
    -- A single sample shows no increase.
    sum(IF(before IS NULL AND n = 1, NULL, greatest(last - first, 0) + CASE
      WHEN before IS NULL THEN 0 WHEN first >= before THEN first - before ELSE first END)) AS increase,
    count_if(first < before OR last < first) AS resets,
    min(time_us) AS first_us,
    max(time_us + coalesce(duration_ms, 0) * 1000) AS last_us, min(place) AS place
  FROM steps
  GROUP BY ALL
)
SELECT 'window' AS what, subject, window,
  {task_gauges},
  {increases},
  max(n) AS samples,
  max(resets) FILTER (WHERE key IN ('records_in', 'records_out', 'bytes_in')) AS resets,
  min(first_us) AS first_us, max(last_us) AS last_us,
  {first_place}.source AS source, {first_place}.offset AS offset
FROM folded
GROUP BY ALL
