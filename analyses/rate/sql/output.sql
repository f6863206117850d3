-- One row per failed output operation. Part of facts.sql.
SELECT 'output' AS what, to_json(struct(*)) AS row FROM outputs WHERE cause IS NOT NULL
