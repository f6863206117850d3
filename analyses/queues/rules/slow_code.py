"""The line of code that makes a task slow.

What it reports
---------------
The activity of the threads of a slow task, and the topmost frame of user code. The cause names the activity, for
example a slow external call, a lock, a sleep, or access to state. Threads that wait for each other's locks are
reported even if no metric shows a slow task.

Why it matters
--------------
The metrics show which task is slow. The line of code shows why.

How it decides
--------------
Each thread dump is one sample per subtask. Samples that wait for input or for output buffers are left out, and
they may be 70% at most. If at least 40% of the others do the same, that is the cause. For a lock, 34% suffice,
because one of two subtasks that share it always waits. A table of frame patterns names the activity, and the
table of components separates libraries from user code. The rule only judges tasks where back pressure starts.

Locks need no back pressure: if no task is a suspect, a task counts if its threads wait for a lock in at least
`dumps`, and in at least 34% of the samples. A deadlock needs a single dump.

With at least `agreeing` the confidence is medium, with fewer it is low. Locks name their owner, so their
confidence is high.

The time per record is the busy time of a culprit divided by its records, if it reads at least `records` in at
least `measured`.

What to do
----------
Change the line that the finding names. Its advice fits the activity. Take three dumps, two seconds apart, if there
are fewer.

False alarms
------------
A single dump may show a rare moment.
"""

from __future__ import annotations

from dataclasses import replace

from flowdiag.analyses.flink.suspects.remedies import remedies_for_code
from flowdiag.analyses.flink.tasks.stacks import ALL_CODE_CAUSES, CodeReading, read_tasks
from flowdiag.analyses.queues import helpers as h
from flowdiag.analyses.queues.judging import culprit_subject, severity_of


class Limits(h.Limits):
    dumps: float = h.limit(
        2, "dumps", "minimum number of dumps with blocked threads; in one, the wait may be short"
    )
    agreeing: float = h.limit(
        3, "dumps", "number of dumps for medium confidence; fewer may show a rare moment"
    )
    records: float = h.limit(
        50, "records", "minimum of a subtask for a time per record; barriers distort fewer"
    )
    measured: float = h.limit(
        30, "s", "minimum time for a time per record; counters lag behind by up to ten seconds"
    )


def judge(job: h.JobQueues, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield one finding per suspect and activity, or the tasks whose threads wait for locks."""
    spells = h.find_spells(job)
    seen: set[tuple[str, str]] = set()
    for spell in spells:
        if h.waits_for_database(job, spell.task):
            continue
        code = spell.culprit.code
        if code is not None and (spell.task, code.cause) not in seen:
            seen.add((spell.task, code.cause))
            severity = severity_of(job, spell)
            if code.cause == "deadlock":
                severity = h.Severity.CRITICAL
            subject = culprit_subject(job, spell)
            found = _finding(job, code, limits, subject, severity=severity, state=spell.state)
            found = replace(found, actions=remedies_for_code(job.job, code, spell.cause))
            yield _with_latency(found, spell, limits)
    for task, code in read_tasks(job.job).items() if not spells else ():
        never_ends = code.cause == "deadlock"
        if never_ends or (code.cause == "lock-contention" and code.dumps >= limits.dumps):
            severity = h.Severity.CRITICAL if never_ends else h.Severity.WARNING
            subject = h.task_subject(job, task)
            yield _finding(job, code, limits, subject, severity=severity, state=h.State.ONGOING)


def _with_latency(found: h.Finding, spell: h.Spell, limits: Limits) -> h.Finding:
    """Add the time that one record takes, which limits the throughput of a subtask."""
    if spell.lasted_us < limits.measured * 1e6:
        return found
    each = [
        load.busy * spell.lasted_us / 1e6 / load.records
        for load in spell.culprit_loads
        if load.busy is not None and (load.records or 0.0) >= limits.records
        if load.records is not None
    ]
    seconds = h.median(each)
    if seconds is None:
        return found
    latency = h.measurement("time-per-record", round(seconds * 1000, 3), "ms", over=_PER_RECORD)
    most = f"so a subtask processes at most {h.fmt.rate(1 / seconds)}"
    text = f"{found.explain} A record takes {h.fmt.duration(seconds * 1000)} of a subtask, {most}."
    return replace(found, explain=text, measurements=(*found.measurements, latency))


def _finding(
    job: h.JobQueues,
    code: CodeReading,
    limits: Limits,
    subject: h.Subject,
    *,
    severity: h.Severity,
    state: h.State,
) -> h.Finding:
    confidence = h.Confidence.MEDIUM if code.dumps >= limits.agreeing else h.Confidence.LOW
    if code.cause in ("deadlock", "lock-contention"):
        confidence = h.Confidence.HIGH
    name = h.fmt.subtask_of(
        h.fmt.shorten(subject.task or ""), subject.subtask_index, subject.parallelism
    )
    times = [stack.time_us for stack in code.agreeing if stack.time_us is not None]
    return h.job_finding(
        job,
        subject=subject,
        severity=severity,
        state=state,
        title=f"{name} {code.place}",
        why=f"{name}: {code.clause}, {code.evidence_text}",
        cause=code.cause,
        confidence=confidence,
        rank=h.Rank.BOTTLENECK_SIGN,
        first_us=min(times, default=None),
        last_us=max(times, default=None),
        count=len(code.agreeing),
        measurements=(
            h.measurement("stack-samples", len(code.agreeing), "samples", over=_THREADS),
            h.measurement("stack-share", round(code.share, 4), "share", over=_WORKING),
            h.measurement("thread-dumps", code.dumps, "dumps", limits.agreeing),
        ),
        evidence=h.cite((ref, None) for ref in code.refs),
        actions=remedies_for_code(job.job, code),
    )


_PER_RECORD = "of a busy subtask, median of the culprits"
_THREADS = "of its threads show this activity"
_WORKING = "of the samples that wait neither for input nor for output"

RULE = h.Rule("BP107", judge, Limits, causes=ALL_CODE_CAUSES)
