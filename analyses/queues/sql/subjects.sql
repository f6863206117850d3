-- One row per subtask or process that has metrics: its names, and the hashes in their place in other rows.
-- {metrics}: see series.sql.
SELECT DISTINCT 'subject' AS what, {hashes}, {subtask} FROM {metrics} WHERE event = 'metric'
