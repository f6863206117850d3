"""The state of a stream: one word and its numbers, and the limits for that word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from flowdiag.analyses.rate.limits import Limit
from flowdiag.analyses.rate.stability import Line, Stability, Trend

# The number of recent units, and the minimum to judge them.
COLD: Final = 2  # batches at the beginning that load classes and compile
COLD_MS: Final = 60_000  # a first batch may take that long
FEW: Final = 5  # completed batches; fewer are not judged
LATE: Final = 12  # minimum number of recent units, which are a third of all
# Defaults of the limits that rules publish: the words of `data` always go by these.
SILENT: Final = 10  # intervals without a batch: the input has a gap
SILENCE_MS: Final = 600_000  # minimum length of a gap
GROWN: Final = 2.0  # intervals of delay from which growth is an overload
LOST: Final = 5.0  # intervals of delay that are an overload even without growth
RISE: Final = 0.5  # intervals that the delay has to rise by within the recent batches
DRAINS: Final = 0.95  # of the interval: below it, a queue drains visibly
NARROW: Final = 0.8  # of the interval: above it, headroom is low
AT_LIMIT: Final = 0.85  # of the permitted records, that a batch has to hold to be "at the limit"
MOSTLY: Final = 0.6  # of the recent batches
FASTER: Final = 1.15  # ratio of arrival to processing rate: two rates are never equal
TWICE: Final = 2.0  # the same ratio where a single trigger shows it
SAME: Final = 0.95  # of the rows of the largest trigger: it counts as full
PERIODIC: Final = 1.5  # ratio to the median, for a periodically long batch
LONGER_MS: Final = 200.0  # minimum excess over the median
TIMES: Final = 3  # minimum number: any two have some distance
REAL_TIME_MS: Final = 5000  # spark.sql.streaming.realTimeMode.minBatchDuration
START: Final = (
    1.5  # intervals that the first triggers of a run may take: they load classes and compile
)
PAUSE_MS: Final = 100.0  # longest pause between back-to-back triggers
LONG_MS: Final = 1000.0  # of a trigger: less is the cost of an almost empty one
FAILED_SHARE: Final = 0.05
FAILED_LAST: Final = 3  # failed batches at the end: the job no longer works
TURNING: Final = 2  # batches at the end that overrun, each waiting longer
WORKED: Final = 3  # triggers after an exception: the query works again
FAILING_DELAY: Final = 10.0  # intervals of delay at which "overloaded" becomes "failing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cap:
    """A limit that the latest batches reach.

    Args:
        kind: `pid`, `max-rate`, `max-per-partition`, `rows`, `files`.
        per_s: records per second and stream, in the median.
        share: of the recent batches that reach it.
        stream: the stream that it limits; None if it applies to no single stream.
    """

    kind: str
    per_s: float
    share: float
    stream: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Periodic:
    """Batches that take longer at a regular period, such as batches that compact metadata.

    Args:
        every: batches.
        phase: of the batch ids: `id % every`.
        usual_ms, long_ms: medians of the others and of these.
        batches: their ids.
    """

    every: int
    phase: int
    usual_ms: float
    long_ms: float
    batches: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamState:
    """The state of a DStream application or of a query.

    Args:
        stability: the word.
        because: one clause with the number that decided.
        interval_ms: batch or trigger interval; None where not known.
        processing_ms: median of the recent units.
        use: processing over interval; of a query that pauses, over the time from one trigger to the next.
        pauses: for queries, whether triggers overrun and wait for rows all the same.
        delay_ms: the current delay: the wait of the last batch, or the age of the oldest queued.
        delay_trend: trend of the waits, milliseconds per millisecond.
        queued: batches that were waiting when the input ended.
        running_ms: how long the oldest unfinished batch has been running.
        drains: whether batches are short, and the delay falls accordingly, as after a slow start.
        behind_since_ms: batch time at which the delay began to grow permanently.
        line: cost of a batch over its records.
        headroom_per_s: most records per second that fit into the interval, by that line.
        caps: limits that are reached.
        failed: failed batches or runs.
        limit: the limit of a growing delay, and when the delay reaches it.
        periodic: for queries, batches that are long at a regular period.
        rows_overcounted: whether rows are counted more than once, so that no rate of them means anything.
    """

    stability: Stability
    because: str
    interval_ms: int | None = None
    processing_ms: float | None = None
    use: float | None = None
    delay_ms: float | None = None
    delay_trend: Trend | None = None
    queued: int = 0
    running_ms: int | None = None
    drains: bool = False
    behind_since_ms: int | None = None
    line: Line | None = None
    headroom_per_s: float | None = None
    records_per_s: float | None = None
    caps: tuple[Cap, ...] = ()
    failed: int = 0
    backlog: Trend | None = None
    limit: Limit | None = None
    periodic: Periodic | None = None
    rows_overcounted: bool = False
    pauses: bool = False

    @property
    def delay_grows(self) -> bool:
        return self.delay_trend is not None and self.delay_trend.rises

    @property
    def delay_intervals(self) -> float | None:
        if self.delay_ms is None or not self.interval_ms:
            return None
        return self.delay_ms / self.interval_ms
