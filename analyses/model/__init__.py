"""Types that all analyses share, such as rules and findings.

Start with `rule` and `finding`: a rule yields findings, and `signals` contains the voting tables behind them.
`option_types` formats option values as the engines read them. `keys` identifies jobs, processes and records. `fmt`
formats numbers, times and names for readers. Nothing here depends on a topic, on Spark or on a report.
"""
