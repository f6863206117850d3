"""The Spark side of the analyses: reads sources into frames, and runs queries on them.

- `reading`: reads sources into a frame of raw events
- `frames`: caches frames that several queries read
- `sql`: loads the queries, which are files
- `views`: provides the documented tables `events` and `metrics`

This package does not depend on topics or rules.
"""
