"""YARN: answers of its REST APIs, and the files of its log aggregation.

Start with `aggregated` for the files. `flowdiag.parsers.live.yarn` collects what these modules read.
"""
