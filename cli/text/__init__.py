"""The text layer of the terminal, Markdown and HTML renderers.

`words` formats subjects, times and verdicts, `stories` condenses a story, `grid` lays out tables and lines.
This package imports the types of a report, never the analyses that produce it.
"""
