"""Turns logs and pasted texts into rows.

Start with `reader.Reader`, which turns the candidates of a `lines.scan.LineScanner` into rows. `pastes` finds failures in
texts without log headers, and `paste_rows` turns these into rows.
"""
