"""`flowdiag rate`: why a Spark streaming application cannot keep up, or is held back."""
