"""The text layer of the terminal, Markdown and HTML renderers.

`page` has the width, the colours and the time zone of an output. `words` formats subjects, times and verdicts, `stories`
condenses a story, and `grid` lays out tables and lines.
This package imports the types of a report, never the analyses that produce it.
"""
