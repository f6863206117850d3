-- One row per record that marks a step. A copy of the log, such as an aggregated one, adds none.
-- {events}: resolved events.
SELECT 'milestone' AS what, event, template, min(struct(source, offset)).source AS source,
  min(struct(source, offset)).offset AS offset,
  min_by(owner, struct(source, offset)) AS owner, time_us, role, cluster, job_id,
  first(job_name, true) AS job_name, taskmanager, first(host, true) AS host,
  first(writer_taskmanager, true) AS writer_taskmanager,
  first(writer_host, true) AS writer_host,
  max(duration_ms) AS duration_ms, first(to_state, true) AS to_state,
  first(cause, true) AS cause,
  max_by(fields, struct(source, offset)) AS fields
FROM {events}
WHERE time_us IS NOT NULL AND (fields['origin'] IS NULL
  OR template IN ('rest-rescale', 'rest-resource-requirements')) AND (
  event IN ({milestones})
  OR event = 'known' AND template IN ({known}))
GROUP BY event, template, time_us, role, cluster, job_id, taskmanager, to_json(fields),
  CASE WHEN role = 'taskmanager' THEN coalesce(writer_taskmanager, concat_ws(':', source, owner)) END
