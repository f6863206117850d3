-- One row for the whole input, which reveals the version: `names` of metrics that were added in some version,
-- `reported` (those of them from reporters, because collectors request only the newer of two names), and the
-- version according to REST.
-- {events}: resolved events. {series}: see series.sql.
SELECT 'names' AS what,
  collect_set(name) AS names,
  collect_set(name) FILTER (WHERE origin IS NULL) AS reported,
  max(version) AS version
FROM (
  SELECT metric.name AS name, origin, NULL AS version FROM {series}
  WHERE event = 'metric' AND metric.name IN (
    'busyTimeMsPerSecond', 'isBackPressured', 'idleTimeMsPerSecond',
    'Shuffle.Netty.Input.Buffers.inPoolUsage', 'buffers.inPoolUsage')
  UNION ALL
  SELECT NULL, NULL, fields['version'] FROM {events}
  WHERE event = 'process_identity'
)
