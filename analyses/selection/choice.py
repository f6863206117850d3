"""Applies the user's selection of rules and limits, and determines how ignored rules affect the verdict.

A word selects a rule by its code (`CP101`) or name (`checkpoint-expired`), or many rules by a code prefix (`CP`,
`RT4`). The longer prefix wins, regardless of order: `--ignore CP3 --select CP307` keeps CP307. `--ignore` wins a tie.

An ignored rule still runs. Its findings are not shown and fail no build, but `without` prevents them from making the
verdict healthy.
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
    """The values of `--select` and `--ignore`. Every word matches at least one rule."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    def ignored(self, rule: Rule) -> str | None:
        """Return the option that excludes a rule, or None if no option does."""
        selected = _most_specific_word(rule, self.select)
        ignored = _most_specific_word(rule, self.ignore)
        if ignored is not None and (selected is None or _length(ignored) >= _length(selected)):
            return f"--ignore {ignored}"
        if self.select and selected is None:
            return f"--select {','.join(self.select)}"
        return None


def _most_specific_word(rule: Rule, words: Iterable[str]) -> str | None:
    return max((word for word in words if matches_rule(word, rule)), key=_length, default=None)


def _length(word: str) -> int:
    """Return how specific a word is. Names are as specific as codes.

    >>> _length("CP"), _length("CP101"), _length("checkpoint-expired")
    (2, 5, 5)
    """
    return min(len(word), 5)


def matches_rule(word: str, rule: Rule) -> bool:
    """Return whether a word is a rule's code, code prefix or name, in upper or lower case."""
    return rule.code.startswith(word.upper()) or rule.name == word.lower()


def choose_rules(select: Iterable[str], ignore: Iterable[str], rules: Sequence[Rule]) -> Choice:
    """Check that each word matches a rule.

    Raises:
        FlowdiagError: if a word matches no rule. The hint names the most similar rule.
    """
    choice = Choice(select=tuple(select), ignore=tuple(ignore))
    for todo, words in (("select", choice.select), ("ignore", choice.ignore)):
        for word in words:
            if not any(matches_rule(word, rule) for rule in rules):
                raise FlowdiagError(
                    f"there is no rule '{word}' to {todo}", hint=_nearest_rule(word, rules)
                )
    return choice


def rule_overrides(
    thresholds: Mapping[str, Thresholds], rules: Iterable[Rule]
) -> dict[str, Thresholds]:
    """Check that `[thresholds.…]` refer to existing rules, by code or name.

    Raises:
        FlowdiagError: if a rule or threshold is unknown.
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
    """Return the rule whose code or name is most similar to a word, or None."""
    known = {key.lower(): rule for rule in rules for key in (rule.code, rule.name)}
    near = get_close_matches(word.lower(), known, n=1)
    return known[near[0]] if near else None


def _nearest_rule(word: str, rules: Sequence[Rule]) -> str:
    near = nearest_rule(word, rules)
    if near is not None:
        return f"did you mean {near.code} ({near.name})?"
    topics = ", ".join(sorted({rule.code[:2] for rule in rules}))
    return f"codes start with {topics}; flowdiag rules lists all rules"


def without(
    rules: Sequence[Rule], outcomes: Sequence[RuleOutcome], choice: Choice
) -> tuple[RuleOutcome, ...]:
    """Remove the findings of ignored rules.

    The verdict stays healthy only if ignored rules leave no doubt. An ignored core rule, or an ignored finding at
    warning or above, makes the verdict inconclusive.

    Args:
        rules: rules of a topic.
        outcomes: their outcomes, in the same order.
        choice: the user's selection.
    """
    reasons = [choice.ignored(rule) for rule in rules]
    all_ignored = None not in reasons
    return tuple(
        outcome if why is None else _ignored_outcome(outcome, why, all_ignored=all_ignored)
        for outcome, why in zip(outcomes, reasons, strict=True)
    )


def _ignored_outcome(outcome: RuleOutcome, why: str, *, all_ignored: bool) -> RuleOutcome:
    called = f"{outcome.code} {outcome.name}"
    doubts: list[Inconclusive] = []
    if all_ignored:
        doubts.append(Inconclusive(reason="all rules are ignored"))
    elif outcome.core:
        doubts.append(Inconclusive(reason=f"{called} is ignored ({why})"))
    else:
        serious = [item for item in outcome.findings if item.severity is not Severity.INFO]
        doubts += [
            Inconclusive(reason=f"{called} found something but is ignored ({why})", job=job)
            for job in dict.fromkeys(item.job for item in serious)
        ]
    return replace(outcome, core=bool(doubts), findings=(), inconclusive=tuple(doubts), ignored=why)
