"""Generates documents from the code: rule pages, remedies, command reference, blocks of the README, schemas.

`python -m flowdiag.cli.docs` writes them, and a test checks that they are current.
"""
