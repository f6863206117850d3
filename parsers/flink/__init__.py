"""What only Flink prints: REST answers, metric reports, options, failures."""
