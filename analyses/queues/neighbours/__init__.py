"""The systems around a job: sources that it falls behind, and databases that its sinks wait for.

Start with `lags` and `outages`. `queues.neighbour_facts` has the types that `flowdiag.parsers.neighbours` fills. Nothing
here imports a rule.
"""
