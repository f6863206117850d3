"""Output and saved reports.

`console` writes to stdout and stderr, `writing` selects the renderer, `saved` and `embedded` read saved reports.
"""
