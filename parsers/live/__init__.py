"""Collectors for live systems, and the folder they write.

Start with `flink` and `spark`, which both use `client` (HTTP) and `watching` (ticks). `snapshots` writes the folders.
httpx is only imported when it is used.
"""
