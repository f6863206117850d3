"""Formats that only Spark prints: event logs, listener files, progress reports, REST responses; and the bridge to PySpark."""
