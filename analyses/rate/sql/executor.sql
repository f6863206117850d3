-- One row per executor: its share of the stages' tasks, and how long they took. A part of facts.sql.
SELECT 'executor' AS what, to_json(struct(*)) AS row FROM loads
