-- One row per batch or trigger: its worst stage. A part of facts.sql.
SELECT 'stage' AS what, to_json(struct(app, batch, run_id, batch_id, worst)) AS row FROM worst
