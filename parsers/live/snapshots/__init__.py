"""Folders of collections from Kubernetes and YARN, with many kinds of files and without secrets."""
