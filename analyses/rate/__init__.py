"""`flowdiag rate`: why a Spark streaming application cannot keep up, or what limits it.

Start with `topic.Rate`. `assemble` builds the facts of each application, `assessment` decides how well it keeps up, and
`rules` name the cause with `detect`, `overload` and `failures`. `pid` and `replay` are Spark's rate estimator; `model`
predicts other settings. This package imports no other topic.
"""
