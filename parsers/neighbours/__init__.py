"""Reads what the systems around a job print: consumer groups, database sessions, servers' logs."""
