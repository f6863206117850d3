-- One row per event, with its instant and its writer.
-- {events}: EVENTS. {segments}: the parts of streams, as their clocks were settled.
-- {located}: a query that gives events an owner and a complete clock. {instant}: of that clock.
-- {columns}: of the answer. {join}, {hint}: how rows are joined, and into how many partitions they go.
WITH located AS ({located}), settled AS (
  SELECT {join} e.*,
    coalesce(e.utc_us, {instant}) AS time_us,
    coalesce(w.writer_role,
      -- JobManager or TaskManager, by the class that logs; without one, by the `#n` of TaskManagers'
      -- names. Rows with an origin (REST, archive, dump) were logged by nobody.
      CASE WHEN fields['origin'] IS NOT NULL THEN NULL
           WHEN logger IN ({jobmanager_loggers}) THEN 'jobmanager'
           WHEN logger IN ({taskmanager_loggers}) THEN 'taskmanager'
           WHEN logger IS NULL AND attempt IS NOT NULL THEN 'taskmanager' END) AS role,
    coalesce(w.cluster, '') AS cluster,
    w.writer_taskmanager, w.writer_host
  FROM located AS e LEFT JOIN (SELECT {hint} * FROM {segments}) AS w
    ON e.source = w.source AND e.owner <=> w.owner
    AND e.offset BETWEEN w.low_offset AND w.high_offset
    AND (e.shown_us IS NULL OR e.shown_us BETWEEN w.low_us AND w.high_us)
)
SELECT {columns} FROM settled
