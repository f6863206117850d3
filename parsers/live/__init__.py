"""Collectors for live systems.

Start with `flink` and `spark`, which both use `client` (HTTP), `watching` (ticks) and `folder` (files). httpx is
imported only when it is used.
"""
