"""Reads what only Flink prints: REST responses, metrics reports, configurations, failures.

`rest` and `rest_rows` read responses, `metric_reports` and `prometheus` read metrics, and `options` reads
configurations. `marks` sums up what the rows of a log show about the process that wrote it.
"""
