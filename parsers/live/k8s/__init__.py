"""Collects the logs, states and events of a workload from a Kubernetes cluster: `flowdiag collect k8s`.

Start with `collector`. The `kubernetes` package is an extra (`flowdiag[k8s]`); only `api` imports it.
"""
