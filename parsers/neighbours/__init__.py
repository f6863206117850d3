"""Reads the output of systems around a job: consumer groups, database sessions, server logs.

Start with `kinds`, which recognizes the format of a text. Nothing here knows about jobs.
"""
