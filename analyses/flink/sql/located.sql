-- One row per event, with its owner and the wall clock that it shows.
-- {events}: EVENTS. {hint}: into how many partitions they go. {owner}: who wrote a record.
SELECT *, {owner} AS owner, local_us AS shown_us
FROM (SELECT {hint} * FROM {events} WHERE event <> 'marks')
