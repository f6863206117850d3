-- One row per record that `survey` reads as it is: a few per split, whatever the number of events.
-- {events}: EVENTS.
SELECT {rare_columns} FROM {events}
WHERE event IN ({rare}) AND (event <> 'configuration' OR fields['key'] IN ({cluster_keys}))
