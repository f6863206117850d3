-- One row per metric of a report: what all other queries read.
-- {metrics}: resolved rows of metrics, among others or not.
SELECT {subtask}, time_us, duration_ms, source, offset, event,
  fields['origin'] AS origin, metric
FROM {metrics} WHERE event = 'metric'
