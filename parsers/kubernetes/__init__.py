"""Reads Kubernetes objects: pods and events as `kubectl get -o json|yaml` and `flowdiag collect k8s` write them.

Start with `objects`. `flowdiag.parsers.live.k8s` collects these objects; nothing here needs a cluster.
"""
