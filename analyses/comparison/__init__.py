"""Compares two reports, and mutes known findings.

Start with `compare.compare_reports`. `findings` pairs the findings of both sides, `measures` pairs their measures, and
`chance` decides whether a difference is significant. `baseline` reads and writes the findings that a team has accepted.
`wire` declares the document that `flowdiag compare` writes.

The inputs are reports and baseline files. This package reads no logs and needs no Spark.
"""
