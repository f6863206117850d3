"""What every rule came to, and which could not tell."""

from __future__ import annotations

from flowdiag.cli.render.html.context import Context, Section
from flowdiag.cli.render.html.figures import Table
from flowdiag.cli.text import words


def section(context: Context) -> Section | None:
    """The rules; None where none was asked."""
    report, rules = context.report, context.report.rules
    if not rules:
        return None
    clear = sum(rule.status == "clear" for rule in rules)
    void = sum(rule.status == "not-assessed" for rule in rules)
    alike: dict[str, list[str]] = {}
    for rule in words.inconclusive_rules(rules):
        alike.setdefault(rule.reason or rule.title, []).append(f"{rule.code} {rule.name}")
    topics = [
        (topic.topic, topic.reason or "the inputs hold nothing that it judges")
        for topic in report.topics
        if topic.status != "assessed"
    ]
    rows = [(rule.code, rule.name, rule.status, rule.reason or rule.title) for rule in rules]
    told = f"{clear} of {len(rules)} rules are clear"
    return Section(
        title="What could not be assessed" if alike or topics else "Rules",
        count=told + (f", {void} had nothing to judge" if void else ""),
        shown={
            "topics": topics if len(report.topics) > 1 else [],
            "unsettled": [(reason, ", ".join(names)) for reason, names in alike.items()],
            "ignored": words.ignored_rules(rules),
            "rules": Table(heads=("rule", "name", "came to", "why"), rows=rows),
        },
    )
