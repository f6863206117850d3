"""Determines the kind, engine and role of an input from its content. Start with `text.sniff`."""
