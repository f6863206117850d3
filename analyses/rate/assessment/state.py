"""The state of a stream, and the default limits of its verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from flowdiag.analyses.rate.limits import Limit
from flowdiag.analyses.rate.stability import Line, Stability, Trend

# Numbers of batches or triggers, here called units.
COLD: Final = 2  # first batches, which load classes and compile code
COLD_MS: Final = 60_000  # maximum duration of a first batch, in ms
FEW: Final = 5  # minimum number of completed batches for a verdict
LATE: Final = 12  # minimum number of recent units, which are a third of all
# Defaults of the limits that rules publish. `stability` in the report always depends on these defaults.
SILENT: Final = 10  # intervals without a batch that count as a gap in the input
SILENCE_MS: Final = 600_000  # minimum length of a gap
GROWN: Final = 2.0  # delay, in intervals, from which growth is an overload
LOST: Final = 5.0  # delay, in intervals, that is an overload even without growth
RISE: Final = 0.5  # minimum rise of the delay within the recent batches, in intervals
DRAINS: Final = 0.95  # share of the interval below which a queue visibly drains
NARROW: Final = 0.8  # share of the interval above which headroom is low
AT_LIMIT: Final = 0.85  # share of the permitted records that a batch "at the limit" contains
MOSTLY: Final = 0.6  # share of the recent batches that counts as most of them
FASTER: Final = (
    1.15  # minimum ratio of arrival rate to processing rate, because two rates are never equal
)
TWICE: Final = 2.0  # the same ratio if only a single trigger shows it
SAME: Final = 0.95  # share of the rows of the largest trigger at which a trigger counts as full
PERIODIC: Final = 1.5  # minimum ratio of a periodically long batch to the median
LONGER_MS: Final = 200.0  # minimum excess over the median
TIMES: Final = 3  # minimum number of long batches; two alone always look periodic
REAL_TIME_MS: Final = 5000  # spark.sql.streaming.realTimeMode.minBatchDuration
START: Final = (
    1.5  # intervals that the first triggers of a run may take to load classes and compile code
)
PAUSE_MS: Final = 100.0  # longest pause between back-to-back triggers
RESTS: Final = (
    3.0  # pauses, in durations of a trigger, of which two show that the query waits for rows
)
LONG_MS: Final = 1000.0  # minimum duration of a busy trigger; an almost empty one takes less
FAILED_SHARE: Final = 0.05
FAILED_LAST: Final = 3  # failed batches at the end after which the job counts as broken
TURNING: Final = 2  # last batches that overrun, each waiting longer than the batch before
ONSET: Final = (
    4  # last triggers that overrun, each longer than the one before, that are an overload
)
WORKED: Final = 3  # triggers after an exception that prove that the query works again
FAILING_DELAY: Final = 10.0  # delay, in intervals, at which "overloaded" becomes "failing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cap:
    """A limit that the latest batches reach.

    Args:
        kind: `pid`, `max-rate`, `max-per-partition`, `rows` or `files`.
        per_s: median limit in records per second and stream.
        share: share of the recent batches that reach the limit.
        stream: the limited stream; None if the limit does not apply to a single stream.
    """

    kind: str
    per_s: float
    share: float
    stream: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PeriodicDelay:
    """Batches that take longer at a regular period, such as batches that compact metadata.

    Args:
        every: the period, in batches.
        phase: `id % every` of the long batches.
        typical_ms, long_ms: median durations of the other batches and of the long ones.
        batches: IDs of the long batches.
    """

    every: int
    phase: int
    typical_ms: float
    long_ms: float
    batches: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamState:
    """The state of a DStream application or of a query.

    Args:
        stability: the verdict.
        because: a clause with the number that decided it.
        interval_ms: batch or trigger interval; None if unknown.
        processing_ms: median duration of the recent units.
        use: processing time as a share of the interval; for a query that pauses, of the time between
            triggers.
        pauses: for queries, whether triggers overrun but still wait for rows.
        delay_ms: the current delay: the wait of the last batch, or the age of the oldest queued batch.
        delay_trend: trend of the waits, in milliseconds per millisecond.
        queued: number of batches that were waiting when the input ended.
        running_ms: how long the oldest unfinished batch has been running.
        drains: whether batches are short and the delay falls accordingly, as after a slow start.
        behind_since_ms: batch time since which the delay has grown.
        line: the fitted cost of a batch by its records.
        headroom_per_s: maximum records per second according to `line`.
        caps: limits that recent units reach.
        failed: number of failed batches or runs.
        limit: the limit of a growing delay, and when the delay reaches it.
        periodic: for queries, batches that take longer at a regular period.
        rows_overcounted: whether rows may be counted more than once, so that their rates are meaningless.
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
    periodic: PeriodicDelay | None = None
    rows_overcounted: bool = False
    pauses: bool = False

    @property
    def delay_grows(self) -> bool:
        return self.delay_trend is not None and self.delay_trend.is_rising

    @property
    def delay_intervals(self) -> float | None:
        if self.delay_ms is None or not self.interval_ms:
            return None
        return self.delay_ms / self.interval_ms
