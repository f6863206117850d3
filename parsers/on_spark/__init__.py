"""The bridge to PySpark: inputs as a frame of rows, parsed on executors.

Start with `frame`. `data_source` registers the same as the data source `flowdiag`, and `parts` writes a frame as files.
"""
