"""`flowdiag checkpoints`: the subtask, task or TaskManager that delays the checkpoints of a Flink job."""
