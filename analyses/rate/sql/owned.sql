-- One row per event, with its application and its instant.
-- {events}: EVENTS. {owners}: the segments of sources, each with its application and clock.
SELECT /*+ BROADCAST(o) */ e.* EXCEPT (application),
  coalesce(e.application, o.app) AS app,
  coalesce(e.utc_us, e.local_us - o.shift_ms * 1000) AS time_us
FROM {events} AS e JOIN {owners} AS o
  ON e.source = o.source AND e.offset >= o.low AND e.offset < o.high
WHERE e.event <> 'split'
