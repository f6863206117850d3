"""The Flink job: what the topics about Flink share, from settled clocks to the cause engine."""
