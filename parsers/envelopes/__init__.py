"""JSON around log lines, added by loggers, container runtimes and log stores.

The package has two entry points. `objects.unwrap_json` takes one line of a file with one JSON object per
line. `documents.read_document` takes a whole file with many events: answers and exports of log stores,
arrays, tables. Both return records of type `objects.Unwrapped`.
"""
