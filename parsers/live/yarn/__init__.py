"""Collects an application from YARN: `flowdiag collect yarn`.

Start with `collector`. `flowdiag.parsers.yarn` reads the responses.
"""
