"""The rules, listed by hand."""
