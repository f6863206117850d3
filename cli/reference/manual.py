"""Renders the pages of rules, with the same text for the terminal and docs/rules.md."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, Final

from flowdiag.analyses.knowledge.causes import CAUSES, CHECKS
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.finding import Severity
from flowdiag.analyses.model.rule import HEADINGS, Rule, sections
from flowdiag.analyses.report.suggestions import command_of, phrase_of
from flowdiag.analyses.selection.choice import matches_rule
from flowdiag.analyses.topic_names import ENGINES
from flowdiag.analyses.topics import all_rules, own_rules_of, providing_package, rules_of
from flowdiag.cli.output.console import print_message, use_color, write_report
from flowdiag.cli.reference.components import pages_about
from flowdiag.cli.text.words import quantity
from flowdiag.parsers.errors import FlowdiagError

_FILLED: Final = re.compile(r"\{\w+\}")
_LINK: Final = re.compile(r"\[([^\]]+)\]\([^)]*\)")
_TO_DO: Final = HEADINGS[3]
_UP_TO: Final = {
    Severity.CRITICAL: "up to critical",
    Severity.WARNING: "up to warning",
    Severity.INFO: "info only",
}
_BOLD: Final = ("\x1b[1m", "\x1b[0m")


def warn_of_plugins() -> None:
    """Print a warning about each rejected plug-in, because a rejected plug-in can explain an unknown rule."""
    from flowdiag.parsers import plugins

    all_rules()
    if plugins.messages():  # the check imports the whole catalogue
        from flowdiag.parsers.catalogue import unusable_plugins

        unusable_plugins()
    for text in plugins.skipped_plugins():
        print_message("warning", text)


def explanation(words: str) -> str:
    """Return the pages about a rule (by code or name), a cause, a code in failure texts, or a component.

    Raises:
        FlowdiagError: nothing has that name.
    """
    word = words.lower()
    found = [rule_page(rule) for rule in all_rules() if word in (rule.code.lower(), rule.name)]
    if word in CAUSES:
        found.append("\n".join(_cause_lines(word)) + "\n")
    found = found or pages_about(words)
    if not found:
        raise FlowdiagError(
            f"there is no rule, cause, code or component '{words}'", hint=_nearest_name(word)
        )
    return "\n\n".join(found)


def _nearest_name(word: str) -> str:
    """Return the rule, cause or command that is most similar to a word, as a hint."""
    rules = {key.lower(): key for rule in all_rules() for key in (rule.code, rule.name)}
    known = {**rules, **{key: key for key in (*CAUSES, *ENGINES)}}
    near = get_close_matches(word.lower(), known, n=1)
    return f"did you mean '{known[near[0]]}'?" if near else "flowdiag rules lists all rules"


def rules_about(words: Sequence[str]) -> list[tuple[str, Rule]]:
    """Return the rules that match any word (code, prefix, name, cause or command), or all rules, with their
    commands.

    Raises:
        FlowdiagError: a word matches no rule.
    """
    commands = {rule.code: name for name in reversed(ENGINES) for rule in rules_of(name)}
    listed = [(commands[rule.code], rule) for rule in all_rules()]

    def matches(word: str, command: str, rule: Rule) -> bool:
        return matches_rule(word, rule) or word.lower() in (command, *rule.causes)

    for word in words:
        if not any(matches(word, *each) for each in listed):
            raise FlowdiagError(f"no rule is about '{word}'", hint=_nearest_name(word))
    return [each for each in listed if not words or any(matches(word, *each) for word in words)]


def list_of_rules(listed: Sequence[tuple[str, Rule]]) -> str:
    """Return one line per rule with code, name and title, grouped by command and severity."""
    width = max((len(rule.name) for _, rule in listed), default=0)
    groups = []
    for command in ENGINES:
        rules = [rule for name, rule in listed if name == command]
        if rules:
            text = f"flowdiag {command}: {fmt.plural(len(rules), 'rule')}\n"
            groups.append(text + "".join(_lines_by_severity(rules, width)))
    return "\n".join(groups)


def _lines_by_severity(rules: Sequence[Rule], width: int) -> Iterator[str]:
    for severity in _UP_TO:
        group = [rule for rule in rules if rule.severity is severity]
        if group:
            yield f"  {_UP_TO[severity]}\n"
        for rule in group:
            yield f"    {rule.code}  {rule.name:<{width}}  {rule.title}\n"


def rules_as_json(listed: Sequence[tuple[str, Rule]]) -> str:
    """Return a JSON list of rules with the content of `explain`."""
    rules = [_as_json(*each) for each in listed]
    return json.dumps(rules, indent=2, ensure_ascii=False) + "\n"


def _as_json(command: str, rule: Rule) -> dict[str, Any]:
    parts = sections_of(rule)
    return {
        "code": rule.code,
        "name": rule.name,
        "title": rule.title,
        "command": command,
        "severity": rule.severity,
        "core": rule.core,
        "causes": list(rule.causes),
        "plugin": providing_package(rule),
        "thresholds": [
            {"name": t.name, "value": t.value, "unit": t.unit, "why": t.why}
            for t in rule.thresholds
        ],
        "votes": [{"signal": s.name, "weight": s.weight, "why": s.why} for s in rule.signals],
        "page": {_field(title): parts[title] for title in HEADINGS if parts.get(title)},
    }


def sections_of(rule: Rule) -> dict[str, str]:
    """Return the sections of a rule's page. A page without advice gets the remedies of the rule's causes."""
    parts = sections(rule.page)
    if _TO_DO not in parts:
        known = (word for word in rule.causes if word in CAUSES)
        parts[_TO_DO] = "\n".join(f"- {text}" for word in known for text in _remedies(word))
    return parts


def _field(heading: str) -> str:
    """Convert a heading to a JSON key.

    >>> _field("How it decides")
    'how_it_decides'
    """
    return heading.lower().replace(" ", "_")


def rule_page(rule: Rule) -> str:
    """Render a rule: up to five lines on what to do first, then its page, thresholds, votes and causes."""
    details = [*rule_lines(rule, heading="{}", item="  {}", title=False)]
    details = details[2:] if details[0] == rule.title + "." else details
    summary = _summary_of_rule(rule)
    return "\n".join([f"{rule.code} {rule.name}", "", *summary, "", *details]) + "\n"


def _summary_of_rule(rule: Rule) -> list[str]:
    """Return up to five lines on what to do first, taken from the sections of the page."""
    parts = sections_of(rule)
    engine = "spark" if rule.code.startswith("RT") else "flink"
    causes = [word for word in rule.causes if word in CAUSES]
    lines = {
        "means": rule.title,
        "matters": _first_sentence(parts.get("Why it matters", "")),
        "do": _first_sentence(parts.get(_TO_DO, "")),
        "check": _check_line(causes[0], engine) if causes else "",
        "beware": _first_sentence(parts.get("False alarms", "")),
    }
    return [f"{label:<9}{text}" for label, text in lines.items() if text]


def _cause_lines(word: str) -> Iterator[str]:
    """Yield up to five lines on what to do first, then the checks and remedies of a cause."""
    cause = CAUSES[word]
    codes = [rule.code for rule in all_rules() if word in rule.causes]
    remedies = _remedies(word)
    lines = {
        "means": cause.meaning,
        "rules": ", ".join(codes),
        "do": remedies[0] if remedies else "",
        "check": _check_line(word, None),
        "then": f"find out {cause.open_question}" if cause.open_question else "",
    }
    yield from (f"Cause {word}", "")
    yield from (f"{label:<9}{text}" for label, text in lines.items() if text)
    if cause.explanation:
        yield from ("", cause.explanation)
    if remedies:
        yield from ("", _TO_DO, "")
        yield from (f"  {number}. {text}" for number, text in enumerate(remedies, 1))
    yield from ("", "Evidence")
    for name, (confirms, refutes) in cause.checks.items():
        yield from ("", f"  {fmt.capital(phrase_of(name))}: {command_of(name)}")
        yield from (f"    confirms it if {confirms}", f"    rules it out if {refutes}")


def markdown_page(word: str) -> str:
    """Return the page of a rule, by its code or name, or of a cause, as on the documentation site but without links.

    Raises:
        FlowdiagError: nothing has that name.
    """
    key = word.lower()
    pages = [page_of(rule) for rule in all_rules() if key in (rule.code.lower(), rule.name)]
    if key in CAUSES:
        pages.append(cause_page(key))
    if not pages:
        raise FlowdiagError(f"there is no rule or cause '{word}'", hint=_nearest_name(key))
    return _LINK.sub(r"\1", "\n".join(pages))


def page_of(rule: Rule) -> str:
    """Return a rule as a Markdown page."""
    body = rule_lines(rule, heading="## {}", item="- {}", title=False)
    return "\n".join([f"# {rule.code} {rule.name}", "", *body]).rstrip() + "\n"


def cause_page(word: str) -> str:
    """Return a cause as a Markdown page: its meaning, rules, remedies, and the evidence for and against it."""
    cause = CAUSES[word]
    lines = [f"# {word}", "", f"{fmt.capital(cause.meaning)}.", ""]
    if cause.explanation:
        lines += [_FILLED.sub("…", cause.explanation), ""]
    codes = [rule.code for rule in all_rules() if word in rule.causes]
    if codes:
        links = ", ".join(f"[{code}](../rules/{code}.md)" for code in codes)
        lines += [f"Reported by {links}.", ""]
    if cause.remedies:
        lines += [f"## {_TO_DO}", ""]
        texts = (_FILLED.sub("…", remedy.text) for remedy in cause.remedies.values())
        lines += [*(f"{number}. {text}" for number, text in enumerate(texts, 1)), ""]
    if cause.checks:
        lines += ["## Evidence", ""]
    for name, (confirms, refutes) in cause.checks.items():
        lines += [f"- {fmt.capital(phrase_of(name))}: `{command_of(name)}`"]
        lines += [f"    - confirms it if {confirms}", f"    - rules it out if {refutes}"]
    return "\n".join(lines).rstrip() + "\n"


def _first_sentence(text: str) -> str:
    """Return the first sentence of a text in one line.

    >>> _first_sentence("- Add slots. Or\\nwait.")
    'Add slots.'
    """
    first = re.split(r"\n\n|\n- ", text, maxsplit=1)[0]
    flat = " ".join(first.split()).removeprefix("- ").removeprefix("1. ")
    return re.split(r"(?<=[.!?])\s", flat, maxsplit=1)[0]


def _check_line(word: str, engine: str | None) -> str:
    """Return the cheapest check of a cause, with the result that confirms it."""
    checks = CAUSES[word].checks
    usable = [n for n in checks if engine is None or CHECKS[n].engine in (None, engine)]
    if not usable:
        return ""
    name = min(usable, key=lambda name: CHECKS[name].cost)
    return f"get {phrase_of(name)}. The cause is {word} if {checks[name][0]}"


def rules_document() -> str:
    """Render docs/rules.md."""
    # Topics may share a rule. List it once, under the first of them.
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
        "The values of `summary.cause`. Later versions may add new values.",
        "",
    ]
    lines += ["| cause | meaning |", "|---|---|"]
    lines += [f"| `{word}` | {cause.meaning} |" for word, cause in CAUSES.items()]
    lines += [""]
    for rule in rules:
        lines += [f"## {rule.code} {rule.name}", ""]
        lines += [*rule_lines(rule, heading="### {}", item="- {}", title=False), ""]
    return "\n".join(lines).rstrip() + "\n"


def show(text: str, output: str | None = None) -> None:
    """Write a page to a file or to stdout, with bold headings on a terminal.

    Raises:
        FlowdiagError: the file cannot be written.
    """
    if output in (None, "-") and use_color(sys.stdout):
        bold = {*HEADINGS, "Thresholds", "Votes", "Causes", "Evidence", text.split("\n", 1)[0]}
        text = "".join(
            f"{_BOLD[0]}{line.rstrip()}{_BOLD[1]}\n" if line.rstrip() in bold else line
            for line in text.splitlines(keepends=True)
        )
    write_report(text, output)


def rule_lines(rule: Rule, *, heading: str, item: str, title: bool = True) -> Iterator[str]:
    """Yield the lines of a rule's page, thresholds, votes and causes.

    Args:
        rule: the rule.
        heading, item: templates of a heading and of a list item.
        title: whether the code and name come first.
    """
    parts = sections_of(rule)
    if title:
        yield from (f"{rule.code} {rule.name}", "")
    yield from (parts.get("") or rule.title, "")
    for name in HEADINGS:
        if parts.get(name):
            yield from (heading.format(name), "", parts[name], "")
    if rule.thresholds:
        yield from (heading.format("Thresholds"), "")
        for threshold in rule.thresholds:
            value = quantity(threshold.value, threshold.unit, exact=True)
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
            lines = _cause(word, remedies=_TO_DO in sections(rule.page))
            yield from (item.format(line) for line in lines)
        yield ""


def _cause(word: str, *, remedies: bool) -> Iterator[str]:
    """Yield the meaning of a cause, and its remedies if requested."""
    if word not in CAUSES:  # from a plug-in
        yield word
        return
    yield f"{word}: {CAUSES[word].meaning}"
    if remedies:
        yield from (f"{word}, to do: {text}" for text in _remedies(word))


def _remedies(word: str) -> list[str]:
    """Return the remedies of a cause. Values that a rule would fill in appear as …."""
    texts = (_FILLED.sub("…", remedy.text) for remedy in CAUSES[word].remedies.values())
    return list(dict.fromkeys(texts))
