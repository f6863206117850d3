"""The systems around a job: sources that it falls behind, and databases that its sinks wait for.

Start with `lags` and `outages`. `queues.neighbour_facts` defines the facts, which `flowdiag.parsers.neighbours` reads.
No module here imports a rule.
"""
