"""Rules that several topics report: one page and one code, registered by each of these topics.

`judge` of such a rule is a `singledispatch` function: each topic registers how it judges its own facts.
"""
