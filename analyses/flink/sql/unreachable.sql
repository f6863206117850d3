-- One row per TaskManager or JobManager, server and ten seconds: clients repeat such records every second.
-- {events}: resolved events, each once.
SELECT 'incident' AS what, 'unreachable' AS event, template,
  {first_place}.source AS source, {first_place}.offset AS offset, min(owner) AS owner,
  min(time_us) AS time_us, role, cluster, job_id,
  writer_taskmanager AS taskmanager, writer_host AS host,
  map('address', address, 'node', max(node), 'client', array_join(sort_array(collect_set(client)), ' '), 'records', CAST(count(*) AS STRING)) AS fields
FROM (
  SELECT template, source, owner, time_us, role, cluster, job_id, writer_taskmanager, writer_host,
    fields['address'] AS address, fields['client'] AS client, fields['node'] AS node, {place} AS place
  FROM {events}
  WHERE event = 'unreachable'
)
GROUP BY template, role, cluster, job_id, writer_taskmanager, writer_host, address,
  source, time_us DIV 10000000
