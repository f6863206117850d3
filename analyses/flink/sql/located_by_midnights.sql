-- One row per event, with its owner and the wall clock that it shows: a time of day gets the number of
-- midnights passed since the start of its source.
-- {events}: EVENTS. {hint}: into how many partitions they go. {owner}: who wrote a record.
SELECT * EXCEPT (midnight), {owner} AS owner,
  IF(clock <=> '{time_of_day}',
    local_us + {day_us} * count_if(midnight) OVER (
      PARTITION BY source ORDER BY offset ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW),
    local_us) AS shown_us
FROM (
  SELECT *, clock <=> '{time_of_day}'
      AND local_us < last(IF(clock <=> '{time_of_day}', local_us, NULL), true) OVER (
        PARTITION BY source ORDER BY offset ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
      - {half_day_us} AS midnight
  FROM (SELECT {hint} * FROM {events} WHERE event <> 'marks')
)
