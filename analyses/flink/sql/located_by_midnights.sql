-- One row per event, with its owner and its wall-clock time. For times of day, this includes the number of
-- midnights since the start of the source.
-- {events}: EVENTS. {hint}: the number of partitions. {owner}: the writer of a record.
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
