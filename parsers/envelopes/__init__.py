"""JSON around log lines: what loggers, container runtimes and log stores wrap them in.

Two ways in. `objects.unwrap_json` takes one line of a file that has one JSON object per line, and
`documents.read_document` takes a whole file that holds many events: answers and exports of log stores,
arrays, tables. Both give the same records, `objects.Unwrapped`.
"""
