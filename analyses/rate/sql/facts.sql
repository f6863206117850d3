-- One row per batch, output operation, stage, … as JSON, distinguished by `what`; see the parts.
-- {events}: see owned.sql. {jobs}: see jobs.sql. {tasks}: see tasks.sql. {parts}: the requested parts.
-- {spark_batch}, {spark_block}, {spark_output}, {spark_stage}: whether an event is of this kind; `false` if
-- there are no such events.
WITH selected AS (
  SELECT app, epoch_ms, time_us, source, offset, duration_ms, cause, fields,
    fields['origin'] AS origin, fields['state'] AS state
  FROM {events} WHERE {spark_batch} AND epoch_ms IS NOT NULL
), batches AS (
  SELECT app, epoch_ms AS batch,
    max(CAST(fields['submission'] AS BIGINT)) AS submission,
    max(CAST(fields['start'] AS BIGINT)) AS start,
    max(CAST(fields['end'] AS BIGINT)) AS end,
    coalesce(max(duration_ms) FILTER (WHERE origin = 'listener'),
             max(duration_ms) FILTER (WHERE origin = 'rest'), max(duration_ms)) AS processing,
    coalesce(max(CAST(fields['scheduling'] AS BIGINT)) FILTER (WHERE origin = 'listener'),
             max(CAST(fields['scheduling'] AS BIGINT))) AS scheduling,
    max(CAST(fields['records'] AS BIGINT)) AS records,
    max(CAST(fields['failed'] AS BIGINT)) AS failed,
    max(CAST(fields['log_total'] AS BIGINT)) AS log_total,
    max(cause) AS reason,
    count_if(state = 'completed') > 0 AS completed,
    count_if(state = 'started') > 0 AS begun,
    min(time_us) FILTER (WHERE state = 'started') DIV 1000 AS begun_ms,
    max_by(fields['streams'], state = 'completed')
      FILTER (WHERE fields['streams'] IS NOT NULL) AS streams,
    sort_array(collect_set(origin)) AS origins,
    max(CAST(fields['interval_ms'] AS BIGINT)) AS interval_ms,
    min_by(struct(source, offset),
           struct(state <> 'completed', origin <> 'listener', source, offset)) AS ref
  FROM selected GROUP BY app, epoch_ms
), work AS (
  SELECT app, batch, run_id, batch_id, count(*) AS jobs,
    IF(count(end) = count(*), sum(end - start), NULL) AS busy, min(start) AS start,
    count_if(failed) AS failed, max_by(cause, job) FILTER (WHERE failed) AS cause
  FROM {jobs} WHERE batch IS NOT NULL OR run_id IS NOT NULL
  GROUP BY app, batch, run_id, batch_id
), blocks AS (
  SELECT DISTINCT app, fields['stream'] AS stream, fields['block'] AS block,
    bytes, CAST(fields['time'] AS BIGINT) AS time
  FROM {events} WHERE {spark_block}
), jobs_of_batches AS (
  SELECT app, batch, min(start) AS start, IF(count(end) = count(*), max(end), NULL) AS end,
    count(*) AS jobs, count_if(failed) AS failed, max(cause) AS cause,
    count(DISTINCT output) AS outputs, min(ref) AS ref,
    concat_ws(' ', array_sort(collect_set(lineage))) AS lineage
  FROM {jobs} WHERE batch IS NOT NULL GROUP BY app, batch
), outputs AS (
  SELECT app, epoch_ms AS batch, fields['output'] AS output,
    max(fields['name']) AS name,
    coalesce(max(duration_ms),
             (max(time_us) FILTER (WHERE fields['state'] = 'finished')
              - min(time_us) FILTER (WHERE fields['state'] = 'started')) DIV 1000) AS duration,
    max(cause) AS cause,
    max(time_us) FILTER (WHERE cause IS NOT NULL) AS failed_us,
    min_by(struct(source, offset), cause IS NULL) AS ref
  FROM {events} WHERE {spark_output} OR ({spark_batch} AND fields['output'] IS NOT NULL)
  GROUP BY app, epoch_ms, fields['output']
), stage_of_job AS (
  SELECT app, CAST(stage AS BIGINT) AS stage,
    min_by(struct(batch, run_id, batch_id, name), job) AS of
  FROM (SELECT *, explode(from_json(stages, 'array<bigint>')) AS stage FROM {jobs}
        WHERE batch IS NOT NULL OR run_id IS NOT NULL)
  GROUP BY app, stage
), names AS (
  SELECT app, checkpoint AS stage, max(task) AS name,
    max(CAST(fields['run_ms'] AS BIGINT)) AS run, max(CAST(fields['cpu_ms'] AS BIGINT)) AS cpu,
    max(CAST(fields['python_ms'] AS BIGINT)) AS python_ms,
    max(fields['python']) = 'true' AS python
  FROM {events} WHERE {spark_stage} GROUP BY app, checkpoint
), stage_tasks AS (
  SELECT app, stage, sum(tasks) AS tasks, sum(total) AS total, max(longest) AS longest,
    max_by(struct(task, executor, host, slowest_records), struct(longest, task)) AS slowest,
    sum(state_rows) AS state_rows, max_by(struct(largest_state AS rows, state_index AS task),
      struct(largest_state, state_index)) AS state,
    sum(records) AS records, sum(gc) AS gc, sum(spilled) AS spilled, sum(fetch) AS fetch,
    sum(written) AS written,
    count(DISTINCT executor) AS executors
  FROM {tasks} WHERE tasks > 0 GROUP BY app, stage
), worst AS (
  SELECT s.app, j.of.batch AS batch, j.of.run_id AS run_id, j.of.batch_id AS batch_id,
    max_by(struct(s.*, n.name, n.run, n.cpu, n.python_ms, n.python), struct(s.longest, s.stage)) AS worst,
    max_by(struct(s.*, n.name), struct(s.total, s.stage)) AS largest, sum(s.written) AS written
  FROM stage_tasks AS s JOIN stage_of_job AS j ON s.app = j.app AND s.stage = j.stage
  LEFT JOIN names AS n ON n.app = s.app AND n.stage = s.stage
  GROUP BY ALL
), per_executor AS (
  SELECT r.app, r.executor, r.stage, max(r.host) AS host, sum(r.tasks) AS tasks,
    sum(r.total) AS total, max(s.tasks) AS all_tasks, max(s.total) AS all_total
  FROM {tasks} AS r JOIN stage_tasks AS s ON s.app = r.app AND s.stage = r.stage
  JOIN stage_of_job AS j ON j.app = s.app AND j.stage = s.stage
  WHERE r.tasks > 0 GROUP BY r.app, r.executor, r.stage
), looks AS (
  SELECT app, max(CAST(fields['seen'] AS BIGINT)) AS look FROM {events}
  WHERE {spark_job} AND fields['what'] = 'look' GROUP BY app
), open_tasks AS (
  SELECT app, max(checkpoint) AS stage, max(subtask_index) AS index,
    max(host) AS host, max(fields['executor']) AS executor, max(time_us) AS since,
    min(struct(source, offset)) AS ref
  FROM {events} LEFT JOIN looks USING (app) WHERE {spark_task} GROUP BY app, fields['task_id']
  HAVING count_if(fields['what'] = 'ended') = 0
    AND (count_if(fields['seen'] IS NULL) > 0 OR max(CAST(fields['seen'] AS BIGINT)) >= max(look))
), loads AS (
  SELECT app, executor, max(host) AS host, sum(tasks) AS tasks, sum(total) AS total,
    count_if(all_tasks > tasks) AS stages,
    percentile(IF(all_tasks > tasks AND all_total > total,
      (total / tasks) * (all_tasks - tasks) / (all_total - total), NULL), 0.5) AS ratio
  FROM per_executor GROUP BY app, executor
)
{parts}
