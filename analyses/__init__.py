"""Finds the problem and its culprit, with measurements (Spark), rules (Python), and models of Flink and Spark.

| start with | content |
|---|---|
| `diagnosis` | the flow from inputs to a report; `inputs` and `topics` feed it |
| `model` | the types of rules and findings that all analyses share |
| `selection` | the choices of the user: rules, jobs, time span |
| `knowledge` | causes, remedies, option types and relations, mostly as data |
| `checkpoints`, `queues`, `startup`, `memory`, `rate` | one package per topic, with its rules |
| `flink`, `engine` | facts that several topics need, and the scan |
| `contract` | the types of the report that other programs read |
| `report`, `comparison` | reports, and changes between two of them |

This package may import `flowdiag.parsers`. Only `flowdiag.cli` and the library import it.
"""
