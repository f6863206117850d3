"""Reads what only Spark prints: event logs, listener files, progress reports, REST responses.

Start with `events` (event logs) and `rest`.
"""
