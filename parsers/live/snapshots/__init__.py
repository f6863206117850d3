"""Writes the folders of collections from Kubernetes and YARN, without secrets.

`flowdiag.parsers.live.k8s` and `flowdiag.parsers.live.yarn` write all their files through this package.
"""
