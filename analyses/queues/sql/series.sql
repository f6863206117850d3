-- One row per metric of a report, the input of all other queries.
-- {metrics}: resolved rows, including metrics.
SELECT {subtask}, time_us, duration_ms, source, offset, event,
  fields['origin'] AS origin, metric
FROM {metrics} WHERE event = 'metric'
