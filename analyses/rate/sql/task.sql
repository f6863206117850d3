-- One row per unfinished task of a batch or trigger, with the finished tasks of its stage. Part of facts.sql.
SELECT 'task' AS what, to_json(struct(o.*, j.of.batch AS batch, j.of.run_id AS run_id,
  j.of.batch_id AS batch_id, j.of.name AS name, s.tasks AS ended, s.longest AS longest)) AS row
FROM open_tasks AS o JOIN stage_of_job AS j ON o.app = j.app AND o.stage = j.stage
LEFT JOIN stage_tasks AS s ON s.app = o.app AND s.stage = o.stage
