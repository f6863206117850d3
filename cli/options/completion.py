"""What the shell offers for a rule: its code, or its name, with what it finds. Typer calls these."""

from __future__ import annotations


def rule_word(incomplete: str) -> list[tuple[str, str]]:
    """Codes and names that begin as what was typed; shells drop what does not to the letter.

    >>> rule_word("cp201")
    [('cp201', 'One subtask, task or TaskManager holds the checkpoints up')]
    """
    from flowdiag.analyses.topics import all_rules  # of all commands: many imports

    codes = [(rule.code, rule) for rule in all_rules()]
    if incomplete.islower():
        codes = [(code.lower(), rule) for code, rule in codes] + [
            (rule.name, rule) for _, rule in codes
        ]
    return [(word, rule.title) for word, rule in codes if word.startswith(incomplete)]


def rule_words(incomplete: str) -> list[tuple[str, str]]:
    """The same behind the last comma of a list.

    >>> [word for word, _ in rule_words("RT1,cp201")]
    ['RT1,cp201']
    """
    before, comma, word = incomplete.rpartition(",")
    return [(f"{before}{comma}{found}", title) for found, title in rule_word(word)]
