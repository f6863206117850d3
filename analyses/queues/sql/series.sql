-- One row per metric of a report, the input of all other queries.
-- {metrics}: resolved rows, including metrics.
SELECT {hashes}, time_us, duration_ms, source, offset, event, origin,
  named_struct('name', name, 'scope', scope, 'operator', operator, 'count', each.count, 'first', each.first,
    'last', each.last, 'min', each.min, 'max', each.max, 'sum', each.sum) AS metric
FROM (SELECT *, fields['origin'] AS origin, explode(metrics) AS (name, each) FROM {metrics} WHERE event = 'metric')
