"""TaskManagers without free segments of network memory."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from flowdiag.analyses.queues import helpers as h


class Shortage(NamedTuple):
    """A TaskManager with too few segments, and the share of its segments that the tasks request."""

    taskmanager: str
    requested: float | None
    measurements: tuple[h.Measurement, ...]
    exhausted: bool


def shortage_of(
    name: str,
    reports: h.Sequence[h.TaskManagerSample],
    *,
    most: float,
    hardly: float,
    samples: float,
) -> Shortage | None:
    requested_gauge = h.merged_gauge(reports, "segments_requested")
    free = h.merged_gauge(reports, "segments_free")
    total = h.merged_gauge(reports, "segments")
    # Samples in windows with hardly any free segment on average, and with none at times.
    empty = sum(
        gauge.n
        for report in reports
        if (gauge := report.gauges.get("segments_free")) is not None
        and (segments := report.gauges.get("segments")) is not None
        and gauge.low <= 0
        and gauge.mean <= hardly * segments.high
    )
    requested = None if requested_gauge is None else requested_gauge.mean / 100
    too_many = (
        requested_gauge and requested_gauge.n >= samples and requested_gauge.mean / 100 > most
    )
    if not too_many and empty < samples:
        return None
    numbers = (
        ("requested-network-memory", requested, "share"),
        ("free-segments", free and free.mean, "buffers"),
        ("segments", total and total.high, "buffers"),
    )
    measurements = tuple(
        h.measurement(what, round(value, 3), unit, over=f"mean on {name}")
        for what, value, unit in numbers
        if value is not None
    )
    return Shortage(name, requested, measurements, empty >= samples)


def minutes_of_waiting(job: h.JobQueues, *, waits: float, samples: float) -> float:
    """Return the number of windows in which a task waits; infinite if a task waits on average over the whole input.

    Args:
        job: the job.
        waits: minimum share of the time that the task waits.
        samples: minimum number of samples in a window.
    """

    def back_pressured(loads: h.Iterable[h.Load], fewest: float = 0) -> bool:
        return any(
            load.wait_measured and (load.back_pressured or 0.0) > waits and load.samples >= fewest
            for load in loads
        )

    if back_pressured(h.loads_in(job).values()):
        return inf
    return sum(
        back_pressured(h.loads_in(job, [window]).values(), samples) for window in job.windows
    )
