"""Reads Kubernetes objects, such as pods and events, as `kubectl get -o json|yaml` writes them.

Start with `objects`. Nothing here needs a cluster: `flowdiag.parsers.live.k8s` collects the objects.
"""
