"""Records are dropped as late, or event times are in the future, fall behind, or have the wrong unit or time zone.

What it reports
---------------
- A source whose watermark is far ahead of the clock, or has the wrong unit: microseconds, nanoseconds or seconds
  that are read as milliseconds.
- A source whose event times always differ from the clock by the offset of a time zone. This happens when local
  times are read as UTC.
- An operator that drops a large part of its records as late.
- A source whose event times fall further and further behind the clock, although no task delays it.

Why it matters
--------------
A watermark in the future makes all later records late: windows drop them silently and never fire again. The job
looks healthy, because checkpoints complete and no task is back-pressured.

How it decides
--------------
The rule only evaluates jobs with an operator that needs event time. It recognizes windows by the metric
`numLateRecordsDropped`. The rule compares `currentOutputWatermark` of each subtask, and the watermarks of the splits
of sources, with the time of the sample. Without `currentOutputWatermark`, it uses `currentInputWatermark`. A
watermark is in the future if it is at least `ahead` ahead of that time.
If it differs from the clock by a factor of 1,000, a million or a thousandth, its unit is wrong.

Local times that are read as UTC shift the watermarks by a multiple of an hour. From three hours on, the shift may be a
multiple of half an hour, and from five hours on, of a quarter of an hour. In all subtasks, the watermarks are late by
at most `delay` in addition to the shift. The difference from the clock varies by at most `steady` over `duration`. If a
source reads old records, the difference shrinks instead.

Event times fall behind if a watermark of a source is at least `behind` behind the clock. This lag grows by at least
`pace` per second for at least `duration`. The watermark must advance in most samples. The rule reports nothing if
tasks downstream, waiting records (`pendingRecords`) or watermark alignment delay the source, because other rules do.
`currentFetchEventTimeLag` and `currentEmitEventTimeLag` show whether records are old when the source receives them, or
wait inside the source. If the newest records are recent, older records of another split hold the watermark back.

Without a watermark in the future, the operator must drop at least `share` of its records, and at least `records` records.

False alarms
------------
A column may contain planned times in the future, such as bookings, which are not event times. A source may also
deliver its events late by exactly a few hours. A slow replay of old records looks like records that arrive late.
"""

from flowdiag.analyses.queues import event_time as e
from flowdiag.analyses.queues import helpers as h
from flowdiag.analyses.queues.detect.event_time_behind import Behind, event_time_behind

_FACTORS = {
    "microseconds": "1,000 times",
    "nanoseconds": "a million times",
    "seconds": "a thousandth of",
}


_UNITS_READ = " Flink reads event times as milliseconds since 1970."


class Limits(h.Limits):
    ahead: float = h.limit(
        e.AHEAD_MS / 1000, "s", "minimum lead over the clock; clocks rarely differ by minutes"
    )
    delay: float = h.limit(
        60, "s", "maximum delay in addition to the time zone shift; delays of seconds are normal"
    )
    steady: float = h.limit(
        30, "s", "maximum variation of the time zone shift; metrics are up to 10 s old"
    )
    duration: float = h.limit(
        20, "s", "minimum time with metrics, so that the metrics are refreshed at least twice"
    )
    behind: float = h.limit(
        60, "s", "minimum lag of event times that fall behind; windows are rarely shorter"
    )
    pace: float = h.limit(
        0.1, "s/s", "minimum growth of the lag of event times; clocks and metrics jitter by less"
    )
    share: float = h.limit(
        0.05, "share", "minimum share of late records; a few late records are common"
    )
    records: float = h.limit(20, "records", "minimum number of late records")


