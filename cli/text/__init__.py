"""A report in words and characters: the text layer that the terminal, Markdown and HTML renderers share.

`words` formats subjects, causes and verdicts; `telling` condenses an incident; `grid` lays out tables and lines.
Imports the report's types, never the analyses that produced them.
"""
