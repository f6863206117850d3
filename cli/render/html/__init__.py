"""Renders a report as one self-contained web page without scripts.

`render` combines the sections (`sections/`) with their templates (`templates/`) and charts (`charts/`). docs/html.md
explains the page and its design.

Log text is untrusted. Every value of a template is made printable and escaped in one place (`_printable_value`,
autoescape). Charts get printable text, which Vega escapes. The content security policy of the page forbids scripts,
requests and foreign styles.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from flowdiag.analyses.contract.redact import printable
from flowdiag.analyses.contract.report import Report
from flowdiag.cli.render.html.context import Context, Section
from flowdiag.cli.render.html.embedded import fit_report, report_script
from flowdiag.cli.render.html.figures import ChartRenderer
from flowdiag.cli.render.html.sections import SECTIONS
from flowdiag.cli.text import words
from flowdiag.cli.text.page import Page

EMBEDDED: Final = 600_000  # bytes of the report in the page
CHARTS: Final = 500_000  # bytes of all charts
_CULPRITS: Final = 5


def render(report: Report, page: Page) -> str:
    """Return the report as an HTML document."""
    clock = words.clock_of(report, page.zone)
    context = Context(
        report=report,
        page=page,
        clock=clock,
        paths=words.paths_of(report, page),
        renderer=ChartRenderer(room=CHARTS, faults=page.faults),
    )
    verdict = _part(page, "verdict", lambda: _verdict(context))
    sections = [view for name, make in SECTIONS.items() for view in _section(name, make, context)]
    embedded, left_out = fit_report(report, EMBEDDED)
    footer = _part(
        page,
        "footer",
        lambda: _fill(
            "footer.html",
            report=report,
            omitted_charts=context.renderer.omitted,
            unable=context.renderer.error,
            left_out=left_out,
        ),
    )
    style = _fill("style.css")
    digest = b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = (  # the page may only use its own style
        "default-src 'none'",
        f"style-src 'sha256-{digest}'",
        "base-uri 'none'",
        "form-action 'none'",
    )
    whole = _fill(
        "page.html",
        report=report,
        style=style,
        policy="; ".join(policy),
        sentence=words.verdict_sentence(report),
        verdict=verdict,
        sections=sections,
        footer=footer,
        embedded=Markup(report_script(embedded)),
    )
    return str(whole)  # a plain str: adding text to Markup would escape it


def _fill(template: str, **shown: Any) -> Markup:
    return Markup(_environment().get_template(template).render(**shown))


def _part(page: Page, name: str, make: Callable[[], Markup]) -> Markup:
    """Return a part of the page or, if it fails, an error message, so that one bug does not hide the rest."""
    return page.section(name, lambda: [make()], _sentence)[0]


def _sentence(text: str) -> Markup:
    return Markup("<p>{}</p>\n").format(printable(text))


def _section(
    name: str, make: Callable[[Context], Section | None], context: Context
) -> list[Mapping[str, Any]]:
    """Return a section for the template, or an empty list if the report has no data for it."""

    def views() -> Iterator[Mapping[str, Any]]:
        section = make(context)
        if section:
            body = _fill(f"{name}.html", section=section)
            yield {"name": name, "title": section.title, "count": section.count, "body": body}

    def instead(text: str) -> Mapping[str, Any]:
        return {"name": name, "title": name.capitalize(), "count": "", "body": _sentence(text)}

    return context.page.section(name, views, instead)


def _verdict(context: Context) -> Markup:
    report = context.report
    return _fill(
        "verdict.html",
        report=report,
        sentence=words.verdict_sentence(report),
        span=words.time_span(report, context.clock),
        culprits=_culprits(context),
        steps=words.first_steps(report),
        baseline=words.baseline_lines(report),
        missing_input=None if report.summary.assessed else words.missing_input(report),
    )


def _culprits(context: Context) -> tuple[list[dict[str, Any]], int]:
    """Return the first culprits for the template, and the number of further ones."""
    ranked = words.ranked_culprits(context.report)
    several = words.has_several_jobs(context.report)
    shown = [
        {
            "text": words.compact(words.culprit_line(culprit)),
            "where": words.job_list(jobs, 20) if several and jobs else "",
            "code": culprit.code,
            "confidence": culprit.confidence,
        }
        for culprit, jobs in ranked[:_CULPRITS]
    ]
    return shown, len(ranked) - len(shown)


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("flowdiag.cli.render.html"),
        autoescape=True,
        finalize=_printable_value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _printable_value(value: object) -> object:
    """Escape the characters of a template value that reorder or hide text."""
    if isinstance(value, Markup):
        return value
    return printable(value) if isinstance(value, str) else value
