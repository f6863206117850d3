-- One row per TaskManager and window: what its garbage collectors took of the time, in some spans of it.
-- {events}: resolved events, rows of metrics among them. {inside}: whether a row lies in the spans.
-- {window}: the number of its window.
WITH rows AS (
  -- One row per series and report: the same log given twice counts once.
  SELECT cluster, taskmanager, host, time_us,
    time_us + coalesce(duration_ms, 0) * 1000 AS until_us, {window} AS window, metric.name AS name,
    metric.count AS n, metric.first AS first, metric.last AS last, min({place}) AS place
  FROM {events}
  WHERE event = 'metric' AND metric.scope = 'tm' AND taskmanager IS NOT NULL AND metric.count > 0
    AND metric.name RLIKE '^Status[.]JVM[.]GarbageCollector[.].*[.]Time$' AND ({inside})
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
-- A sum over all collectors stands beside them from 1.16 on.
SELECT 'garbage' AS what, cluster, taskmanager, host, window,
  coalesce(max(increase) FILTER (WHERE name = 'Status.JVM.GarbageCollector.All.Time'),
           sum(increase)) AS gc_ms,
  (max(last_us) - min(since_us)) / 1000 AS span_ms, max(n) AS samples,
  min(first_us) AS first_us, max(last_us) AS last_us, {first_place} AS ref
FROM folded
GROUP BY ALL
