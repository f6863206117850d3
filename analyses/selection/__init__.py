"""The user's choices: which rules, which jobs, which time span, and what a report may show.

Start with `options.Options`, which carries all of them.
"""
