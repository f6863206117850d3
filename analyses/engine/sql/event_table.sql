-- One row per record that was understood, but for samples of metrics: the table `events`.
-- {events}: settled events. {inputs}: the names of the inputs. {columns}: of the table, from either engine.
-- {bookkeeping}: kinds of event that tell nothing of the field.
SELECT /*+ BROADCAST(i) */ {columns}
FROM {events} AS e JOIN {inputs} AS i ON e.source = i.source
WHERE e.event NOT IN ({bookkeeping})
