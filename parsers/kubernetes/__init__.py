"""Reads Kubernetes objects: pods and events as `kubectl get -o json|yaml` and `flowdiag collect k8s` write them."""
