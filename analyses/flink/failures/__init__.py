"""The failures of a job: failed checkpoints, crises, lost TaskManagers, and the silences of its log.

- `episodes`: series of unsuccessful checkpoints
- `crises`: failures of tasks and of the job, each with its root failure
- `lost_taskmanagers`: the TaskManager that a crisis lost
- `memory_pools`: the kinds of memory that can run out
- `silences`: gaps in logs, which do not count as waiting time
- `exception_texts`, `linkage`: the facts in the text of an exception

Facts come in, frozen values come out; nothing here knows a rule.
"""
