"""Shell completion for rule codes and names, called by Typer."""

from __future__ import annotations


def complete_rule(incomplete: str) -> list[tuple[str, str]]:
    """Return the codes and names that start with the typed text, each with the rule's title.

    >>> complete_rule("cp201")
    [('cp201', 'One subtask, task or TaskManager delays the checkpoints')]
    """
    from flowdiag.analyses.topics import all_rules  # imports every topic

    codes = [(rule.code, rule) for rule in all_rules()]
    if incomplete.islower():
        codes = [(code.lower(), rule) for code, rule in codes] + [
            (rule.name, rule) for _, rule in codes
        ]
    return [(word, rule.title) for word, rule in codes if word.startswith(incomplete)]


def complete_rules(incomplete: str) -> list[tuple[str, str]]:
    """Complete the last element of a comma-separated list.

    >>> [word for word, _ in complete_rules("RT1,cp201")]
    ['RT1,cp201']
    """
    before, comma, word = incomplete.rpartition(",")
    return [(f"{before}{comma}{found}", title) for found, title in complete_rule(word)]
