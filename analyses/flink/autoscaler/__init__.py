"""The autoscaler of the Flink Kubernetes Operator: its formula and its recorded state.

Start with `replay`, which applies `formula` to the metrics that `state` reads, with the options from `settings`.
All functions are pure, and nothing here imports Spark, a topic or the report.
"""
