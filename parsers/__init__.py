"""Bytes in, typed rows out: sources, codecs, layouts, message catalogues, live collectors.

Knows no rule and prints nothing. Imported by `flowdiag.analyses` and `flowdiag.cli`; imports neither.
"""
