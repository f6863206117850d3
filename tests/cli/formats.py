"""Check that a report is valid in each format, and describe each flaw for tests."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as Xml

import jsonschema
import xmlschema
from markdown_it import MarkdownIt
from markdown_it.token import Token

from flowdiag.analyses.contract.report import Report
from flowdiag.analyses.report.transform import json_schema
from flowdiag.cli.render import brief, github, junit, markdown
from flowdiag.cli.render import json as json_
from flowdiag.cli.text.page import Page

PAGE = Page(width=100)
# A workflow command of GitHub with flowdiag's properties, none of which may end the command early.
_COMMAND = re.compile(
    r"::(error|warning|notice) (?:file=[^:,\r\n]+,)?(?:line=\d+,)?title=([^:,\r\n]+)::([^\r\n]+)"
)
_ESCAPES = re.compile(r"%(?!25|0A|0D|3A|2C)")
_MARKUP = re.compile(
    r"`|(?<!\w)@\w|<(?:[!@#&:/]|\w+:)|\x1b|[\u200b-\u200f\u202a-\u202e\u2066-\u2069]"
)


def invalid(report: Report) -> Iterator[str]:
    """Yield the flaws of a report in the formats for programs, tickets and chats."""
    checks = (_json, _junit, _markdown, _github, _brief)
    for check in checks:
        yield from (f"{check.__name__[1:]}: {flaw}" for flaw in check(report))


@cache
def _validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json_schema())


@cache
def _junit_schema() -> xmlschema.XMLSchema:
    return xmlschema.XMLSchema(str(Path(__file__).with_name("junit.xsd")))


def _json(report: Report) -> Iterator[str]:
    document = json.loads(json_.render(report, PAGE))
    yield from (
        f"{error.json_path}: {error.message}" for error in _validator().iter_errors(document)
    )


def _junit(report: Report) -> Iterator[str]:
    text = junit.render(report, PAGE)
    yield from (f"{error.path}: {error.reason}" for error in _junit_schema().iter_errors(text))
    suite = Xml.fromstring(text)
    cases = [(case.get("classname"), case.get("name")) for case in suite]
    if len(cases) != len(set(cases)):
        yield "two cases with the same name"
    if int(suite.get("tests", "-1")) != len(cases):
        yield "a wrong number of tests"


def _markdown(report: Report) -> Iterator[str]:
    """Check the headings and the width of table rows, and reject everything but text, lists and
    code."""
    text = markdown.render(report, PAGE)
    tokens = MarkdownIt("gfm-like", {"linkify": False, "html": True}).parse(text)
    levels = [int(token.tag[1:]) for token in tokens if token.type == "heading_open"]
    if levels[:1] != [1] or levels.count(1) != 1:
        yield f"headings {levels}"
    if any(after - before > 1 for before, after in pairwise(levels)):
        yield f"headings skip a level: {levels}"
    yield from _token_flaws(tokens)
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
        if len(widths) != 1:
            yield f"a table with rows of {sorted(widths)} bars"


def _token_flaws(tokens: list[Token]) -> Iterator[str]:
    for token in tokens:
        if token.type in ("html_block", "html_inline", "link_open", "image", "blockquote_open"):
            yield f"{token.type}: {token.content[:80]!r}"
        if token.type == "fence" and token.info != "text":
            yield f"a fence of {token.info!r}"
        yield from _token_flaws(token.children or [])


def _github(report: Report) -> Iterator[str]:
    for line in github.render(report, PAGE).splitlines():
        if not _COMMAND.fullmatch(line):
            yield f"not a command: {line[:120]!r}"
        if _ESCAPES.search(line):
            yield f"an unescaped percent sign: {line[:120]!r}"


def _brief(report: Report) -> Iterator[str]:
    text = brief.render(report, PAGE)
    if len(text) > brief.MOST:
        yield f"{len(text)} characters"
    first = text.partition("\n")[0]
    if report.summary.assessed and report.summary.verdict.value not in first:
        yield f"begins with {first!r}"
    if hit := _MARKUP.search(text):
        yield f"markup: {text[max(0, hit.start() - 20) : hit.end() + 20]!r}"
    if text != brief.render(report, PAGE):
        yield "differs when rendered again"
