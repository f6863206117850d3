-- One row per TaskManager and window: a struct (n, total, low, high) per gauge, and gc_ms for all collectors.
-- {events}: see series.sql. {width_us}: length of the windows.
WITH rows AS (
  -- One row per series and report, so that a log that is passed twice counts once.
  SELECT machine, time_us, duration_ms, metric.name AS name, metric.count AS n,
    metric.sum AS total, metric.min AS low, metric.max AS high, metric.first AS first,
    metric.last AS last, min({place}) AS place
  FROM {events}
  WHERE event = 'metric' AND time_us IS NOT NULL AND metric.count > 0
    AND metric.scope = 'tm' AND machine IS NOT NULL
    AND (metric.name IN ({machine_metrics})
      OR metric.name RLIKE '^Status[.]JVM[.]GarbageCollector[.].*[.]Time$')
  GROUP BY ALL
), steps AS (
  SELECT *, lag(last) OVER in_order AS before, lag(time_us) OVER in_order AS before_us
  FROM rows
  WINDOW in_order AS (
    PARTITION BY machine, name ORDER BY time_us, place)
), folded AS (
  SELECT machine, time_us DIV {width_us} AS window, name,
    CASE name {machine_keys} ELSE 'gc' END AS key,
    sum(n) AS n, sum(total) AS total, min(low) AS low, max(high) AS high, max_by(last, time_us) AS latest,
    sum(greatest(last - first, 0) + CASE
      WHEN before IS NULL THEN 0 WHEN first >= before THEN first - before ELSE first END) AS increase,
    min(coalesce(before_us, time_us)) AS since_us,
    min(time_us) AS first_us,
    max(time_us + coalesce(duration_ms, 0) * 1000) AS last_us, min(place) AS place
  FROM steps
  GROUP BY ALL
)
SELECT 'machine' AS what, machine, window,
  {machine_gauges},
  coalesce(max(increase) FILTER (WHERE name = 'Status.JVM.GarbageCollector.All.Time'),
           sum(increase) FILTER (WHERE key = 'gc')) AS gc_ms,
  (max(last_us) - min(since_us)) / 1000 AS span_ms, max(n) AS samples,
  min(first_us) AS first_us, max(last_us) AS last_us,
  {first_place}.source AS source, {first_place}.offset AS offset
FROM folded
GROUP BY ALL
