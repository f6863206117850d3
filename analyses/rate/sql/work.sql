-- One row per batch or trigger: its jobs, and their total running time. Part of facts.sql.
SELECT 'work' AS what, to_json(struct(*)) AS row FROM work
