"""The user's choices: which rules, jobs and time span to judge, and what a report may show.

Start with `options.Options`, which contains all of them.
"""
