"""The types of the report that other programs read, and functions that clean and encode its texts.

Start with `report.Report`. `memory`, `queues` and `startup` declare the tables of their topics. `redact` masks secrets and
escapes control characters in every text, and `encoding` writes JSON. Other packages build and judge the content.
"""
