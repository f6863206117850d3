-- One row per stage attempt and executor, with task totals as summed by the source.
-- {events}: see owned.sql. {spark_tasks}: whether an event is of this kind; `false` if there are no such events.
SELECT DISTINCT app, checkpoint AS stage, attempt, host, bytes, fields['executor'] AS executor,
  CAST(fields['tasks'] AS BIGINT) AS tasks, CAST(fields['failed'] AS BIGINT) AS failed,
  CAST(fields['total_ms'] AS BIGINT) AS total,
  CAST(fields['longest_ms'] AS BIGINT) AS longest, CAST(fields['index'] AS BIGINT) AS task,
  CAST(fields['slowest_records'] AS BIGINT) AS slowest_records,
  CAST(fields['records'] AS BIGINT) AS records,
  CAST(fields['gc_ms'] AS BIGINT) AS gc, CAST(fields['spilled'] AS BIGINT) AS spilled,
  CAST(fields['fetch_ms'] AS BIGINT) AS fetch, CAST(fields['written'] AS BIGINT) AS written,
  CAST(fields['state_rows'] AS BIGINT) AS state_rows,
  CAST(fields['largest_state'] AS BIGINT) AS largest_state, CAST(fields['state_index'] AS BIGINT) AS state_index,
  time_us
FROM {events} WHERE {spark_tasks}
