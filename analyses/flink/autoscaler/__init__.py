"""The autoscaler of the Flink Kubernetes Operator: its formula, and its recorded state."""
