"""Folders of collections from Kubernetes and YARN, with many kinds of files and without secrets.

`flowdiag.parsers.live.k8s` and `flowdiag.parsers.live.yarn` write through this package.
"""
