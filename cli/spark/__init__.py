"""Starts Spark and keeps it fast.

Commands enter through `launch`; all other code uses `starter`. `jvm` starts Java directly, `archive` and `warm` cache its
classes, `running_java` keeps it for the next command, and `borrowed` uses a session of the caller.
"""
