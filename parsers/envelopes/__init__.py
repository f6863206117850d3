"""Unwraps log lines from the JSON that loggers, container runtimes and log stores put around them.

`objects.unwrap_json` takes one line of a file with one JSON object per line. `documents.read_document` takes a whole
file with many events: a response or export of a log store, an array, a table. Both return records of type
`objects.Unwrapped`.
"""
