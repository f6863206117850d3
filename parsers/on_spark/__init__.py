"""The bridge to PySpark: inputs as a frame of rows, parsed on executors.

Start with `frame`. `data_source` registers it as the data source `flowdiag`, and `parts` writes a frame to files.
"""
