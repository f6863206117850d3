"""Which rules a user wants to hear and with which limits, and what becomes of a verdict without the others.

A word chooses a rule by its code (`CP101`), its name (`checkpoint-expired`), or many by the beginning
of their codes (`CP`, `RT4`). The longer beginning decides, wherever it stands, so that `--ignore CP3
--select CP307` leaves one of them; between equals, ignoring wins.

An ignored rule still judges. What it finds is not shown and fails no build, but does not become
healthy by that: `without` says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from flowdiag.analyses.model.finding import Inconclusive, RuleOutcome, Severity
from flowdiag.analyses.model.rule import Rule, Thresholds
from flowdiag.parsers.errors import FlowdiagError, nearest


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """`--select` and `--ignore`, every word of which chooses at least one rule."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    def ignored(self, rule: Rule) -> str | None:
        """Why a rule is not heard, as the option that says so; None: it is."""
        selected = _closest(rule, self.select)
        ignored = _closest(rule, self.ignore)
        if ignored is not None and (selected is None or _length(ignored) >= _length(selected)):
            return f"--ignore {ignored}"
        if self.select and selected is None:
            return f"--select {','.join(self.select)}"
        return None


def _closest(rule: Rule, words: Iterable[str]) -> str | None:
    """Of the words that mean a rule, the one that says most."""
    return max((word for word in words if means(word, rule)), key=_length, default=None)


def _length(word: str) -> int:
    """How closely a word chooses: a name as closely as a code.

    >>> _length("CP"), _length("CP101"), _length("checkpoint-expired")
    (2, 5, 5)
    """
    return min(len(word), 5)


def means(word: str, rule: Rule) -> bool:
    """Whether a word chooses a rule: its code, the beginning of it, or its name, in any case."""
    return rule.code.startswith(word.upper()) or rule.name == word.lower()


def chosen(select: Iterable[str], ignore: Iterable[str], rules: Sequence[Rule]) -> Choice:
    """Check the words against the rules there are.

    Raises:
        FlowdiagError: a word chooses no rule; the nearest one is named.
    """
    choice = Choice(select=tuple(select), ignore=tuple(ignore))
    for todo, words in (("select", choice.select), ("ignore", choice.ignore)):
        for word in words:
            if not any(means(word, rule) for rule in rules):
                raise FlowdiagError(f"there is no rule '{word}' to {todo}", hint=_near(word, rules))
    return choice


def rule_overrides(
    thresholds: Mapping[str, Thresholds], rules: Iterable[Rule]
) -> dict[str, Thresholds]:
    """Check `[thresholds.…]` against the rules there are; rules may be named by code or by name.

    Raises:
        FlowdiagError: an unknown rule or threshold.
    """
    known = {key: rule for rule in rules for key in (rule.code, rule.name)}
    checked: dict[str, Any] = {}
    for key, values in thresholds.items():
        rule = known.get(key)
        if rule is None:
            raise FlowdiagError(f"there is no rule '{key}'", hint=nearest(key, known))
        names = [threshold.name for threshold in rule.thresholds]
        for name in values:
            if name not in names:
                raise FlowdiagError(
                    f"rule {rule.code} has no threshold '{name}'", hint=nearest(name, names)
                )
        checked.setdefault(rule.code, {}).update(values)
    return checked


def nearest_rule(word: str, rules: Iterable[Rule]) -> Rule | None:
    """The rule whose code or name is most like a word that is neither; None: none is."""
    known = {key.lower(): rule for rule in rules for key in (rule.code, rule.name)}
    near = get_close_matches(word.lower(), known, n=1)
    return known[near[0]] if near else None


def _near(word: str, rules: Sequence[Rule]) -> str:
    near = nearest_rule(word, rules)
    if near is not None:
        return f"did you mean {near.code} ({near.name})?"
    topics = ", ".join(sorted({rule.code[:2] for rule in rules}))
    return f"codes begin with {topics}; flowdiag rules lists all"


def without(
    rules: Sequence[Rule], outcomes: Sequence[RuleOutcome], choice: Choice
) -> tuple[RuleOutcome, ...]:
    """What rules said, those that are ignored silent.

    Healthy stays only what the ignored ones leave no doubt about: one of them that found something at
    warning or above, or a core rule, makes the verdict inconclusive.

    Args:
        rules: of a topic.
        outcomes: what each of them said, in their order.
        choice: of the user.
    """
    reasons = [choice.ignored(rule) for rule in rules]
    everything = None not in reasons
    return tuple(
        outcome if why is None else _silent(outcome, why, everything=everything)
        for outcome, why in zip(outcomes, reasons, strict=True)
    )


def _silent(outcome: RuleOutcome, why: str, *, everything: bool) -> RuleOutcome:
    called = f"{outcome.code} {outcome.name}"
    doubts: list[Inconclusive] = []
    if everything:
        doubts.append(Inconclusive(reason="no rule is heard"))
    elif outcome.core:
        doubts.append(Inconclusive(reason=f"{called} is not heard ({why})"))
    else:
        serious = [item for item in outcome.findings if item.severity is not Severity.INFO]
        doubts += [
            Inconclusive(reason=f"{called} found something, and is not heard ({why})", job=job)
            for job in dict.fromkeys(item.job for item in serious)
        ]
    return replace(outcome, core=bool(doubts), findings=(), inconclusive=tuple(doubts), ignored=why)
