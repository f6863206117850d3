-- One row per input gate with detailed metrics, over the whole input.
-- {events}: see series.sql.
SELECT 'gate' AS what, subject,
  CAST(regexp_extract(metric.name, '{gate}', 2) AS INT) AS gate,
  max(metric.count) AS samples,
  sum(metric.sum) FILTER (WHERE endswith(metric.name, '.totalQueueLen'))
    / sum(metric.count) FILTER (WHERE endswith(metric.name, '.totalQueueLen')) AS total_length,
  sum(metric.sum) FILTER (WHERE endswith(metric.name, '.minQueueLen'))
    / sum(metric.count) FILTER (WHERE endswith(metric.name, '.minQueueLen')) AS min_length,
  sum(metric.sum) FILTER (WHERE endswith(metric.name, '.maxQueueLen'))
    / sum(metric.count) FILTER (WHERE endswith(metric.name, '.maxQueueLen')) AS max_length,
  sum(metric.sum) FILTER (WHERE endswith(metric.name, '.avgQueueLen'))
    / sum(metric.count) FILTER (WHERE endswith(metric.name, '.avgQueueLen')) AS avg_length,
  min(struct(source, offset)).source AS source, min(struct(source, offset)).offset AS offset
FROM {events}
WHERE event = 'metric' AND subject IS NOT NULL
  AND metric.scope = 'task' AND metric.count > 0 AND metric.name RLIKE '{gate}'
GROUP BY ALL
