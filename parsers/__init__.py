"""Parsers and collectors: they turn the bytes of inputs into typed rows.

This package knows no rules and prints nothing. `flowdiag.analyses` and `flowdiag.cli` import it; it imports
neither. Start with `split.parse_split`, which turns one part of a source into rows (`rows.EVENTS`).
"""
