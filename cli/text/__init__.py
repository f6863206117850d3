"""Text functions that the terminal, Markdown and HTML renderers share.

`page` has the width, the colors and the time zone of an output. `words` formats subjects, times and verdicts, `stories`
shortens an incident, and `grid` lays out tables and lines.
This package imports the types of a report, never the analyses that produce it.
"""
