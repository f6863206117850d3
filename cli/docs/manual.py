"""Renders the pages of rules, with the same text for the terminal and docs/rules.md."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from typing import Any, Final

from flowdiag.analyses.knowledge.causes import CAUSES
from flowdiag.analyses.model.choice import nearest_rule
from flowdiag.analyses.model.rule import HEADINGS, Rule, sections
from flowdiag.analyses.topic_names import ENGINES
from flowdiag.analyses.topics import all_rules, brought_by, own_rules_of, rules_of
from flowdiag.cli.output.console import print_message, use_colour, write_report
from flowdiag.cli.text.words import quantity
from flowdiag.parsers.errors import FlowdiagError

_FILLED: Final = re.compile(r"\{\w+\}")
_BOLD: Final = ("\x1b[1m", "\x1b[0m")


def warn_of_plugins() -> None:
    """Print a warning about each rejected plug-in."""
    from flowdiag.parsers import plugins

    all_rules()
    if plugins.messages():  # the check imports the whole catalogue
        from flowdiag.parsers.catalogue import unusable_plugins

        unusable_plugins()
    for text in plugins.skipped_plugins():
        print_message("warning", text)


def find_rule(word: str) -> Rule:
    """Return a rule by its code or name.

    Raises:
        FlowdiagError: no such rule exists.
    """
    known = {key.lower(): rule for rule in all_rules() for key in (rule.code, rule.name)}
    if word.lower() in known:
        return known[word.lower()]
    near = nearest_rule(word, all_rules())
    hint = f"did you mean {near.code} ({near.name})?" if near else None
    raise FlowdiagError(f"there is no rule '{word}'", hint=hint or "flowdiag rules lists all")


def list_of_rules() -> str:
    """Return one line per rule: code, name, title."""
    width = max((len(rule.name) for rule in all_rules()), default=0)
    return "".join(f"{rule.code}  {rule.name:<{width}}  {rule.title}\n" for rule in all_rules())


def rules_as_json() -> str:
    """Return a JSON list of rules with the content of `explain`."""
    topics = {rule.code: (name, rule) for name in reversed(ENGINES) for rule in rules_of(name)}
    rules = [_as_json(*topics[rule.code]) for rule in all_rules()]
    return json.dumps(rules, indent=2, ensure_ascii=False) + "\n"


def _as_json(command: str, rule: Rule) -> dict[str, Any]:
    parts = sections(rule.page)
    return {
        "code": rule.code,
        "name": rule.name,
        "title": rule.title,
        "command": command,
        "core": rule.core,
        "causes": list(rule.causes),
        "plugin": brought_by(rule),
        "thresholds": [
            {"name": t.name, "value": t.value, "unit": t.unit, "why": t.why}
            for t in rule.thresholds
        ],
        "votes": [{"signal": s.name, "weight": s.weight, "why": s.why} for s in rule.signals],
        "page": {_field(title): parts[title] for title in HEADINGS if parts.get(title)},
    }


def _field(heading: str) -> str:
    """Convert a heading to a JSON key.

    >>> _field("How it decides")
    'how_it_decides'
    """
    return heading.lower().replace(" ", "_")


def rule_page(rule: Rule) -> str:
    """Render a rule: its page, thresholds, votes and causes."""
    return "\n".join(_lines(rule, heading="{}", item="  {}")) + "\n"


def rules_document() -> str:
    """Render docs/rules.md."""
    # Topics may share a rule: it is listed once, with the first of them.
    rules = [*{rule.code: rule for name in ENGINES for rule in own_rules_of(name)}.values()]
    lines = [
        "# The rules",
        "",
        "Generated from the rules; `flowdiag explain CODE` prints the same.",
        "",
        "| code | name | finding | core |",
        "|---|---|---|---|",
        *(
            f"| [{rule.code}](#{rule.code.lower()}-{rule.name}) | {rule.name} | {rule.title}"
            f" | {'yes' if rule.core else ''} |"
            for rule in rules
        ),
        "",
        "If a core rule is inconclusive, so is the verdict.",
        "",
    ]
    lines += [
        "## Causes",
        "",
        "The values of `summary.cause`. Later versions may add new ones.",
        "",
    ]
    lines += ["| cause | meaning |", "|---|---|"]
    lines += [f"| `{word}` | {cause.meaning} |" for word, cause in CAUSES.items()]
    lines += [""]
    for rule in rules:
        lines += [f"## {rule.code} {rule.name}", ""]
        lines += [*_lines(rule, heading="### {}", item="- {}", title=False), ""]
    return "\n".join(lines).rstrip() + "\n"


def show(text: str, output: str | None = None) -> None:
    """Write a page to a file or to stdout, with bold headings on a terminal.

    Raises:
        FlowdiagError: the file cannot be written.
    """
    if output in (None, "-") and use_colour(sys.stdout):
        bold = {*HEADINGS, "Thresholds", "Votes", "Causes", text.split("\n", 1)[0]}
        text = "".join(
            f"{_BOLD[0]}{line.rstrip()}{_BOLD[1]}\n" if line.rstrip() in bold else line
            for line in text.splitlines(keepends=True)
        )
    write_report(text, output)


def _lines(rule: Rule, *, heading: str, item: str, title: bool = True) -> Iterator[str]:
    parts = sections(rule.page)
    if title:
        yield from (f"{rule.code} {rule.name}", "")
    yield from (parts.get("") or rule.title, "")
    for name in HEADINGS:
        if parts.get(name):
            yield from (heading.format(name), "", parts[name], "")
    if rule.thresholds:
        yield from (heading.format("Thresholds"), "")
        for threshold in rule.thresholds:
            value = quantity(threshold.value, threshold.unit)
            yield item.format(f"{threshold.name} = {value}: {threshold.why}")
        yield ""
    if rule.signals:
        yield from (heading.format("Votes"), "")
        for signal in rule.signals:
            yield item.format(f"{signal.weight:+d} {signal.name}: {signal.why}")
        yield ""
    if rule.causes:
        yield from (heading.format("Causes"), "")
        for word in rule.causes:
            yield from (item.format(line) for line in _cause(word))
        yield ""


def _cause(word: str) -> Iterator[str]:
    """Yield the meaning and the remedies of a cause, with … for the values that a rule fills in."""
    if word not in CAUSES:  # from a plug-in
        yield word
        return
    cause = CAUSES[word]
    yield f"{word}: {cause.meaning}"
    for remedy in cause.remedies.values():
        yield f"{word}, to do: {_FILLED.sub('…', remedy.text)}"
