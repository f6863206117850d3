"""`flowdiag checkpoints`: the subtask, task or TaskManager that delays the checkpoints of a Flink job.

Start with `topic.Checkpoints`. The facts come from `flowdiag.analyses.flink`; `rules` judge them with `detect`, and
`data` turns them into the tables of the report. `culprit`, `pending` and `halves` derive facts that several rules need.
This package imports no other topic.
"""
