"""A task receives records and emits none, or no records move in the job.

What it reports
---------------
- An operator that receives records while event time does not advance, so that its windows and timers never fire. The
  culprit is the source, the subtask or the split that holds the watermark back.
- A source that is paused by watermark alignment, and the source that it waits for.
- An operator that has received records for hours and emitted none.
- If no such reason is found, an inconclusive verdict, because a job without output may still be healthy.

Why it matters
--------------
Checkpoints complete and no task is back-pressured, but the job produces nothing. Its state grows until the
watermark advances.

How it decides
--------------
The rule first checks operators that need event time. It recognizes windows by the metric `numLateRecordsDropped`. Such
an operator must receive at least `records` while its `currentInputWatermark` does not change for `duration`, or has no
value for `first-watermark`. Fewer samples are enough if the job has run for `duration` without any watermark, or if
`sourceIdleTime` shows that the source has had no record for `duration`. The rule then follows the subtasks with the
same `currentOutputWatermark` upstream to the source. From Flink 2.1 on, the metrics of splits show which split holds
the watermark back, and whether it is marked as idle. `sourceIdleTime` shows whether a source subtask reads records.
During back pressure, the rule only counts a watermark that was never set.

A source that emits nothing for `duration` while its `watermarkAlignmentDrift` is positive waits for the source with
the oldest watermark in its alignment group. The rule reports the paused source unless the watermark of the other
source is catching up with the clock.

Any other task is reported if it emits no record for `duration` while its subtasks receive at least `records`. Event
time does not advance if the `currentInputWatermark` of no subtask of the task advances in that time. If the watermark
advances, or if there is none, a long window looks the same as a filter that no record passes or a join without a match.
The rule is then inconclusive until the task has emitted nothing for `filter-hours` hours, or `window-hours` hours if
the job has windows. It is also inconclusive if no records move in any task and no task is busy or waiting: the sources
may have no input, or they may be stuck. The same applies if a watermark never advances in an input that is shorter than
`duration`.

What to do
----------
Find the source partition that has no data or only old timestamps. Configure `withIdleness` so that idle partitions
do not hold back the watermark. If the sources have no input, compare their offsets with the end of the topic.

False alarms
------------
If the system that creates the events creates none, event time does not advance either.
"""

from typing import Unpack

from flowdiag.analyses.queues import event_time as e
from flowdiag.analyses.queues import helpers as h
from flowdiag.analyses.queues.alignment import PausedSource
from flowdiag.analyses.queues.detect.silence import (
    lasting_pause,
    silent_task,
    stuck_operators,
    stuck_throughout,
)
from flowdiag.analyses.queues.detect.watermark_culprits import Culprit, clock, culprit_of, marks_of


class Limits(h.Limits):
    duration: float = h.limit(
        30, "s", "minimum time without progress; pauses between windows are shorter"
    )
    first_watermark: float = h.limit(
        15, "s", "minimum time without a watermark; sources emit many watermarks per second"
    )
    records: float = h.limit(
        20, "records", "minimum number of records received; a filter may drop a few"
    )
    filter_hours: float = h.limit(
        2, "h", "minimum time without output; a filter rarely drops all records for longer"
    )
    window_hours: float = h.limit(
        25, "h", "minimum time without output if the job has windows; windows rarely exceed a day"
    )


def judge(job: h.JobQueues, limits: Limits) -> h.Results:
    """Yield one finding per culprit, or the reason why the result is inconclusive."""
    if h.has_finished(job):
        return
    back_pressured = bool(h.serious_spells(job))
    stuck = stuck_operators(
        job,
        back_pressured=back_pressured,
        first=limits.first_watermark,
        seconds=limits.duration,
        records=limits.records,
    )
    if stuck is None:
        return  # BP106 reports it
    found: dict[h.Subject, h.Finding] = {}
    for operator, holder in stuck:
        finding = _stuck_operator(job, operator, holder)
        found.setdefault(finding.subject, finding)
    if not back_pressured and (paused := lasting_pause(job, limits.duration)):
        yield _paused_source_finding(job, paused)
    elif found or back_pressured:
        yield from found.values()
    elif (stall := h.job_stall(job)) is not None and not h.works_or_waits(job):
        reason = h.text("BP105.no-record-moves", lasted=h.fmt.duration(stall.duration_ms))
        yield h.Inconclusive(reason=reason, checks=("consumer-lag", "thread-dump"), job=job.job.key)
    elif not h.has_ended(job):
        yield from _without_output(job, limits)


