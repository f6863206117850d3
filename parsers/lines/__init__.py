"""Lines of any text: search for candidate lines, the layouts of log headers, stack traces.

Start with `scan.LineScanner` and `prefix`. `flowdiag.parsers.logs` makes records and rows of these lines.
"""
