"""Renders a comparison as GitHub workflow commands: the result, then the changes."""

from __future__ import annotations

from collections.abc import Iterator

from flowdiag.analyses.comparison.wire import Change, Comparison, FindingChange
from flowdiag.analyses.model import finding as f
from flowdiag.cli.render.comparison import wording
from flowdiag.cli.render.github import command
from flowdiag.cli.text.page import Page


def render(comparison: Comparison, page: Page) -> str:
    """Return a line for the result, for each changed finding, and for each changed measure."""
    return "".join(f"{line}\n" for line in _lines(comparison))


def _lines(comparison: Comparison) -> Iterator[str]:
    level = "notice" if comparison.conclusive else "warning"
    if comparison.regression:
        level = "error"
    text = f"{wording.conclusion(comparison)}. {wording.verdict_change(comparison)}"
    yield command(level, "flowdiag compare", text)
    for change in comparison.findings:
        if change.change is not Change.UNCHANGED:
            title = f"{wording.change_word(change)}: {change.code} {change.name}"
            text = "\n".join([wording.title(change), *wording.details(change)])
            yield command(_level(change), title, text)
    for measure in wording.significant_measures(comparison):
        text = (
            f"{wording.measured_subject(measure)}: {wording.value_text(measure.before, measure.unit)}"
            f" before, {wording.value_text(measure.after, measure.unit)} after"
        )
        level = "error" if measure.change == "worse" else "notice"
        yield command(level, f"{measure.change}: {wording.measure_name(measure)}", text)


def _level(change: FindingChange) -> str:
    quiet = change.muted or wording.current(change).severity is f.Severity.INFO
    if change.change in (Change.NEW, Change.WORSE):
        return "notice" if quiet else "error"
    return "warning" if change.change is Change.NOT_COMPARABLE and not quiet else "notice"
