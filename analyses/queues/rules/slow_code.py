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
Each thread dump is one sample per subtask, and a profile is many. Samples that wait for input or for output buffers
are left out; the threads must work in at least `working` of the samples. If at least `alike` of the others do the
same, that is the cause. For a lock or a pool, `contended` suffices, because one of two subtasks that share it always waits.
A table of frame patterns names the activity, and the table of components separates libraries from user code. The
rule judges tasks where back pressure starts.

Without back pressure, three cases remain. A deadlock needs a single dump. A lock counts if threads wait for it in at
least `dumps`. A task that reads its source itself has no task before it that could wait. It counts if it waits in user
code in at least `throughout` of all its samples, from at least `agreeing` dumps. If the input has metrics, it is also
busy for at least `saturated` of the time. A source that sleeps is left out, because it may limit its rate on purpose.

With at least `agreeing` the confidence is medium, with fewer it is low. Locks name their owner, so their
confidence is high.

The time per record is the busy time of a culprit divided by its records, if it reads at least `records` in at
least `measured`. If the queue of an asynchronous operator is full, a request takes its capacity divided by the records
per second.

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

from flowdiag.analyses.flink.suspects import NOT_IN_CODE
from flowdiag.analyses.flink.suspects.remedies import remedies_for_code
from flowdiag.analyses.flink.tasks.pressure import overall_view
from flowdiag.analyses.flink.tasks.stacks import read_code, read_tasks
from flowdiag.analyses.queues import helpers as h
from flowdiag.analyses.queues.judging import culprit_subject, severity_of
from flowdiag.analyses.stacks import (
    ALL_CODE_CAUSES,
    USUAL,
    Agreement,
    CodeReading,
    confidence_of,
)


class Limits(h.Limits):
    alike: float = h.limit(
        USUAL.alike,
        "share",
        "of the working samples; a task also does other work between slow calls",
    )
    contended: float = h.limit(
        USUAL.contended,
        "share",
        "of the working samples; one of two subtasks that share a lock always waits",
    )
    working: float = h.limit(
        USUAL.working, "share", "of all samples; a task that others wait for is rarely idle"
    )
    throughout: float = h.limit(
        0.9,
        "share",
        "of all samples of a task that no task waits for; less leaves time to spare",
    )
    saturated: float = h.limit(
        0.9, "share", "minimum busy time of such a task; below it, it keeps up"
    )
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
    """Yield one finding per suspect and activity, or the tasks that wait although no task waits for them."""
    agreement = Agreement(alike=limits.alike, contended=limits.contended, working=limits.working)
    spells = h.find_spells(job)
    seen: set[tuple[str, str]] = set()
    for spell in spells:
        code = _code_of(job, spell, agreement)
        if code is not None and (spell.task, code.cause) not in seen:
            seen.add((spell.task, code.cause))
            severity = severity_of(job, spell)
            if code.cause == "deadlock":
                severity = h.Severity.CRITICAL
            subject = culprit_subject(job, spell)
            found = _finding(job, code, limits, subject, severity=severity, state=spell.state)
            found = replace(found, actions=remedies_for_code(job.job, code, spell.cause))
            yield _with_latency(found, spell, limits)
    for task, code in read_tasks(job.job, agreement).items() if not spells else ():
        alone = _severity_alone(job, task, code, limits)
        if alone is not None:
            subject = h.task_subject(job, task)
            yield _finding(job, code, limits, subject, severity=alone, state=h.State.ONGOING)


def _code_of(job: h.JobQueues, spell: h.Spell, agreement: Agreement) -> CodeReading | None:
    """Return what the threads of a culprit do, if its fault may be in the code."""
    suspect = spell.culprit.suspect
    if spell.cause in NOT_IN_CODE or suspect.kind == "taskmanager":
        return None
    if h.waits_for_database(job, spell.task):
        return None
    keys = {load.key for load in spell.culprit_loads}
    if suspect.kind == "task":
        keys = {key for key in spell.loads if key.task == spell.task}
    return read_code(job.job, keys, agreement)


def _severity_alone(
    job: h.JobQueues, task: str, code: CodeReading, limits: Limits
) -> h.Severity | None:
    """Return the severity of a task that waits in its code while no task waits for it; None if it is healthy."""
    if code.cause == "deadlock":
        return h.Severity.CRITICAL
    if code.cause == "lock-contention":
        return h.Severity.WARNING if code.dumps >= limits.dumps else None
    if code.stack.kind not in _WAITS or not all(stack.chained for stack in code.agreeing):
        return None
    busy = [
        load.busy for load in overall_view(job.job).by_task.get(task, ()) if load.busy is not None
    ]
    if any(share < limits.saturated for share in busy):
        return None
    rarely = code.dumps < limits.agreeing or code.count < limits.throughout * code.seen
    return None if rarely else h.Severity.WARNING


_WAITS = ("external", "pool", "async-queue")


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
    rate = h.fmt.rate(1 / seconds)
    text = f"A record takes {h.fmt.duration(seconds * 1000)} of a subtask, so a subtask processes at most {rate}."
    if found.cause == "async-queue-full":
        wait = h.fmt.duration(seconds * 1000 * _CAPACITY)
        text = (
            f"A subtask completes {rate} with a full queue. With the default capacity of {_CAPACITY}, a request "
            f"takes {wait}; with another capacity, the capacity divided by that rate."
        )
    return replace(
        found, explain=f"{found.explain} {text}", measurements=(*found.measurements, latency)
    )


_CAPACITY = 100  # default of AsyncDataStream


def _finding(
    job: h.JobQueues,
    code: CodeReading,
    limits: Limits,
    subject: h.Subject,
    *,
    severity: h.Severity,
    state: h.State,
) -> h.Finding:
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
        confidence=confidence_of(code, limits.agreeing),
        rank=h.Rank.BOTTLENECK_SIGN,
        first_us=min(times, default=None),
        last_us=max(times, default=None),
        count=code.count,
        measurements=(
            h.measurement("stack-samples", code.count, "samples", over=_THREADS),
            h.measurement("stack-share", round(code.share, 4), "share", over=_WORKING),
            h.measurement("thread-dumps", code.dumps, "dumps", limits.agreeing),
        ),
        evidence=h.cite((ref, None) for ref in code.refs),
        stacks=code.paths,
        actions=remedies_for_code(job.job, code),
    )


_PER_RECORD = "of a busy subtask, median of the culprits"
_THREADS = "of its threads show this activity"
_WORKING = "of the samples that wait neither for input nor for output"

RULE = h.Rule("BP107", judge, Limits, causes=ALL_CODE_CAUSES)
