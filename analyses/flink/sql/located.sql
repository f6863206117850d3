-- One row per event, with its owner and its wall-clock time.
-- {events}: EVENTS. {hint}: the number of partitions. {owner}: the writer of a record.
SELECT *, {owner} AS owner, local_us AS shown_us
FROM (SELECT {hint} * FROM {events} WHERE event <> 'marks')
