"""`flowdiag rate`: why a Spark streaming application cannot keep up, or what limits it.

Start with `topic.Rate`. `assemble` builds the facts of each application, `assessment` decides how well it keeps up,
and `rules` name the cause with the help of `detect`, `overload` and `failures`. `pid` and `replay` recalculate
Spark's rate estimator, and `model` predicts the effect of other settings. This package imports no other topic.
"""
