"""Reads YARN: the responses of its REST APIs, and the files of its log aggregation.

Start with `aggregated` for the files. `flowdiag.parsers.live.yarn` collects these inputs.
"""
