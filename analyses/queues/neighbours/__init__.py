"""The systems around a job: sources that it falls behind, and databases that its sinks wait for.

Start with `lags` and `outages`. `flowdiag.analyses.neighbours` defines the facts, which `flowdiag.parsers.neighbours` reads.
No module here imports a rule.
"""
