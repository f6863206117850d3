"""`flowdiag startup`: how a Flink job reached RUNNING, and which step delayed or blocked it.

Start with `topic.Startup`. `assemble` builds the starts of each job and their steps, and `rules` judge them with
the help of `detect`. This package imports no other topic.
"""
