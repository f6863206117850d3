"""`flowdiag startup`: how a Flink job reached RUNNING, and the step that blocked it.

Start with `topic.Startup`. `assemble` builds the starts of each job and their steps, and `rules` judge them with
`detect`. This package imports no other topic.
"""
