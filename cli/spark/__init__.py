"""Starts Spark, fast.

Commands enter through `launch`; all other code uses `starter`. `jvm` starts Java directly, `archive` and `warm` cache its classes, `running_java` connects to the Java process of an earlier command, and `borrowed` uses a session of the caller.
"""
