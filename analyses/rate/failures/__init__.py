"""Failed batches, queries and tasks: their exceptions, their causes outside Spark, and the findings of RT103.

Start with `troubles` for failures outside Spark, and with `exceptions` for all others. Rules import this package.
"""
