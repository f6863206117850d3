"""Formats comparisons for readers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from rich.text import Text

from flowdiag.analyses.comparison import wire as w
from flowdiag.analyses.model import fmt
from flowdiag.cli.text import words
from flowdiag.cli.text.grid import Column

_TALLIED: Final = (
    w.Change.NEW,
    w.Change.WORSE,
    w.Change.MOVED,
    w.Change.GONE,
    w.Change.BETTER,
    w.Change.UNCHANGED,
    w.Change.NOT_COMPARABLE,
)
_SIGNIFICANT: Final = (w.Trend.WORSE, w.Trend.DIFFERENT, w.Trend.BETTER)


def current(change: w.FindingChange) -> w.Seen:
    """Return the finding of the later report or, if that finding is gone, of the earlier report."""
    seen = change.after or change.before
    assert seen is not None
    return seen


def title(change: w.FindingChange) -> str:
    return words.compact(current(change).title)


def details(change: w.FindingChange) -> list[str]:
    """Return where a finding moved, the reason for its status, and whether the baseline mutes it."""
    lines = []
    if change.moved and change.before is not None and change.after is not None:
        before, after = (words.subject_name(s.subject) for s in (change.before, change.after))
        lines.append(f"moved from {before} to {after}")
    if change.reason:
        lines.append(change.reason)
    if change.muted:
        lines.append("muted by the baseline")
    return lines


def change_word(change: w.FindingChange) -> str:
    return change.change.value.replace("-", " ")


def tally(changes: Sequence[w.FindingChange]) -> str:
    counts = Counter(each.change for each in changes)
    parts = [f"{counts[kind]} {kind.value.replace('-', ' ')}" for kind in _TALLIED if counts[kind]]
    return ", ".join(parts) or "none in either report"


def significant_measures(comparison: w.Comparison) -> list[w.Measure]:
    """Return the measures that changed, worse measures first."""
    changed = [each for each in comparison.measures if each.significant]
    return sorted(changed, key=lambda each: _SIGNIFICANT.index(each.change))


def measure_tally(comparison: w.Comparison) -> str:
    """Return the number of measures per trend, of the measures in both reports."""
    both = [each for each in comparison.measures if None not in (each.before, each.after)]
    if not both:
        return "none in both reports"
    counts = Counter(each.change for each in both)
    parts = [f"{counts[trend]} {trend.value}" for trend in _SIGNIFICANT if counts[trend]]
    if counts[w.Trend.SAME]:
        parts.append(f"{counts[w.Trend.SAME]} unchanged")
    if counts[w.Trend.UNKNOWN]:
        parts.append(f"{counts[w.Trend.UNKNOWN]} with too few values")
    return f"{len(both)} compared: {', '.join(parts)}"


def measure_name(measure: w.Measure) -> str:
    return measure.name.replace("-", " ")


def measured_subject(measure: w.Measure) -> str:
    """Return the option, task, stream, query or job that was measured."""
    subject = measure.subject
    if subject.option is not None:
        return f"{subject.kind} {subject.option}"
    if subject.task is not None:
        return subject.task
    if subject.stream_id is not None:
        return f"stream {subject.stream_id}"
    return subject.query or subject.job_name or subject.kind


def value_text(amount: float | None, unit: str) -> str:
    return "-" if amount is None else words.quantity(amount, unit)


def chance_text(measure: w.Measure) -> str:
    """Return the probability that chance alone causes the difference."""
    if measure.p_adjusted is None:
        return "-"
    return "below 0.01%" if measure.p_adjusted < 1e-4 else f"{100 * measure.p_adjusted:.2g}%"


def change_text(measure: w.Measure) -> str:
    """Return the factor by which a measure changed, and its trend."""
    by = ""
    if measure.significant and measure.unit != "share" and measure.ratio is not None:
        by = f"{words.quantity(measure.ratio, 'ratio')} "
    return f"{by}{measure.change.value}"


def side_line(side: w.Side) -> str:
    """Return one line about a report: its source, jobs and period."""
    parts = [side.source]
    if side.jobs:
        parts.append(fmt.listed([fmt.shorten(job, 40) for job in side.jobs[:3]]))
    if side.first and side.last:
        first, last = (instant[:16].replace("T", " ") for instant in (side.first, side.last))
        same_day = first[:10] == last[:10]
        parts.append(f"{first} to {last[11:] if same_day else last} UTC")
    return " · ".join(parts)


def _verdict(side: w.Side) -> str:
    if not side.assessed:
        return "not assessed"
    return f"{side.verdict.value}" + (f" ({side.cause})" if side.cause else "")


def conclusion(comparison: w.Comparison) -> str:
    if comparison.regression:
        return f"regression: {'; '.join(comparison.because)}"
    if not comparison.conclusive:
        return f"inconclusive: {comparison.doubts[0]}"
    if any(each.change is not w.Change.UNCHANGED for each in comparison.findings):
        return "no regression"
    return "no regression" if significant_measures(comparison) else "no change"


def verdict_change(comparison: w.Comparison) -> str:
    """Return the verdicts of both reports; terminals without Unicode show the arrow as `>`."""
    old, new = _verdict(comparison.before), _verdict(comparison.after)
    return f"still {new}" if old == new else f"{old} → {new}"


_STYLES: Final = {w.Trend.WORSE: "bold red", w.Trend.BETTER: "green", w.Trend.UNKNOWN: "dim"}
MEASURE_COLUMNS: Final = (
    Column("measure", measure_name, "left"),
    Column("of", measured_subject, "wrap"),
    Column("before", lambda measure: value_text(measure.before, measure.unit)),
    Column("after", lambda measure: value_text(measure.after, measure.unit)),
    Column("change", lambda m: Text(change_text(m), _STYLES.get(m.change, "")), "left"),
    Column("by chance", chance_text),
)
