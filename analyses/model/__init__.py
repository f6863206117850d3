"""Types that all analyses share: rules and findings.

Start with `rule` and `finding`: a rule yields findings, and `signals` has the votes behind it. `option_types` writes the
values of options as the engines read them. `keys` identifies jobs, processes and records. `fmt` formats numbers, times
and names for readers. Nothing here depends on a topic, on Spark or on a report.
"""
