-- One row per event, with the application it belongs to and its instant.
-- {events}: EVENTS. {owners}: the parts of sources, and the application and the clock of each.
SELECT /*+ BROADCAST(o) */ e.* EXCEPT (application),
  coalesce(e.application, o.app) AS app,
  coalesce(e.utc_us, e.local_us - o.shift_ms * 1000) AS time_us
FROM {events} AS e JOIN {owners} AS o
  ON e.source = o.source AND e.offset >= o.low AND e.offset < o.high
WHERE e.event <> 'split'
