"""Finds triggers of a query that wait for cores that another query uses."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.event_time import end_us


def measured_waits(starved: h.Sequence[h.Trigger]) -> h.Iterator[h.Measurement]:
    """Yield how long the jobs and the tasks of the triggers took, if the input contains both."""
    known = [(t.work.busy_ms or 0, t.stage.total_ms) for t in starved if t.work and t.stage]
    if known:
        over = "median per trigger"
        yield h.measurement("job-time", round(median(busy for busy, _ in known)), "ms", over=over)
        over = "of the longest stage, median per trigger"
        yield h.measurement(
            "task-time", round(median(tasks for _, tasks in known)), "ms", over=over
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Starvation:
    """Finds the triggers of a query that wait for another query. The fields are limits of RT413."""

    floor: float
    share: float
    longer: float
    after: float
    short: float

    def slow(self, query: h.QueryFacts) -> list[h.Trigger]:
        """Return the slow triggers with rows, without the first trigger of each run."""
        firsts = {t.run_id: t for t in reversed(query.triggers)}
        least = max(self.floor, query.trigger_interval_ms or 0)
        return [
            t
            for t in query.triggers
            if t.rows and (t.duration_ms or 0) > least and t is not firsts[t.run_id]
        ]

    def starved(
        self, query: h.QueryFacts, slow: h.Sequence[h.Trigger], other: h.QueryFacts
    ) -> list[h.Trigger]:
        """Return the slow triggers of a query that wait for another query."""
        spans = [(t.time_us, end_us(t)) for t in other.triggers]
        found = []
        for trigger in slow:
            low, high = trigger.time_us, end_us(trigger)
            overlap = sum(max(0, min(high, end) - max(low, start)) for start, end in spans)
            if overlap < self.share * (high - low):
                continue
            waits = self._waits_for_cores(trigger)
            if waits is None:
                waits = self._ends_with(query, trigger, spans)
            if waits:
                found.append(trigger)
        return found

    def _waits_for_cores(self, trigger: h.Trigger) -> bool | None:
        """Return whether a trigger's jobs take much longer than its tasks, or None without tasks."""
        work, stage = trigger.work, trigger.stage
        if work is None or work.busy_ms is None or stage is None:
            return None
        waits = work.busy_ms >= self.longer * max(1, stage.total_ms)
        return waits and work.busy_ms >= self.share * (trigger.duration_ms or 0)

    def _ends_with(
        self, query: h.QueryFacts, slow: h.Trigger, spans: h.Sequence[tuple[int, int]]
    ) -> bool:
        """Return whether a trigger begins during a trigger of the other query and ends right after it."""
        short = (slow.duration_ms or 0) / self.longer
        fast = sum(bool(t.rows) and (t.duration_ms or 0) <= short for t in query.triggers)
        after = self.after * 1000
        return fast >= self.short and any(
            start <= slow.time_us + after and abs(end_us(slow) - end) <= after
            for start, end in spans
        )
