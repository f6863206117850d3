-- One row per TaskManager and window: the time spent in garbage collection, within the given spans.
-- {events}: resolved events, including metric rows. {inside}: whether a row is within the spans.
-- {window}: the number of its window.
WITH rows AS (
  -- One row per series and report, so that a log that is passed twice counts once.
  SELECT cluster, taskmanager, host, time_us,
    time_us + coalesce(duration_ms, 0) * 1000 AS until_us, {window} AS window, name,
    metric.count AS n, metric.first AS first, metric.last AS last, min({place}) AS place
  FROM (SELECT *, explode(metrics) AS (name, metric) FROM {events} WHERE event = 'metric' AND scope = 'tm')
  WHERE taskmanager IS NOT NULL AND metric.count > 0
    AND name RLIKE '^Status[.]JVM[.]GarbageCollector[.].*[.]Time$' AND ({inside})
  GROUP BY ALL
), steps AS (
  SELECT *, lag(last) OVER in_order AS before, lag(until_us) OVER in_order AS before_us
  FROM rows
  WINDOW in_order AS (PARTITION BY cluster, taskmanager, host, name ORDER BY time_us, place)
), folded AS (
  SELECT cluster, taskmanager, host, window, name, sum(n) AS n,
    sum(greatest(last - first, 0) + CASE
      WHEN before IS NULL THEN 0 WHEN first >= before THEN first - before ELSE first END) AS increase,
    min(coalesce(before_us, time_us)) AS since_us, min(time_us) AS first_us,
    max(until_us) AS last_us, min(place) AS place
  FROM steps
  GROUP BY ALL
)
-- From Flink 1.16 on, a total over all collectors is reported as well.
SELECT 'garbage' AS what, cluster, taskmanager, host, window,
  coalesce(max(increase) FILTER (WHERE name = 'Status.JVM.GarbageCollector.All.Time'),
           sum(increase)) AS gc_ms,
  (max(last_us) - min(since_us)) / 1000 AS span_ms, max(n) AS samples,
  min(first_us) AS first_us, max(last_us) AS last_us, {first_place} AS ref
FROM folded
GROUP BY ALL
