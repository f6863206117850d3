-- One row per batch or trigger: its worst stage, and the one with the most task time. Part of facts.sql.
SELECT 'stage' AS what, to_json(struct(app, batch, run_id, batch_id, worst, largest)) AS row FROM worst
