"""Facts about the systems around jobs of Flink and Spark, from the output of these systems' own tools.

`facts` reads them, `locks` finds sessions that wait for locks, and `statements` finds those that the database works on.
"""
