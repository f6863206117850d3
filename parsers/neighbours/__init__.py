"""Reads what the systems around a job print: consumer groups, database sessions, servers' logs.

Start with `kinds`, which recognises the format of a text. Nothing here knows a job.
"""
