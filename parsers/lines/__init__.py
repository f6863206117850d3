"""Finds candidate lines in a text, and parses log headers and stack traces.

Start with `scan.LineScanner` and `prefix`. `flowdiag.parsers.logs` turns the lines into records and rows.
"""
