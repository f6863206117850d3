"""Log lines: search for candidate lines, header layouts, records, stack traces.

Start with `reader.Reader`, which turns the candidates of a `scan.LineScanner` into rows.
"""
