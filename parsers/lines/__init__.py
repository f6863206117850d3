"""Lines of any text: search for candidate lines, the layouts of log headers, stack traces.

Start with `scan.LineScanner` and `prefix`. `flowdiag.parsers.logs` turns these lines into records and rows.
"""
