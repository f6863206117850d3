"""`flowdiag startup`: how a Flink job got to RUNNING, and what held it."""
