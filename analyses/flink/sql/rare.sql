-- One row per record that `survey` needs unchanged: a few per split, regardless of the number of events.
-- {events}: EVENTS.
SELECT {rare_columns} FROM {events}
WHERE event IN ({rare}) AND (event <> 'configuration' OR fields['key'] IN ({cluster_keys}))