def judge(job: h.JobQueues, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield one finding per source with wrong event times, or else per operator with many late records."""
    times = e.event_time(job)
    if not times.operators:
        return
    found, wrong = set[str](), False
    for task in job.topology.tasks:
        if any(task in job.topology.downstream(other) for other in found):
            continue
        finding = _about_source(job, task, limits)
        if finding is None and (finding := _about_wrong_times(job, task, limits)):
            wrong = True
        if finding is not None:
            yield finding
            found.add(task)
    if wrong:
        return
    for task in sorted(job.topology.sources - found, key=job.topology.order):
        behind = event_time_behind(
            job, task, behind_s=limits.behind, seconds=limits.duration, pace=limits.pace
        )
        if behind is not None:
            yield _behind_finding(job, behind)
    for task, operator in times.operators:
        dropped = times.flows[task, operator, "numLateRecordsDropped"].total
        received = times.received(task, operator)
        if received and dropped >= max(limits.records, limits.share * received):
            yield _late_finding(job, task, operator, dropped, received)


def _about_source(job: h.JobQueues, task: str, limits: Limits) -> h.Finding | None:
    """Return a finding about a source whose event times have a constant difference from the clock."""
    if task not in job.topology.sources:
        return None
    shifted = e.shifted_times(
        job,
        task,
        delay_ms=limits.delay * 1000,
        steady_ms=limits.steady * 1000,
        duration_ms=limits.duration * 1000,
    )
    return None if shifted is None else _shifted_times_finding(job, task, shifted)


def _about_wrong_times(job: h.JobQueues, task: str, limits: Limits) -> h.Finding | None:
    wrong = e.wrong_times(job, task, limits.ahead)
    return None if wrong is None else _wrong_times_finding(job, wrong)


def _wrong_times_finding(job: h.JobQueues, wrong: e.WrongTimes) -> h.Finding:
    task = h.fmt.shorten(wrong.task)
    whole = len(wrong.keys) == job.topology.parallelism.get(wrong.task)
    one = len(wrong.keys) == 1 and not whole
    name = h.subtask_name(job, wrong.keys[0]) if one else task
    unit = wrong.unit
    cause = "wrong-event-time" if unit else "future-watermark"
    about = (
        f"the event times of {name} are in {unit}"
        if unit
        else f"the watermark of {name} is {h.fmt.duration(wrong.ahead_ms)} in the future"
    )
    late = e.late_behind(job, wrong.task, wrong.since_us)
    title = h.fmt.capital(about)
    measurements = [h.measurement("watermark-ahead", round(wrong.ahead_ms), "ms")]
    if late is not None:
        dropped, received, operator = late
        title = (
            f"{operator} drops {h.fmt.share(dropped / received)} of its records as late: {about}"
        )
        measurements.insert(
            0, h.measurement("late-records", round(dropped), "records", over=f"of {operator}")
        )
    than = (
        f"{_FACTORS[unit]} the current time" if unit else f"{h.fmt.duration(wrong.ahead_ms)} ahead"
    )
    place = f"split {wrong.split} of {name}" if wrong.split else name
    subject = (
        h.subtask_subject(job, wrong.keys[0], h.taskmanager_of(job, wrong.keys[0]))
        if one
        else h.task_subject(job, wrong.task)
    )
    return h.job_finding(
        job,
        subject=subject,
        severity=h.Severity.WARNING,
        title=title,
        why=f"{place}: its watermark {wrong.value:.0f} is {than}",
        cause=cause,
        confidence=h.Confidence.HIGH,
        rank=h.Rank.BOTTLENECK,
        first_us=wrong.since_us,
        last_us=wrong.until_us,
        measurements=tuple(measurements),
        evidence=h.cite((h.mark_evidence(mark, wrong.until_us), None) for mark in wrong.marks),
        explain=h.explanation(cause) + (_UNITS_READ if unit else ""),
        actions=h.remedies(cause, job.job, *(("assigner", "clamp") if unit else ("clamp",))),
    )


def _shifted_times_finding(job: h.JobQueues, task: str, shifted: e.ShiftedTimes) -> h.Finding:
    name = h.fmt.shorten(task)
    apart = h.fmt.duration(abs(shifted.shift_ms))
    where = "behind" if shifted.shift_ms > 0 else "ahead of"
    return h.task_finding(
        job,
        task,
        severity=h.Severity.WARNING,
        title=f"The event times of {name} are {apart} {where} the clock, probably local times read as UTC",
        why=f"{name}: its watermarks stay {apart} {where} the clock",
        cause="wrong-event-time",
        confidence=h.Confidence.MEDIUM,
        rank=h.Rank.BOTTLENECK,
        first_us=shifted.since_us,
        last_us=shifted.until_us,
        measurements=(h.measurement("watermark-lag", round(shifted.shift_ms), "ms"),),
        evidence=h.cite((h.mark_evidence(mark, shifted.until_us), None) for mark in shifted.marks),
        actions=h.remedies("wrong-event-time", job.job, "zone"),
    )


def _behind_finding(job: h.JobQueues, behind: Behind) -> h.Finding:
    name, rise = h.fmt.shorten(behind.task), behind.rise
    lag = h.fmt.duration(rise.last_ms)
    reason, remedies = _reason(job, behind, lag)
    ages = (
        ("fetch-event-time-lag", behind.fetched_ms),
        ("emit-event-time-lag", behind.emitted_ms),
    )
    certain = behind.reads_all or behind.has_recent_records or behind.kept_ms is not None
    return h.task_finding(
        job,
        behind.task,
        severity=h.Severity.WARNING,
        title=f"The event times of {name} fall behind the clock: by {lag}, "
        f"{h.fmt.duration(rise.growth_ms)} more than {h.fmt.duration(rise.seconds * 1000)} before",
        why=f"{name}: {reason}",
        cause="event-time-behind",
        confidence=h.Confidence.HIGH if certain else h.Confidence.MEDIUM,
        rank=h.Rank.BOTTLENECK,
        first_us=rise.since_us,
        last_us=rise.until_us,
        measurements=(
            h.measurement("watermark-behind", round(rise.last_ms), "ms"),
            *(h.measurement(key, round(age), "ms") for key, age in ages if age is not None),
        ),
        evidence=h.cite((h.mark_evidence(mark, rise.until_us), None) for mark in behind.marks),
        actions=h.remedies("event-time-behind", job.job, *remedies),
    )


def _reason(job: h.JobQueues, behind: Behind, lag: str) -> tuple[str, tuple[str, ...]]:
    """Return why event times fall behind, and the names of the remedies."""
    if behind.has_recent_records:
        age = h.fmt.duration(max(0.0, behind.emitted_ms or 0.0))
        oldest = h.subtask_name(job, behind.key)
        return (
            f"its newest records are {age} old, but older records hold the watermark of {oldest} back",
            ("split",),
        )
    if behind.kept_ms is not None:
        kept = h.fmt.duration(behind.kept_ms)
        return f"records wait {kept} in the source before it emits them", ("inside",)
    if behind.reads_all:
        return f"it has read all records, and they arrive up to {lag} after their event times", (
            "producers",
        )
    return (
        f"records are up to {lag} old. Either they arrive late, or the source reads too slowly",
        ("lag", "producers"),
    )


def _late_finding(
    job: h.JobQueues, task: str, operator: str, dropped: float, received: float
) -> h.Finding:
    name = h.fmt.shorten(operator)
    flow = e.event_time(job).flows[task, operator, "numLateRecordsDropped"]
    return h.task_finding(
        job,
        task,
        severity=h.Severity.WARNING,
        title=f"{name} drops {h.fmt.share(dropped / received)} of its records as late",
        why=f"{name}: {h.fmt.thousands(dropped)} of {h.fmt.thousands(received)} records are older than its watermark",
        cause="late-records",
        confidence=h.Confidence.HIGH,
        rank=h.Rank.BOTTLENECK,
        first_us=flow.points[0].time_us,
        last_us=flow.points[-1].until_us,
        measurements=(
            h.measurement("late-records", round(dropped), "records", over="of its subtasks"),
        ),
        evidence=h.cite(
            (h.flow_evidence(point, flow), None) for point in flow.points if point.increase > 0
        ),
        actions=h.remedies("late-records", job.job),
    )


RULE = h.Rule(
    "BP106",
    judge,
    Limits,
    causes=("wrong-event-time", "future-watermark", "late-records", "event-time-behind"),
    needs="event-time",
)
