"""Compares two reports. Start with `compare_reports`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from flowdiag.analyses.comparison.chance import (
    FEWEST,
    LEVEL,
    autocorrelation,
    holm,
    independent_stretches,
    rank_test,
    share_test,
    stretches,
)
from flowdiag.analyses.comparison.findings import changes, serious_changes
from flowdiag.analyses.comparison.measures import FACTOR, Kind, Series, pair_series, series_of
from flowdiag.analyses.comparison.wire import (
    SCHEMA,
    Change,
    Comparison,
    FindingChange,
    Measure,
    Side,
    Trend,
)
from flowdiag.analyses.contract.report import Note, Report, Tool
from flowdiag.analyses.model import finding as f
from flowdiag.analyses.model import fmt
from flowdiag.analyses.report.scope import engines_of, jobs_of
from flowdiag.analyses.report.version import tool_version
from flowdiag.parsers.errors import FlowdiagError

_NAMED: Final = 3  # maximum number of jobs in a message


def compare_reports(
    before: Report,
    after: Report,
    *,
    names: tuple[str, str] = ("BEFORE", "AFTER"),
    factor: float = FACTOR,
    same_job: bool = False,
    muted: Collection[str] = (),
    warnings: Sequence[Note] = (),
) -> Comparison:
    """Compare two reports of the same command about the same jobs.

    Args:
        before, after: the reports.
        names: how the user specified the reports.
        factor: minimum relevant factor between durations, delays and rates.
        same_job: whether the only job of each side is the same despite different names.
        muted: fingerprints in the baseline.
        warnings: warnings about the run.

    Raises:
        FlowdiagError: the reports are not comparable.
    """
    one_job = _check(before, after, same_job)
    found = changes(before, after, one_job=one_job, muted=muted)
    pairs = pair_series(series_of(before, one_job=one_job), series_of(after, one_job=one_job))
    drafts = [_draft(old, new) for old, new in pairs]
    # The p-values are adjusted for all measures together.
    tested = [draft for draft in drafts if draft.chance is not None]
    held = holm([draft.chance for draft in tested if draft.chance is not None])
    adjusted = dict(zip(map(id, tested), held, strict=True))
    measures = [_measure(draft, adjusted.get(id(draft)), factor) for draft in drafts]
    because = _regression_reasons(found, measures)
    doubts = [
        *_unassessed_topics(before, "before"),
        *_unassessed_topics(after, "after"),
        *(
            f"{change.code} {change.name} is not comparable: {change.reason}"
            for change in serious_changes(found, Change.NOT_COMPARABLE)
        ),
    ]
    return Comparison(
        schema=SCHEMA,
        tool=Tool(version=tool_version(), command="compare"),
        before=_side_of(before, names[0]),
        after=_side_of(after, names[1]),
        verdict=_verdict(before, after),
        findings=found,
        measures=measures,
        regression=bool(because),
        because=because,
        conclusive=not doubts,
        doubts=doubts,
        warnings=list(warnings),
    )


def _check(before: Report, after: Report, same_job: bool) -> bool:
    """Reject reports that cannot be compared. Return whether both are about one job and the same."""
    command, other = before.tool.command, after.tool.command
    if command != other:
        raise FlowdiagError(
            f"cannot compare a report of `flowdiag {command}` with one of `flowdiag {other}`",
            hint="run the same command on both, or pass the inputs instead of the reports",
        )
    engines = engines_of(before), engines_of(after)
    if all(engines) and not engines[0] & engines[1]:
        raise FlowdiagError(
            f"cannot compare: one side is about {fmt.capital(min(engines[0]))},"
            f" the other about {fmt.capital(min(engines[1]))}"
        )
    old, new = jobs_of(before), jobs_of(after)
    if same_job and max(len(old), len(new)) > 1:
        raise FlowdiagError(
            "--same-job requires one job on each side:"
            f" found {_first_names(old)} before and {_first_names(new)} after",
            hint="pass the inputs, and select a job with --job",
        )
    if old and new and not same_job and not set(old) & set(new):
        raise FlowdiagError(
            f"cannot compare different jobs: {_first_names(old)} before, {_first_names(new)} after",
            hint="--same-job compares the only job of each side, despite different names",
        )
    return same_job or (len(old) <= 1 and len(new) <= 1)


def _first_names(names: Sequence[str]) -> str:
    shown = [f"'{fmt.shorten(name)}'" for name in names[:_NAMED]]
    return ", ".join(shown) + (f" and {len(names) - _NAMED} more" if names[_NAMED:] else "")


def _side_of(report: Report, source: str) -> Side:
    times = [at for each in report.inputs for at in (each.first, each.last) if at is not None]
    return Side(
        source=source,
        command=report.tool.command,
        version=report.tool.version,
        jobs=list(jobs_of(report)),
        first=min(times, default=None),
        last=max(times, default=None),
        verdict=report.summary.verdict,
        assessed=report.summary.assessed,
        cause=report.summary.cause,
        culprits=report.summary.culprits,
        inputs=report.inputs,
    )


# --- measures -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """A measure before the adjustment for multiple tests."""

    old: Series | None
    new: Series | None
    chance: float | None = None
    independent: tuple[int, int] | None = None
    reason: str | None = None

    @property
    def kind(self) -> Kind:
        series = self.new or self.old
        assert series is not None
        return series.kind


def _draft(old: Series | None, new: Series | None) -> _Draft:
    """Test a difference for significance. The draft has a p-value, or the reason why there is none."""
    if old is None or new is None:
        return _Draft(old=old, new=new, reason=f"only {'before' if new is None else 'after'}")
    if old.cut or new.cut:
        return _Draft(old=old, new=new, reason="--max-rows truncated a report")
    if old.kind.exact:
        return _Draft(old=old, new=new)
    if old.samples is not None and new.samples is not None:
        chance = share_test(old.values[0], old.samples, new.values[0], new.samples)
        few = f"too few samples: {old.samples} and {new.samples}"
        return _Draft(old=old, new=new, chance=chance, reason=few if chance is None else None)
    rho = autocorrelation(old.values, new.values)
    parts = independent_stretches(len(old.values), rho), independent_stretches(len(new.values), rho)
    if min(parts) < FEWEST:
        reason = f"too few values: {len(old.values)} before and {len(new.values)} after"
        if min(len(old.values), len(new.values)) >= FEWEST:
            reason = f"{reason}, and they are strongly autocorrelated"
        return _Draft(old=old, new=new, independent=parts, reason=reason)
    chance = rank_test(
        stretches(old.values, parts[0], old.kind.summarize),
        stretches(new.values, parts[1], new.kind.summarize),
    )
    return _Draft(old=old, new=new, chance=chance, independent=parts)


def _measure(draft: _Draft, adjusted: float | None, factor: float) -> Measure:
    series = draft.new or draft.old
    assert series is not None
    before = draft.old.summary if draft.old else None
    after = draft.new.summary if draft.new else None
    rare = draft.kind.exact or (adjusted is not None and adjusted <= LEVEL)
    significant = draft.reason is None and rare and _is_relevant(draft.kind, before, after, factor)
    return Measure(
        name=draft.kind.name,
        unit=draft.kind.unit,
        subject=series.subject,
        before=_round(before),
        after=_round(after),
        ratio=_round(after / before) if before and after is not None else None,
        p_value=_round(draft.chance),
        p_adjusted=_round(adjusted),
        significant=significant,
        change=_trend(draft, before, after, significant),
        values=(_count(draft.old), _count(draft.new)),
        independent=draft.independent,
        matters=_limit(draft.kind, factor),
        reason=draft.reason,
    )


def _trend(draft: _Draft, before: float | None, after: float | None, significant: bool) -> Trend:
    if draft.reason is not None or before is None or after is None:
        return Trend.UNKNOWN
    if not significant:
        return Trend.SAME
    if not draft.kind.worse_up:
        return Trend.DIFFERENT
    return Trend.WORSE if after > before else Trend.BETTER


def _is_relevant(kind: Kind, before: float | None, after: float | None, factor: float) -> bool:
    if before is None or after is None or abs(after - before) <= kind.least:
        return False
    low, high = sorted((before, after))
    return not kind.factor or high >= factor * low


def _limit(kind: Kind, factor: float) -> str:
    """Return the minimum relevant difference, formatted.

    >>> from flowdiag.analyses.comparison.measures import BUSY, PROCESSING, ROWS
    >>> _limit(PROCESSING, 2), _limit(BUSY, 2), _limit(ROWS, 1.5)
    ('2× and 100 ms', '25% of the time', '1.5× and 10 rows')
    """
    least = ""
    match kind.unit:
        case "ms":
            least = fmt.duration(kind.least)
        case "bytes":
            least = fmt.size(kind.least)
        case "share":
            least = f"{fmt.share(kind.least)} of the {'time' if kind.worse_up else 'whole'}"
        case _ if kind.least:
            least = f"{fmt.number(kind.least)} {kind.unit}"
    by = f"{factor:g}×" if kind.factor else ""
    return " and ".join(filter(None, (by, least if kind.least else "")))


def _count(series: Series | None) -> int:
    if series is None:
        return 0
    return series.samples if series.samples is not None else len(series.values)


def _round(value: float | None) -> float | None:
    """Round to four digits, because more would only show floating-point noise."""
    return None if value is None else float(f"{value:.4g}")


# --- verdict -----------------------------------------------------------------------------


def _regression_reasons(found: Sequence[FindingChange], measures: Sequence[Measure]) -> list[str]:
    """Return why the comparison is a regression, one reason per line. Return no lines if it is not a regression."""
    reasons = []
    for kind in (Change.NEW, Change.WORSE):
        some = serious_changes(found, kind)
        if some:
            codes = ", ".join(dict.fromkeys(change.code for change in some))
            reasons.append(f"{fmt.plural(len(some), f'{kind.value} finding')}: {codes}")
    worse = [measure for measure in measures if measure.change is Trend.WORSE]
    if worse:
        names = ", ".join(dict.fromkeys(measure.name for measure in worse))
        reasons.append(f"{fmt.plural(len(worse), 'worse measure')}: {names}")
    return reasons


def _unassessed_topics(report: Report, side: str) -> list[str]:
    if not report.summary.assessed:
        return [f"{side}: nothing could be assessed"]
    if report.summary.verdict is f.Verdict.INCONCLUSIVE:
        return [f"{side}: {report.summary.reason or 'inconclusive'}"]
    bug = next((error for error in report.errors if error.bug), None)
    return [] if bug is None else [f"{side}: {bug.message}"]


def _verdict(before: Report, after: Report) -> Trend:
    sides = before.summary, after.summary
    if not all(summary.assessed for summary in sides) or f.Verdict.INCONCLUSIVE in (
        summary.verdict for summary in sides
    ):
        return Trend.UNKNOWN
    old, new = (summary.verdict.weight for summary in sides)
    return Trend.SAME if old == new else Trend.WORSE if new > old else Trend.BETTER
