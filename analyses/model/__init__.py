"""Types that all analyses share: rules, findings, the selected part of the input.

Start with `rule` and `finding`: a rule yields findings. `keys` identifies jobs, processes and records. `span` and
`options` hold the user's selection. `fmt` formats numbers, times and names for readers.
Nothing here depends on a topic, on Spark or on a report.
"""
