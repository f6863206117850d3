-- One row per (application, batch time): the batch and its jobs. Part of facts.sql.
SELECT 'batch' AS what, to_json(struct(
  coalesce(b.app, j.app) AS app,
  coalesce(b.batch, j.batch) AS batch, b.submission, b.start, b.end, b.processing,
  b.scheduling, b.records, b.failed, b.log_total, b.reason, b.completed, b.begun, b.begun_ms, b.streams,
  b.origins, b.interval_ms, coalesce(b.ref, j.ref) AS ref, j.start AS job_start,
  j.end AS job_end, j.jobs, j.lineage, j.failed AS failed_jobs, j.cause AS job_cause)) AS row
FROM batches AS b FULL JOIN jobs_of_batches AS j ON b.app = j.app AND b.batch = j.batch
