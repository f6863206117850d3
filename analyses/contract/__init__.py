"""The report as other programs read it: its types, and how text in it is cleaned and encoded.

Start with `report.Report`. `memory`, `queues` and `startup` declare the tables of their topics. `redact` masks secrets and
escapes control characters in every text, and `encoding` writes JSON. Nothing here builds or judges anything.
"""
