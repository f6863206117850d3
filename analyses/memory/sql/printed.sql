-- One row per record in which a process prints its memory configuration. There are few of them. Duplicates are
-- kept, because two processes may print the same sizes.
-- {events}: resolved events.
SELECT 'memory' AS what, event, template, source, offset, owner, time_us, role, cluster,
  coalesce(taskmanager, writer_taskmanager) AS taskmanager,
  coalesce(host, writer_host) AS host, bytes, thread, fields
FROM {events}
WHERE event = 'memory' AND template NOT IN ('memory-usage', 'direct-usage')
  OR event = 'process_started'
  OR event = 'configuration' AND (
    contains(fields['key'], 'memory') OR contains(fields['key'], 'heap')
    OR contains(fields['key'], 'network') OR contains(fields['key'], 'backend')
    OR contains(fields['key'], 'rocksdb') OR contains(fields['key'], 'numberOf')
    OR template IN ('state-backend'))
  OR template IN ('yarn-taskmanager-starting', 'pod-creating')
  OR template IN ('operator-event-warning', 'operator-status-error')
    AND (contains(fields['said'], 'OOMKilled') OR contains(fields['said'], 'Evicted')
      OR fields['reason'] IN ('OOMKILLED', 'EVICTED'))
