"""The report as one web page: everything in it, nothing from elsewhere, no script that runs.

`render` puts together what the sections (`sections/`, listed by hand) make of the report; their templates
lie beside (`templates/`), their charts in `charts/`. docs/html.md says how the page is read, and why it is made so.

Log text is hostile: every value that a template shows is made printable and then escaped, in one place
(`_shown`, autoescape); charts get texts that are printable, and Vega escapes them; the policy in the page's
head forbids scripts, requests and every style but its own.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from flowdiag.analyses.report.redact import printable
from flowdiag.analyses.report.wire import Report
from flowdiag.cli.output.embedded import fit_report, report_script
from flowdiag.cli.render.html.context import Context, Section
from flowdiag.cli.render.html.figures import ChartRenderer
from flowdiag.cli.render.html.sections import SECTIONS
from flowdiag.cli.render.page import Page
from flowdiag.cli.text import words

EMBEDDED: Final = 600_000  # bytes of the report in the page
CHARTS: Final = 500_000  # bytes of all charts
_CULPRITS: Final = 5


def render(report: Report, page: Page) -> str:
    """The report as an HTML document."""
    clock = words.clock_of(report, page.zone)
    context = Context(
        report=report,
        page=page,
        clock=clock,
        paths=words.paths_of(report, page),
        renderer=ChartRenderer(room=CHARTS, faults=page.faults),
    )
    verdict = _apart(page, "verdict", lambda: _verdict(context))
    sections = [one for name, make in SECTIONS.items() for one in _section(name, make, context)]
    embedded, left_out = fit_report(report, EMBEDDED)
    footer = _apart(
        page,
        "footer",
        lambda: _filled(
            "footer.html",
            report=report,
            undrawn=context.renderer.left_out,
            unable=context.renderer.unable,
            left_out=left_out,
        ),
    )
    style = _filled("style.css")
    whole = _filled(
        "page.html",
        report=report,
        style=style,
        policy=_policy(style),
        sentence=words.verdict_sentence(report),
        verdict=verdict,
        sections=sections,
        footer=footer,
        embedded=Markup(report_script(embedded)),
    )
    return str(whole)  # no markup any more: whoever changes it must not have his text escaped


def _filled(template: str, **shown: Any) -> Markup:
    return Markup(_environment().get_template(template).render(**shown))


def _apart(page: Page, name: str, make: Callable[[], Markup]) -> Markup:
    """A part of the page, or a sentence in its place: a fault in it costs no other part."""
    return page.section(name, lambda: [make()], _sentence)[0]


def _sentence(text: str) -> Markup:
    return Markup("<p>{}</p>\n").format(printable(text))


def _section(
    name: str, make: Callable[[Context], Section | None], context: Context
) -> list[Mapping[str, Any]]:
    """A section as the page shows it; empty where the report has nothing for it."""

    def shown() -> Iterator[Mapping[str, Any]]:
        section = make(context)
        if section:
            body = _filled(f"{name}.html", section=section)
            yield {"name": name, "title": section.title, "count": section.count, "body": body}

    def instead(text: str) -> Mapping[str, Any]:
        return {"name": name, "title": name.capitalize(), "count": "", "body": _sentence(text)}

    return context.page.section(name, shown, instead)


def _verdict(context: Context) -> Markup:
    """What stands on top."""
    report = context.report
    return _filled(
        "verdict.html",
        report=report,
        sentence=words.verdict_sentence(report),
        span=words.time_span(report, context.clock),
        culprits=_culprits(context),
        steps=words.first_steps(report),
        known=words.baseline_lines(report),
        lacking=None if report.summary.assessed else words.missing_input(report),
    )


def _culprits(context: Context) -> tuple[list[dict[str, Any]], int]:
    """The first culprits as they are shown, and how many more there are."""
    ranked = words.ranked_culprits(context.report)
    several = words.has_several_jobs(context.report)
    shown = [
        {
            "said": words.compact(words.culprit_line(culprit)),
            "where": words.job_list(jobs, 20) if several and jobs else "",
            "code": culprit.code,
            "confidence": culprit.confidence,
        }
        for culprit, jobs in ranked[:_CULPRITS]
    ]
    return shown, len(ranked) - len(shown)


def _policy(style: str) -> str:
    """What a browser may do with the page: show it in its own style, and nothing else."""
    digest = b64encode(hashlib.sha256(style.encode()).digest()).decode()
    rules = (
        "default-src 'none'",
        f"style-src 'sha256-{digest}'",
        "base-uri 'none'",
        "form-action 'none'",
    )
    return "; ".join(rules)


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("flowdiag.cli.render.html"),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _shown(value: object) -> object:
    """A value as a template shows it: text without what reorders or hides."""
    if isinstance(value, Markup):
        return value
    return printable(value) if isinstance(value, str) else value
