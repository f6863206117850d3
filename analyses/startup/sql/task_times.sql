-- One row per execution attempt: when it reached each state. The JobManager's log takes precedence.
-- {events}: resolved events without duplicates.
SELECT 'times' AS what, attempt_id,
  coalesce(min(time_us) FILTER (WHERE to_state = 'SCHEDULED' AND role <> 'taskmanager'),
           min(time_us) FILTER (WHERE to_state = 'SCHEDULED')) AS scheduled_us,
  coalesce(min(time_us) FILTER (WHERE to_state = 'DEPLOYING' AND role <> 'taskmanager'),
           min(time_us) FILTER (WHERE to_state = 'DEPLOYING')) AS deploying_us,
  coalesce(min(time_us) FILTER (WHERE to_state = 'INITIALIZING' AND role <> 'taskmanager'),
           min(time_us) FILTER (WHERE to_state = 'INITIALIZING')) AS initializing_us,
  coalesce(min(time_us) FILTER (WHERE to_state = 'RUNNING' AND role <> 'taskmanager'),
           min(time_us) FILTER (WHERE to_state = 'RUNNING')) AS running_us,
  min(time_us) FILTER (WHERE to_state IN ('FAILED', 'CANCELED', 'FINISHED')) AS ended_us,
  min_by(to_state, time_us)
    FILTER (WHERE to_state IN ('FAILED', 'CANCELED', 'FINISHED')) AS end_state,
  min(time_us) FILTER (WHERE role = 'taskmanager'
    AND to_state IN ('FAILED', 'CANCELED', 'CANCELING')) AS own_ended_us,
  min(struct(source, offset)).source AS source,
  min(struct(source, offset)).offset AS offset
FROM {events}
WHERE event = 'task_state' AND attempt_id IS NOT NULL AND fields['origin'] IS NULL
GROUP BY attempt_id
