"""The vocabulary that every analysis shares: what a rule is, what a finding holds, which part of the input is judged.

`rule` and `finding` are the two to read first: a rule yields findings. `keys` names jobs, processes and records;
`span` and `options` hold the selection that the user made; `fmt` formats numbers, times and names for people.
Nothing here knows a topic, Spark or a report; it may import `flowdiag.parsers` only.
"""
