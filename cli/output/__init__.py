"""Output and saved reports.

`console` writes to stdout and stderr, `writing` selects the renderer, `saved` reads saved reports.
"""
