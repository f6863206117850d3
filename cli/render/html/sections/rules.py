"""The section about rules: their status, and the reasons of inconclusive ones."""

from __future__ import annotations

from typing import Final

from flowdiag.cli.render.html.context import Context, Section
from flowdiag.cli.render.html.figures import table
from flowdiag.cli.text import words
from flowdiag.cli.text.grid import Column

_COLUMNS: Final = (
    Column("rule", lambda rule: rule.code, "left"),
    Column("name", lambda rule: rule.name, "left"),
    Column("status", lambda rule: rule.status, "left"),
    Column("reason", lambda rule: rule.reason or rule.title, "left"),
)


def section(context: Context) -> Section | None:
    """Return the rules, or None for a report without rules."""
    report, rules = context.report, context.report.rules
    if not rules:
        return None
    by_reason: dict[str, list[str]] = {}
    for rule in words.inconclusive_rules(rules):
        by_reason.setdefault(rule.reason or rule.title, []).append(f"{rule.code} {rule.name}")
    topics = [
        (topic.topic, topic.reason or "the inputs contain no data of this topic")
        for topic in report.topics
        if topic.status != "assessed"
    ]
    return Section(
        title="Not assessed" if by_reason or topics else "Rules",
        count=words.rule_tally(rules),
        shown={
            "topics": topics if len(report.topics) > 1 else [],
            "inconclusive": [(reason, ", ".join(names)) for reason, names in by_reason.items()],
            "ignored": words.ignored_rules(rules),
            "rules": table(_COLUMNS, rules, len(rules)),
        },
    )
