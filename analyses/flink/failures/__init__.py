"""Derives the failures of a job: failed checkpoints, crises, lost TaskManagers, and silences in its log.

- `episodes`: series of unsuccessful checkpoints
- `crises`: task and job failures, each with its root failure
- `lost_taskmanagers`: identifies the TaskManager that a crisis lost
- `silences`: gaps in logs, which do not count as waiting time
- `linkage`: linkage errors in the text of an exception

These modules turn facts into frozen values. None of them depends on a rule.
"""
