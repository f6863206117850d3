"""Rules that several topics report. Each has one page and one code and is registered by several topics.

Their `judge` is a `singledispatch` function, for which each topic registers an implementation.
"""