def _paused_source_finding(job: h.JobQueues, paused: PausedSource) -> h.Finding:
    task, behind = h.fmt.shorten(paused.task), h.fmt.shorten(paused.behind)
    apart = h.fmt.duration(paused.apart_ms)
    return h.task_finding(
        job,
        paused.behind,
        severity=h.Severity.WARNING,
        title=f"Watermark alignment pauses {task}: {behind} is {apart} behind it",
        why=f"{behind}: its watermark is {apart} behind that of {task}, which emits no records",
        cause="alignment-pause",
        confidence=h.Confidence.HIGH,
        rank=h.Rank.BOTTLENECK,
        first_us=paused.since_us,
        last_us=paused.until_us,
        measurements=(h.measurement("watermark-lag", round(paused.apart_ms), "ms"),),
        evidence=h.cite((h.mark_evidence(mark, paused.until_us), None) for mark in paused.marks),
        actions=h.remedies("alignment-pause", job.job),
    )


def _without_output(job: h.JobQueues, limits: Limits) -> h.Results:
    silent = silent_task(job, records=limits.records, seconds=limits.duration)
    if silent is None:
        yield from _windows_without_watermarks(job, limits)
        yield from _inconclusive_if_short(job, limits)
        return
    if silent.watermark_ms is not None:
        if not e.is_ahead(silent.watermark_ms, silent.until_us):
            yield _stuck_finding(job, silent, silent.watermark_ms)
        return
    stuck = e.stuck_subtasks(job, silent.task)
    if stuck and stuck[1].value is None and e.has_watermarks(job, silent.task):
        yield _stuck_finding(job, silent, None)
        return
    hours = limits.window_hours if e.event_time(job).operators else limits.filter_hours
    if silent.duration_ms >= hours * 3_600_000:
        yield _empty_finding(job, silent)
        return
    reason = h.text(
        "BP105.emits-none",
        name=h.fmt.shorten(silent.name),
        records=h.fmt.thousands(silent.records),
        lasted=h.fmt.duration(silent.duration_ms),
    )
    if e.has_no_watermarks(job, silent.task):
        reason += h.text("BP105.no-watermarks")
    yield h.Inconclusive(reason=reason, checks=("subtask-records", "user-code"), job=job.job.key)


def _windows_without_watermarks(job: h.JobQueues, limits: Limits) -> h.Results:
    """Report windows without output and watermarks if no plan shows whether they need event time."""
    for stuck in e.stuck_operators(job):
        waits = stuck.held.value is None and not stuck.emitted and stuck.records >= limits.records
        if stuck.certain or not waits or stuck.held.duration_ms < limits.duration * 1000:
            continue
        reason = h.text(
            "BP105.emits-none",
            name=h.fmt.shorten(stuck.operator or stuck.task),
            records=h.fmt.thousands(stuck.records),
            lasted=h.fmt.duration(stuck.held.duration_ms),
        )
        reason += h.text("BP105.no-watermarks")
        yield h.Inconclusive(
            reason=reason, checks=("subtask-records", "user-code"), job=job.job.key
        )
        return


def _inconclusive_if_short(job: h.JobQueues, limits: Limits) -> h.Results:
    stuck = stuck_throughout(job, records=limits.records)
    if stuck is None or stuck.held.duration_ms >= limits.duration * 1000:
        return
    reason = h.text(
        "BP105.too-short",
        name=h.fmt.shorten(stuck.operator or stuck.task),
        records=h.fmt.thousands(stuck.records),
        lasted=h.fmt.duration(stuck.held.duration_ms),
    )
    yield h.Inconclusive(reason=reason, checks=("longer-metrics",), job=job.job.key)


