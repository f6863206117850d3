"""`flowdiag rate`: why a Spark streaming application cannot keep up, or what limits it."""
