-- One row per process that logs its memory usage: samples, peak, and the minimum in each quarter of the samples.
-- Sizes are in megabytes as printed. `floors` contains the smallest used heap of each quarter, oldest first.
-- {events}: resolved events.
WITH samples AS (
  SELECT source, owner, offset, time_us,
    CAST(fields['heap_used_mb'] AS LONG) AS used,
    CAST(fields['heap_max_mb'] AS LONG) AS most,
    ntile(4) OVER (PARTITION BY source, owner ORDER BY time_us, offset) AS quarter
  FROM {events}
  WHERE event = 'memory' AND template = 'memory-usage'
), quarters AS (
  SELECT source, owner, quarter, count(*) AS n, min(used) AS floor, max(used) AS peak,
    max(most) AS most, min(time_us) AS first_us, max(time_us) AS last_us,
    min(offset) AS offset
  FROM samples
  GROUP BY ALL
)
SELECT 'usage' AS what, source, owner, sum(n) AS n, max(peak) AS peak, max(most) AS most,
  min(first_us) AS first_us, max(last_us) AS last_us, min(offset) AS offset,
  transform(array_sort(collect_list(struct(quarter, floor))), pair -> pair.floor) AS floors
FROM quarters
GROUP BY source, owner
