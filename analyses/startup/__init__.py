"""`flowdiag startup`: how a Flink job reached RUNNING, and the step that blocked it."""
