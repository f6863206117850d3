-- One row per series and minute: the table `metrics`.
-- {events}: settled events, including metrics. {inputs}: the names of the inputs.
-- {columns}: of the table.
SELECT /*+ BROADCAST(i) */ {columns}
FROM (SELECT *, explode(metrics) AS (metric_name, metric) FROM {events} WHERE event = 'metric') AS e
  JOIN {inputs} AS i ON e.source = i.source
