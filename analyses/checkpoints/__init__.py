"""`flowdiag checkpoints`: the subtask, task or TaskManager that delays the checkpoints of a Flink job.

Start with `topic.Checkpoints`. The facts come from `flowdiag.analyses.flink`. `rules` judges them with the help of
`detect`, and `data` converts them to the tables of the report. `culprit`, `pending` and `halves` derive facts that
several rules need. This package imports no other topic.
"""
