"""The Spark side of the analyses: sources become frames, and queries run on them.

- `reading`: reads sources into a frame of raw events
- `frames`: caches frames that several queries read
- `sql`: loads the queries, which are files
- `views`: the documented tables `events` and `metrics`

No module here knows a topic or a rule.
"""
