"""Formats that only Flink prints: REST responses, metrics reports, options, failures.

`rest` and `rest_rows` read responses, `metric_reports` and `prometheus` read metrics, `options` configurations, and
`marks` the lines that show which process wrote a log. Each returns the rows of `flowdiag.parsers.rows`.
"""
