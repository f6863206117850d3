"""Connects the parsers to PySpark: executors parse inputs into a DataFrame of rows.

Start with `frame`. `data_source` implements the data source `flowdiag`, and `parts` writes a DataFrame to files.
"""
