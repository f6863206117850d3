"""The topics there are: one line each. Importing it imports none of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from flowdiag.parsers import plugins

if TYPE_CHECKING:
    from flowdiag.analyses.diagnosis import Topic
    from flowdiag.analyses.model.rule import Rule

ENGINES: Final = {
    "checkpoints": "flink",
    "rate": "spark",
    "queues": "flink",
    "memory": "flink",
    "startup": "flink",
}
"""Whose inputs each reads, in the order of documents; each has a package with `topic.py` and `rules/`."""


EVERYTHING: Final = "diagnose"
"""The command over every topic that its inputs can feed."""


def topic(name: str) -> Topic:
    """The topic of that name.

    Raises:
        ModuleNotFoundError: there is none.
    """
    found: Topic = getattr(import_module(f"flowdiag.analyses.{name}.topic"), name.upper())
    found.rules = rules_of(name)
    return found


def names_of(command: str, engines: Collection[str]) -> tuple[str, ...]:
    """The topics of a command: its own, or for `diagnose` all that inputs of these engines can feed."""
    if command != EVERYTHING:
        return (command,)
    return tuple(name for name, engine in ENGINES.items() if engine in engines)


def rules_of(name: str) -> tuple[Rule, ...]:
    """The rules of a topic, in the order of its reports, those of plug-ins behind; imports nothing that measures."""
    return (*own_rules_of(name), *(rule for rule, _ in _added().get(name, ())))


def own_rules_of(name: str) -> tuple[Rule, ...]:
    """The rules of a topic that flowdiag itself has."""
    found: tuple[Rule, ...] = import_module(f"flowdiag.analyses.{name}.rules").RULES
    return found


def all_rules() -> tuple[Rule, ...]:
    """Return the rules of all topics, without repeating a rule that several topics share."""
    return tuple({rule.code: rule for name in ENGINES for rule in rules_of(name)}.values())


def topic_named(code: str) -> str | None:
    """The topic that a rule of this code is of; None: no topic has such a rule."""
    return next(
        (name for name in ENGINES if any(rule.code == code for rule in rules_of(name))), None
    )


# -- rules of plug-ins -------------------------------------------------------------------------------

# As long as ours or longer: `--select CP1` means all codes that begin so.
_CODE: Final = re.compile(r"[A-Z]{2,12}[0-9]{3,5}")


def brought_by(rule: Rule) -> str | None:
    """The package that a rule comes from, with its version; None: it is flowdiag's own."""
    for rules in _added().values():
        for added, package in rules:
            if added.code == rule.code:
                return package
    return None


@cache
def _added() -> dict[str, tuple[tuple[Rule, str], ...]]:
    """The rules of plug-ins, each with its package, by topic.

    Entry points are called by their topic, or `topic.anything`.
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
    """The rules that a plug-in holds, those that are complete."""
    from flowdiag.analyses.model.rule import Rule

    found: Any = plugin.loaded
    each = (found,) if isinstance(found, Rule) else found
    if not isinstance(each, tuple | list):
        plugins.skip_plugin(plugin.package, f"{plugin.name} is no rule, nor a tuple of rules")
        return
    for rule in each:
        if not isinstance(rule, Rule):
            plugins.skip_plugin(plugin.package, f"{plugin.name} holds something that is no rule")
            continue
        why = _lacks(rule)
        if why is None:
            yield rule
        else:
            plugins.skip_plugin(plugin.package, f"its rule {rule.code}: {why}")


def _lacks(rule: Rule) -> str | None:
    """What a rule of somebody else lacks, as a clause; None: nothing."""
    try:
        if not _CODE.fullmatch(rule.code):
            return "its code is not of two or more capital letters and three digits, as ACME101"
        if not rule.title:
            return "its module has no docstring, which is its page"
        rule.limits.with_settings(
            {threshold.name: threshold.value for threshold in rule.thresholds}
        )
    except Exception as error:  # noqa: BLE001 - limits that are none, a function that is none
        return plugins.error_line(error)
    return None
