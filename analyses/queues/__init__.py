"""`flowdiag queues`: full queues, used credits, and the task where back pressure starts."""
