"""How a comparison is said to people; shared by the renderers for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from flowdiag.analyses.comparison.wire import (
    Change,
    Comparison,
    FindingChange,
    Measure,
    Seen,
    Side,
    Trend,
)
from flowdiag.analyses.model import fmt
from flowdiag.cli.text import words

_COUNTED: Final = (
    Change.NEW,
    Change.WORSE,
    Change.MOVED,
    Change.GONE,
    Change.BETTER,
    Change.UNCHANGED,
    Change.NOT_COMPARABLE,
)
_FIRST: Final = (Trend.WORSE, Trend.DIFFERENT, Trend.BETTER)


def seen_of(one: FindingChange) -> Seen:
    """A finding as it is now, else as it was."""
    seen = one.after or one.before
    assert seen is not None
    return seen


def title(one: FindingChange) -> str:
    """What it is, in a line."""
    return words.brief(seen_of(one).title)


def details(one: FindingChange) -> list[str]:
    """What changed about it, and what to know of it."""
    told = []
    if one.moved and one.before is not None and one.after is not None:
        told.append(f"was at {words.who(one.before.subject)}, is at {words.who(one.after.subject)}")
    if one.reason:
        told.append(one.reason)
    if one.muted:
        told.append("muted by the baseline")
    return told


def word(one: FindingChange) -> str:
    """What became of it."""
    return one.change.value.replace("-", " ")


def tally(found: Sequence[FindingChange]) -> str:
    """How many findings there are of each kind."""
    counts = Counter(one.change for one in found)
    told = [f"{counts[kind]} {kind.value.replace('-', ' ')}" for kind in _COUNTED if counts[kind]]
    return ", ".join(told) or "none on either side"


def claimed(comparison: Comparison) -> list[Measure]:
    """The measures that changed, those that became worse first."""
    changed = [one for one in comparison.measures if one.significant]
    return sorted(changed, key=lambda one: _FIRST.index(one.change))


def untested(comparison: Comparison) -> list[Measure]:
    """Those that both sides have, and of which nothing can be told."""
    return [
        one
        for one in comparison.measures
        if one.change is Trend.UNKNOWN and None not in (one.before, one.after)
    ]


def measured(comparison: Comparison) -> str:
    """How many measures were compared, and what came of it."""
    both = [one for one in comparison.measures if None not in (one.before, one.after)]
    if not both:
        return "none that both sides have"
    counts = Counter(one.change for one in both)
    told = [f"{counts[trend]} {trend.value}" for trend in _FIRST if counts[trend]]
    if counts[Trend.SAME]:
        told.append(f"{counts[Trend.SAME]} unchanged")
    if counts[Trend.UNKNOWN]:
        told.append(f"{counts[Trend.UNKNOWN]} too few to tell")
    return f"{len(both)} compared: {', '.join(told)}"


def name(one: Measure) -> str:
    """What was measured.

    >>> from flowdiag.analyses.report.wire import Subject
    >>> name(Measure(name="busy", unit="share", subject=Subject(kind="task", task="enrich"), before=0.1,
    ...     after=0.9, ratio=9.0, p_value=0.001, p_adjusted=0.001, significant=True, change=Trend.WORSE,
    ...     values=(20, 20), independent=None, matters="25% of the time", reason=None))
    'busy'
    """
    return one.name.replace("-", " ")


def whose(one: Measure) -> str:
    """Whom it was measured of, by what tells it from others of the same name."""
    subject = one.subject
    if subject.option is not None:
        return f"{subject.kind} {subject.option}"
    if subject.task is not None:
        return subject.task
    if subject.stream_id is not None:
        return f"stream {subject.stream_id}"
    return subject.query or subject.job_name or subject.kind


def value(amount: float | None, unit: str) -> str:
    """A value with its unit; nothing where there is none."""
    return "-" if amount is None else words.quantity(amount, unit)


def chance(one: Measure) -> str:
    """How often chance alone makes such a difference."""
    if one.p_adjusted is None:
        return "-"
    return "below 0.01%" if one.p_adjusted < 1e-4 else f"{100 * one.p_adjusted:.2g}%"


def change(one: Measure) -> str:
    """By how much it changed, and whether that is worse."""
    by = ""
    if one.significant and one.unit != "share" and one.ratio is not None:
        by = f"{words.quantity(one.ratio, 'ratio')} "
    return f"{by}{one.change.value}"


def side(one: Side) -> str:
    """What one side is: where it is from, of when, and what it came to."""
    told = [one.source]
    if one.jobs:
        told.append(fmt.listed([fmt.shorten(job, 40) for job in one.jobs[:3]]))
    if one.first and one.last:
        first, last = _minute(one.first), _minute(one.last)
        same_day = first[:10] == last[:10]
        told.append(f"{first} to {last[11:] if same_day else last} UTC")
    return " · ".join(told)


def _minute(instant: str) -> str:
    return instant[:16].replace("T", " ")


def verdict(one: Side) -> str:
    """What a side came to."""
    if not one.assessed:
        return "not assessed"
    return f"{one.verdict.value}" + (f" ({one.cause})" if one.cause else "")


def conclusion(comparison: Comparison) -> str:
    """What it all comes to: the line that matters most."""
    if comparison.regression:
        return f"regression: {'; '.join(comparison.because)}"
    if not comparison.conclusive:
        return f"inconclusive: {comparison.doubts[0]}"
    if any(one.change is not Change.UNCHANGED for one in comparison.findings):
        return "no regression"
    return "no regression" if claimed(comparison) else "no change"


def verdicts(comparison: Comparison) -> str:
    """The verdicts of both sides.

    The arrow is drawn as `>` where a terminal has none.
    """
    old, new = verdict(comparison.before), verdict(comparison.after)
    return f"still {new}" if old == new else f"{old} → {new}"
