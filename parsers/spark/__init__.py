"""What only Spark prints: event logs, listener dumps, progress, REST answers; and the bridge to PySpark."""
