-- One row per message template, writer and peer of troubles around starts, with the first record of each.
-- {events}: resolved events.
WITH named AS (
  SELECT *, coalesce(
    nullif(regexp_extract(coalesce(fields['address'], fields['target']), '@([^/#\\]]+)', 1), ''), ''
  ) AS address, coalesce(
    nullif(regexp_extract(coalesce(fields['address'], fields['target']), '@([^:/#\\]]+)', 1), ''),
    fields['master'], concat_ws('|', thread, fields['reason'], fields['state'], fields['said'])
  ) AS peer
  FROM {events}
  WHERE event = 'known' AND template IN ({troubles})
)
SELECT 'trouble' AS what, template, source, owner, role, cluster, job_id,
  writer_taskmanager, writer_host, peer, address, count(*) AS n,
  min(time_us) AS first_us, max(time_us) AS last_us, max(bytes) AS bytes,
  min_by(thread, offset) AS thread, min_by(cause, offset) AS cause,
  min_by(fields, offset) AS fields, min(offset) AS offset,
  slice(array_sort(collect_set(time_us)), 1, 50) AS times
FROM named
GROUP BY template, source, owner, role, cluster, job_id, writer_taskmanager, writer_host, peer, address
