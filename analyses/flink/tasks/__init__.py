"""The tasks of a job: their order, placement, load and buffers.

- `topology`: the order of the tasks in the job graph
- `placement`: the TaskManagers of late subtasks
- `pressure`: back pressure, skewed subtasks and slow TaskManagers, from metrics
- `buffers`: the network buffers that a task needs
"""
