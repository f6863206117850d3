"""The comparison for a ticket or `$GITHUB_STEP_SUMMARY`: short, and safe to paste."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from flowdiag.analyses.comparison.wire import Change, Comparison
from flowdiag.cli.render.comparison import wording
from flowdiag.cli.render.markdown import escaped
from flowdiag.cli.render.page import Page

_FINDINGS: Final = 20
_MEASURES: Final = 20


def render(comparison: Comparison, page: Page) -> str:
    """The comparison as GitHub-flavoured Markdown."""
    return "\n".join(_lines(comparison, page)) + "\n"


def _lines(comparison: Comparison, page: Page) -> Iterator[str]:
    yield f"# flowdiag compare: {escaped(wording.conclusion(comparison))}"
    yield ""
    yield f"Verdict: {escaped(wording.verdict_change(comparison))}"
    yield ""
    yield f"- before: {escaped(wording.side_line(comparison.before))}"
    yield f"- after: {escaped(wording.side_line(comparison.after))}"
    yield ""
    yield from ("## Findings", "", f"{escaped(wording.tally(comparison.findings))}", "")
    changed = [
        one for one in comparison.findings if page.verbose or one.change is not Change.UNCHANGED
    ]
    if changed:
        shown = changed if page.verbose else changed[:_FINDINGS]
        yield from _table(
            ("", "", "", "finding"),
            [
                (
                    wording.change_word(one),
                    wording.current(one).severity.value,
                    one.code,
                    " · ".join([wording.title(one), *wording.details(one)]),
                )
                for one in shown
            ],
        )
        yield from _more(len(changed) - len(shown))
    yield from ("## Measures", "", f"{escaped(wording.measure_tally(comparison))}", "")
    claimed = wording.significant_measures(comparison)
    if claimed:
        listed = claimed if page.verbose else claimed[:_MEASURES]
        yield from _table(
            ("measure", "of", "before", "after", "change", "by chance"),
            [
                (
                    wording.measure_name(one),
                    wording.measured_subject(one),
                    wording.value_text(one.before, one.unit),
                    wording.value_text(one.after, one.unit),
                    wording.change_text(one),
                    wording.chance_text(one),
                )
                for one in listed
            ],
        )
        yield from _more(len(claimed) - len(listed))
    if comparison.doubts:
        yield from ("## Not comparable", "")
        yield from (f"- {escaped(doubt)}" for doubt in comparison.doubts[:_FINDINGS])
        yield ""


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(map(escaped, row))} |"
    yield ""


def _more(hidden: int) -> Iterator[str]:
    if hidden > 0:
        yield from (f"and {hidden} more", "")
