"""Live servers as inputs: access options, snapshots of servers, repeated rounds and the `--exec` hook.

Start with `rounds`, which diagnoses live servers once or at an interval. The collectors that talk to the servers
are in `flowdiag.parsers.live`.
"""
