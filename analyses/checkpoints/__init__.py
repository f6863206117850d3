"""`flowdiag checkpoints`: who holds the checkpoints of a Flink job, by all signals."""
