"""The instant and the writer of each record.

Start with `settle.settle`: it compares what all files show (`survey`) and determines the time zone and the process of
each. Topics import the result (`flowdiag.analyses.flink.settled`), not this package.
"""
