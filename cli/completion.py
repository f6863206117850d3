"""What the shell offers for a rule: its code, or its name, with what it finds. Typer calls these."""

from __future__ import annotations


def rule_word(incomplete: str) -> list[tuple[str, str]]:
    """Codes and names that begin as what was typed.

    >>> rule_word("cp201")
    [('CP201', 'One subtask, task or TaskManager holds the checkpoints up')]
    """
    from flowdiag.analyses.topics import all_rules  # of all commands: many imports

    rules = all_rules()
    codes = [(rule.code, rule.title) for rule in rules if rule.code.startswith(incomplete.upper())]
    word = incomplete.lower()
    names = [(rule.name, rule.title) for rule in rules if word and rule.name.startswith(word)]
    return codes + names


def rule_words(incomplete: str) -> list[tuple[str, str]]:
    """The same behind the last comma of a list.

    >>> [word for word, _ in rule_words("RT1,cp201")]
    ['RT1,CP201']
    """
    before, comma, word = incomplete.rpartition(",")
    return [(f"{before}{comma}{found}", title) for found, title in rule_word(word)]
