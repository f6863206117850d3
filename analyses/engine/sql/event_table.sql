-- One row per recognized record, except metric samples: the table `events`.
-- {events}: settled events. {inputs}: the names of the inputs. {columns}: the columns of the table, for both engines.
-- {bookkeeping}: kinds of events that only serve the parser.
SELECT /*+ BROADCAST(i) */ {columns}
FROM {events} AS e JOIN {inputs} AS i ON e.source = i.source
WHERE e.event NOT IN ({bookkeeping})
