"""What the shell offers for a rule: its code, or its name, with what it finds."""

from __future__ import annotations

from collections.abc import Iterator


def rule_words(incomplete: str) -> Iterator[tuple[str, str]]:
    """Codes and names that begin as what was typed, behind the last comma; typer calls it.

    >>> dict(rule_words("cp20"))["CP201"]
    'One subtask, task or TaskManager holds the checkpoints up'
    """
    from flowdiag.analyses.topics import all_rules  # of all commands: many imports

    before, comma, word = incomplete.rpartition(",")
    rules = all_rules()
    for rule in rules:
        if rule.code.startswith(word.upper()):
            yield f"{before}{comma}{rule.code}", rule.title
    for rule in rules:
        if word and rule.name.startswith(word.lower()):
            yield f"{before}{comma}{rule.name}", rule.title
