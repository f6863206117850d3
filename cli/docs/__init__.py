"""Documents generated from the code: rule pages, the table of actions, the blocks of the README, the schema.

`python -m flowdiag.cli.docs` writes them; tests compare them with the code. `manual` also serves `flowdiag explain`.
"""
