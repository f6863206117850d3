-- One row per metric report of a TaskManager during which it spent much time in garbage collection.
-- {events}: resolved events, including metric rows.
WITH minutes AS (
  SELECT source, taskmanager, host, time_us, min(offset) AS offset,
    sum(metric.last - metric.first) AS gc_ms, max(duration_ms) AS span_ms
  FROM {events} LATERAL VIEW explode(metrics) AS name, metric
  WHERE event = 'metric' AND scope = 'tm' AND time_us IS NOT NULL
    AND name LIKE 'Status.JVM.GarbageCollector.%.Time'
    AND name NOT LIKE '%.All.Time' AND metric.last > metric.first
  GROUP BY source, taskmanager, host, time_us
)
SELECT 'collections' AS what, source, offset, taskmanager, host, time_us AS first_us,
  time_us + span_ms * 1000 AS last_us, CAST(gc_ms AS LONG) AS n, span_ms AS bytes
FROM minutes
WHERE span_ms > 0 AND gc_ms > {collecting} * span_ms
