"""Inputs that nobody would write: what must hold of each of them, and the search for one of which it does not."""
