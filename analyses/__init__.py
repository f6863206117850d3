"""Finds the problem and its culprit: measurements (Spark), rules (Python), models of Flink and Spark.

| start with | it has |
|---|---|
| `diagnosis` | the flow from inputs to a report; `inputs` and `topics` feed it |
| `model` | rules, findings and options, shared by all analyses |
| `knowledge` | causes, remedies, option types and relations, mostly as data |
| `checkpoints`, `queues`, `startup`, `memory`, `rate` | one package per topic, with its rules |
| `flink`, `engine` | facts that topics share, and the scan |
| `report`, `comparison` | the documents that other programs read |

May import `flowdiag.parsers`. Only `flowdiag.cli` and the library import it.
"""
