-- One row for all of the input, which tells the version: `names` of metrics that came with some version,
-- `reported` (of those, what reporters told: who collects asks for the newer of two names only), and the
-- version as REST says it.
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
