"""Reads responses of YARN's REST APIs (`answers`) and files of its log aggregation (`aggregated`).

`flowdiag.parsers.live.yarn` collects these inputs.
"""
