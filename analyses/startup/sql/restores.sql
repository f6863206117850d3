-- One row per TaskManager, kind of record and second: the first and last record about reading state.
-- {events}: resolved events.
SELECT 'restore' AS what, source, owner, writer_taskmanager, writer_host,
  template LIKE '%finished' AS done, template LIKE 'download%' AS download,
  min(time_us) AS first_us, max(time_us) AS last_us, count(*) AS n, min(offset) AS offset
FROM {events}
WHERE event = 'known'
  AND template IN ('restore-started', 'restore-finished', 'download-started', 'download-finished')
  AND time_us IS NOT NULL
GROUP BY source, owner, writer_taskmanager, writer_host, template, time_us DIV 1000000
