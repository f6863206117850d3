"""The texts of `flowdiag explain`, `rules` and `docs`: rules, causes, codes and components.

Start with `manual`. The generated documents contain the same texts.
"""
