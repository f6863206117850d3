-- One row per batch or trigger: its worst stage, the one with the most task time, and the written records. Part of
-- facts.sql.
SELECT 'stage' AS what, to_json(struct(app, batch, run_id, batch_id, worst, largest, written)) AS row FROM worst
