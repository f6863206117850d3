"""Formats that only Flink prints: REST responses, metrics reports, options, failures."""
