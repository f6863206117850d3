"""The comparison as GitHub workflow commands: what it comes to, then what changed for the worse."""

from __future__ import annotations

from collections.abc import Iterator

from flowdiag.analyses.comparison.wire import Change, Comparison, FindingChange
from flowdiag.analyses.model import finding as f
from flowdiag.cli.render.comparison import wording
from flowdiag.cli.render.github import command
from flowdiag.cli.render.page import Page


def render(comparison: Comparison, page: Page) -> str:
    """One line for what it comes to, one per finding that changed, one per measure that did."""
    return "".join(f"{line}\n" for line in _lines(comparison))


def _lines(comparison: Comparison) -> Iterator[str]:
    level = "notice" if comparison.conclusive else "warning"
    if comparison.regression:
        level = "error"
    told = f"{wording.conclusion(comparison)}. {wording.verdict_change(comparison)}"
    yield command(level, "flowdiag compare", told)
    for one in comparison.findings:
        if one.change is not Change.UNCHANGED:
            title = f"{wording.change_word(one)}: {one.code} {one.name}"
            yield command(
                _level(one), title, "\n".join([wording.title(one), *wording.details(one)])
            )
    for measure in wording.significant_measures(comparison):
        text = (
            f"{wording.measured_subject(measure)}: {wording.value_text(measure.before, measure.unit)} before,"
            f" {wording.value_text(measure.after, measure.unit)} after"
        )
        level = "error" if measure.change == "worse" else "notice"
        yield command(level, f"{measure.change}: {wording.measure_name(measure)}", text)


def _level(one: FindingChange) -> str:
    quiet = one.muted or wording.current(one).severity is f.Severity.INFO
    if one.change in (Change.NEW, Change.WORSE):
        return "notice" if quiet else "error"
    return "warning" if one.change is Change.NOT_COMPARABLE and not quiet else "notice"
