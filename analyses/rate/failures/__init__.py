"""Failed batches, queries and tasks: their exceptions, their causes outside Spark, and the findings of RT103."""
