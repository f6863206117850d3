"""Imports topics and their rules on demand, including the rules of plug-ins."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from flowdiag.analyses.topic_names import ENGINES
from flowdiag.parsers import plugins

if TYPE_CHECKING:
    from flowdiag.analyses.model.rule import Rule
    from flowdiag.analyses.topic import Topic


def topic(name: str) -> Topic:
    """Import and return a topic.

    Raises:
        ModuleNotFoundError: the topic does not exist.
    """
    found: Topic = getattr(import_module(f"flowdiag.analyses.{name}.topic"), name.upper())
    found.rules = rules_of(name)
    return found


def rules_of(name: str) -> tuple[Rule, ...]:
    """Return the rules of a topic in report order, then the rules of plug-ins, without importing code that measures."""
    return (*own_rules_of(name), *(rule for rule, _ in _plugin_rules().get(name, ())))


def own_rules_of(name: str) -> tuple[Rule, ...]:
    """Return the built-in rules of a topic."""
    found: tuple[Rule, ...] = import_module(f"flowdiag.analyses.{name}.rules").RULES
    return found


def all_rules() -> tuple[Rule, ...]:
    """Return the rules of all topics. A rule of several topics occurs once."""
    return tuple({rule.code: rule for name in ENGINES for rule in rules_of(name)}.values())


def topic_named(code: str) -> str | None:
    """Return the name of the topic that has the rule with this code, or None."""
    return next(
        (name for name in ENGINES if any(rule.code == code for rule in rules_of(name))), None
    )


# -- rules of plug-ins -------------------------------------------------------------------------------

# At least as long as built-in codes, because `--select CP1` selects all codes with that prefix.
_CODE: Final = re.compile(r"[A-Z]{2,12}[0-9]{3,5}")


def providing_package(rule: Rule) -> str | None:
    """Return the package and version that provide a rule, or None for built-in rules."""
    for rules in _plugin_rules().values():
        for added, package in rules:
            if added.code == rule.code:
                return package
    return None


@cache
def _plugin_rules() -> dict[str, tuple[tuple[Rule, str], ...]]:
    """Return the rules of plug-ins by topic, each with its package.

    The name of an entry point is the name of its topic, or `topic.anything`.
    """
    added: dict[str, tuple[tuple[Rule, str], ...]] = {}
    known: dict[str, str] = {}
    for plugin in plugins.plugins(plugins.RULES):
        if not known:
            for rule in (rule for name in ENGINES for rule in own_rules_of(name)):
                known |= {rule.code: "flowdiag", rule.name: "flowdiag"}
        topic_name = plugin.name.partition(".")[0]
        if topic_name not in ENGINES:
            topics = ", ".join(ENGINES)
            plugins.skip_plugin(
                plugin.package, f"there is no topic '{topic_name}' for its rules, only {topics}"
            )
            continue
        for rule in _rules_in(plugin):
            taken = next((word for word in (rule.code, rule.name) if word in known), None)
            if taken is not None:
                plugins.skip_plugin(
                    plugin.package, f"its rule {rule.code}: {known[taken]} has a rule '{taken}'"
                )
                continue
            known |= {rule.code: plugin.package, rule.name: plugin.package}
            added[topic_name] = (*added.get(topic_name, ()), (rule, plugin.package))
    return added


def _rules_in(plugin: plugins.Plugin) -> Iterator[Rule]:
    """Yield those rules of a plug-in that are complete."""
    from flowdiag.analyses.model.rule import Rule

    found: Any = plugin.loaded
    each = (found,) if isinstance(found, Rule) else found
    if not isinstance(each, tuple | list):
        plugins.skip_plugin(plugin.package, f"{plugin.name} is neither a rule nor a tuple of rules")
        return
    for rule in each:
        if not isinstance(rule, Rule):
            plugins.skip_plugin(
                plugin.package, f"{plugin.name} contains an object that is not a rule"
            )
            continue
        why = _defect(rule)
        if why is None:
            yield rule
        else:
            plugins.skip_plugin(plugin.package, f"its rule {rule.code}: {why}")


def _defect(rule: Rule) -> str | None:
    """Return why a rule of a plug-in cannot be used, as a clause, or None."""
    try:
        if not _CODE.fullmatch(rule.code):
            return "its code does not consist of two or more capital letters and three digits, like ACME101"
        if not rule.title:
            return "its module has no docstring, which serves as its page"
        rule.limits.with_settings(
            {threshold.name: threshold.value for threshold in rule.thresholds}
        )
    except Exception as error:  # noqa: BLE001 - a plug-in may raise any error
        return plugins.error_line(error)
    return None
