-- One row per execution attempt: its name, number, place and lifetime.
-- {events}: resolved events without duplicates.
WITH named AS (
  SELECT * EXCEPT (attempt_id),
    event = 'deployed' AS deploys,
    event = 'task_state' AS moves,
    role = 'taskmanager' AND event IN ('task_state', 'task_received') AS own,
    coalesce(attempt_id, IF(event = 'deployed',
      last(IF(to_state = 'DEPLOYING', attempt_id, NULL), true) OVER (
        PARTITION BY source, owner, task, subtask_index, parallelism ORDER BY offset
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW), NULL)) AS attempt_id
  FROM {events}
  WHERE event IN ({of_attempt})
), gathered AS (
  SELECT attempt_id,
    min(struct(source, offset, task, subtask_index, parallelism))
      FILTER (WHERE task IS NOT NULL) AS name,
    min(CASE
      WHEN deploys THEN struct(0 AS rank, taskmanager, host, source, offset)
      WHEN own AND coalesce(writer_taskmanager, writer_host) IS NOT NULL
        THEN struct(
          1 AS rank, writer_taskmanager AS taskmanager, writer_host AS host, source, offset)
      WHEN NOT own AND coalesce(taskmanager, host) IS NOT NULL
        THEN struct(2 AS rank, taskmanager, host, source, offset)
    END) AS place,
    min(vertex_id) AS vertex_id,
    min(subtask_index) FILTER (WHERE task IS NULL) AS id_subtask_index,
    max(attempt) AS attempt,
    min(job_id) FILTER (WHERE NOT moves OR role <> 'taskmanager') AS job_id,
    min(time_us) FILTER (WHERE deploys OR to_state = 'DEPLOYING') AS deployed_us,
    min(time_us) AS first_us,
    max(time_us) FILTER (WHERE to_state IN ('FINISHED', 'CANCELED', 'FAILED')) AS ended_us,
    max_by(to_state, struct(time_us, offset)) FILTER (WHERE moves) AS to_state,
    min(struct(source, owner)) FILTER (WHERE role = 'jobmanager') AS jobmanager,
    min(struct(time_us, source, owner))
      FILTER (WHERE role = 'jobmanager' AND time_us IS NOT NULL) AS scheduled,
    min(cluster) AS cluster
  FROM named
  WHERE attempt_id IS NOT NULL
  GROUP BY attempt_id
)
SELECT 'attempt' AS what, attempt_id, name.task, name.parallelism,
  coalesce(name.subtask_index, id_subtask_index) AS subtask_index,
  vertex_id, attempt, place.taskmanager, place.host,
  coalesce(place.source, name.source) AS source,
  coalesce(place.offset, name.offset) AS offset,
  job_id, deployed_us, first_us, ended_us, to_state,
  jobmanager.source AS jobmanager_source, jobmanager.owner AS jobmanager_owner,
  scheduled.time_us AS scheduled_us, scheduled.source AS scheduled_source,
  scheduled.owner AS scheduled_owner, cluster
FROM gathered
