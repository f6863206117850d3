"""Where bytes come from: codecs, containers, remote files, rolled series, marks of collected files.

`flowdiag.parsers.discover` lists the inputs, and `flowdiag.parsers.source` opens one.
"""
