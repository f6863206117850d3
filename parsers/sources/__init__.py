"""Discovery and opening of inputs: containers, codecs, remote files, rolled series.

Start with `discover.discover` and `open.open_source`.
"""
