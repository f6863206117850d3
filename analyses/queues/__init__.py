"""`flowdiag queues`: full queues, missing credits, and the task where back pressure starts.

Start with `topic.Queues`, then `root.find_spells`, which returns the spells of back pressure and their culprits. `loads`
reads the metrics of subtasks, `event_time` their watermarks, and `neighbours` the systems around the job. `credits`
simulates the job's network. `rules` judges with the help of `detect`. This package imports no other topic.
"""
