"""Recognises the kind, engine and role of an input by its content. Start with `text.sniff`."""
