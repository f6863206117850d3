-- One row per batch or trigger: its jobs, and how long they ran together. A part of facts.sql.
SELECT 'work' AS what, to_json(struct(*)) AS row FROM work