def _stuck_operator(job: h.JobQueues, stuck: e.StuckOperator, holder: e.Holder | None) -> h.Finding:
    """Report the culprit of an operator whose watermark does not advance, or the operator itself."""
    lasted = h.fmt.duration(stuck.held.duration_ms)
    name = h.fmt.shorten(stuck.operator or stuck.task)
    size = job.topology.parallelism.get(stuck.task, 0)
    where, has = name, "has"
    if len(stuck.keys) < size:
        where, has = f"{len(stuck.keys)} of {h.fmt.plural(size, 'subtask')} of {name}", "have"
    marked = stuck.held.value
    value = "has no watermark" if marked is None else f"stays at {clock(marked)}"
    culprit = culprit_of(
        job, stuck.task, holder, f"its watermark {value}", f"currentInputWatermark {value}"
    )
    mark = e.event_time(job).inputs.get(stuck.keys[0])
    evidence = (*marks_of(job, holder), h.mark_evidence(mark, stuck.held.until_us))
    return _finding(
        job,
        culprit,
        (stuck.records, stuck.emitted, lasted),
        title=f"The watermark of {where} has not advanced for {lasted}: {culprit.reason}"
        if stuck.emitted
        else f"{where} {has} emitted nothing for {lasted}: {culprit.reason}",
        confidence=h.Confidence.HIGH if holder else h.Confidence.MEDIUM,
        first_us=stuck.held.since_us,
        last_us=stuck.held.until_us,
        evidence=h.cite((item, None) for item in evidence),
    )


def _stuck_finding(job: h.JobQueues, silent: h.Silence, watermark_ms: float | None) -> h.Finding:
    name, lasted = h.fmt.shorten(silent.name), h.fmt.duration(silent.duration_ms)
    stuck = e.stuck_subtasks(job, silent.task)
    holder = next(iter(e.holders(job, silent.task, stuck[1])), None) if stuck else None
    value = "it has no watermark"
    if watermark_ms is not None:
        value = f"its watermark stays at {clock(watermark_ms)}"
    received = f"{h.fmt.thousands(silent.records)} records"
    why = f"{name}: {received} in and none out, and {value}"
    culprit = culprit_of(job, silent.task, holder, "its watermark does not advance", why)
    records = h.records_of(silent.samples, "watermark", key=silent.key)
    return _finding(
        job,
        culprit,
        (silent.records, 0, lasted),
        title=f"{name} has emitted nothing for {lasted}: {culprit.reason}",
        first_us=silent.since_us,
        last_us=silent.until_us,
        evidence=h.cite((item, None) for item in (*marks_of(job, holder), *records)),
    )


def _empty_finding(job: h.JobQueues, silent: h.Silence) -> h.Finding:
    name, lasted = h.fmt.shorten(silent.name), h.fmt.duration(silent.duration_ms)
    why = f"{name}: {h.fmt.thousands(silent.records)} records in and none out"
    return _finding(
        job,
        Culprit("no-output", h.task_subject(job, silent.task), "", why, ("condition",)),
        (silent.records, 0, lasted),
        title=f"{name} has emitted nothing for {lasted}",
        first_us=silent.since_us,
        last_us=silent.until_us,
        evidence=h.records_of(silent.samples, "records_in", key=silent.key),
        explain=h.text("BP105.nothing-through"),
    )


def _finding(
    job: h.JobQueues,
    culprit: Culprit,
    counted: tuple[float, float, str],
    **fields: Unpack[h.FindingFields],
) -> h.Finding:
    """Return a finding about a culprit; `counted` contains the records in, the records out, and the time as text."""
    received, emitted, lasted = counted
    defaults: h.FindingFields = {
        "severity": h.Severity.WARNING,
        "why": culprit.why,
        "cause": culprit.cause,
        "confidence": h.Confidence.MEDIUM,
        "rank": h.Rank.BOTTLENECK,
        "measurements": (
            h.measurement("records-in", round(received), "records", over=f"in {lasted}"),
            h.measurement("records-out", round(emitted), "records", over=f"in {lasted}"),
        ),
        "actions": h.remedies(culprit.cause, job.job, *culprit.remedies),
    }
    return h.job_finding(job, subject=culprit.subject, **(defaults | fields))


RULE = h.Rule(
    "BP105",
    judge,
    Limits,
    core=True,
    causes=("stuck-watermark", "no-watermarks", "no-output", "alignment-pause"),
    needs="task-metrics",
)
