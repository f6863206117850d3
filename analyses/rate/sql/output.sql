-- One row per output operation that failed. A part of facts.sql.
SELECT 'output' AS what, to_json(struct(*)) AS row FROM outputs WHERE cause IS NOT NULL
