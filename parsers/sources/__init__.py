"""Reads the bytes of inputs: codecs, containers, remote files, rolled logs, collected files.

`flowdiag.parsers.discover` lists the inputs, and `flowdiag.parsers.source` opens them.
"""
