-- One row per process, server or error, and ten seconds, because clients repeat such records every second.
-- {events}: resolved events without duplicates.
SELECT 'incident' AS what, event, template,
  {first_place}.source AS source, {first_place}.offset AS offset, min(owner) AS owner,
  min(time_us) AS time_us, role, cluster, job_id,
  writer_taskmanager AS taskmanager, writer_host AS host,
  map_filter(map('address', address, 'error', error, 'partition', min(partition), 'node', max(node), 'client', array_join(sort_array(collect_set(client)), ' '), 'records', CAST(count(*) AS STRING)),
    (name, value) -> value IS NOT NULL) AS fields
FROM (
  SELECT event, template, source, owner, time_us, role, cluster, job_id, writer_taskmanager, writer_host,
    fields['address'] AS address, fields['client'] AS client, fields['node'] AS node,
    fields['error'] AS error, fields['partition'] AS partition, {place} AS place
  FROM {events}
  WHERE event IN ('unreachable', 'produce_refused')
)
GROUP BY event, template, role, cluster, job_id, writer_taskmanager, writer_host, address, error,
  source, time_us DIV 10000000
