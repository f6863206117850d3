"""Determines the instant and the writer of each record.

Start with `settle.settle`, which compares all files (`survey`) to determine the time zone and process of
each. Topics import the result (`flowdiag.analyses.flink.settled`), not this package.
"""
