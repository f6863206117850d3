"""`flowdiag queues`: full queues, used credits, and the task where back pressure starts.

Start with `topic.Queues`, then `root.find_spells`: the spells of back pressure and their culprits. `loads` reads the
metrics of subtasks, `event_time` their watermarks, `neighbours` the systems around the job, and `credits` simulates its
network. `rules` judge with `detect`. This package imports no other topic.
"""
