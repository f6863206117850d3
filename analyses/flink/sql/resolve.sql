-- One row per event, with its instant and its writer.
-- {events}: EVENTS. {segments}: the segments of streams, with their settled clocks.
-- {located}: a query that adds the owner and a complete local time. {instant}: the instant of that time.
-- {columns}: the output columns. {join}, {hint}: the kind of join, and the number of partitions.
WITH located AS ({located}), settled AS (
  SELECT {join} e.*,
    coalesce(e.utc_us, {instant}) AS time_us,
    coalesce(w.writer_role,
      -- JobManager or TaskManager, by the class that logs, otherwise by the `#n` in names of
      -- TaskManagers. Rows with an origin (REST, archive, dump) do not come from a log.
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
