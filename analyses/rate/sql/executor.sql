-- One row per executor: its share of the stages' tasks, and their durations. Part of facts.sql.
SELECT 'executor' AS what, to_json(struct(*)) AS row FROM loads
