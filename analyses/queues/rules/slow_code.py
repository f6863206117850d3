"""The line of code that makes a task slow.

What it reports
---------------
The activity of the threads of a slow task, and the topmost frame of user code. The cause names the activity, for
example a slow external call, a lock, a sleep, or state access. The rule reports a deadlock even if no metric shows
a slow task.

Why it matters
--------------
The metrics show which task is slow. The line of code shows why.

How it decides
--------------
A thread dump provides one sample per subtask, and a profile provides many. The rule ignores samples in which a
thread waits for input or for output buffers. At least `working` of the samples must remain. If at least `same-activity` of
them show the same activity, this activity is the cause. For a lock or a pool, `contended` is enough, because one
of two subtasks that share it always waits. flowdiag recognizes the activity by known patterns of stack frames, and
distinguishes the frames of libraries from those of user code. The rule evaluates the tasks where back pressure
starts.

Without back pressure, the rule reports three cases. For a deadlock, a single dump is enough. A lock counts if
threads wait for it in at least `dumps` dumps. A source task has no upstream task that could wait. Such a task
counts if it waits in user code in at least `throughout` of all its samples, from at least `agreeing-dumps` dumps. If the
input contains metrics, the task must also be busy for at least `saturated` of the time. The rule ignores a source
that sleeps, because it may limit its rate on purpose.

With at least `agreeing-dumps` dumps, the confidence is medium. With fewer dumps, it is low. For locks the confidence is
high, because the dump names the owner.

The time per record is the busy time of a culprit divided by its records. The culprit must read at least `records`
in at least `duration`. If the queue of an asynchronous operator is full, the time per request is the capacity of
the queue divided by the records per second.

What to do
----------
Change the line that the finding names, as advised there. If there are fewer than three dumps, take three, two
seconds apart.

False alarms
------------
A single dump may show an untypical moment.
"""

from flowdiag.analyses.flink.suspects.remedies import remedies_for_code
from flowdiag.analyses.flink.tasks.stacks import read_tasks
from flowdiag.analyses.queues import helpers as h
from flowdiag.analyses.queues.detect.code import code_of, record_seconds, severity_alone
from flowdiag.analyses.queues.judging import culprit_subject, severity_of
from flowdiag.analyses.stacks import (
    ALL_CODE_CAUSES,
    CodeLimits,
    CodeReading,
    agreement_of,
    code_fields,
)

_CAPACITY = 100  # default of AsyncDataStream


class Limits(CodeLimits):
    throughout: float = h.limit(
        0.9, "share", "minimum share of samples at work; below it, the task has time to spare"
    )
    saturated: float = h.limit(
        0.9, "share", "minimum busy time if no task waits for it; below it, the task keeps up"
    )
    dumps: float = h.limit(
        2, "dumps", "minimum number of dumps; a single dump may show a short wait"
    )
    records: float = h.limit(
        50, "records", "minimum number of records read; barriers distort smaller samples"
    )
    duration: float = h.limit(
        30, "s", "minimum time with measurements; counters are up to 10 s old"
    )


def judge(job: h.JobQueues, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield one finding per suspect and activity. Without back pressure, yield one per task that waits in its code."""
    agreement, spells = agreement_of(limits), h.find_spells(job)
    seen: set[tuple[str, str]] = set()
    for spell in spells:
        code = code_of(job, spell, agreement)
        if code is not None and (spell.task, code.cause) not in seen:
            seen.add((spell.task, code.cause))
            fields = _fields(job, code, limits, culprit_subject(job, spell))
            fields["severity"] = severity_of(job, spell)
            if code.cause == "deadlock":
                fields["severity"] = h.Severity.CRITICAL
            fields["state"] = spell.state
            fields["actions"] = remedies_for_code(job.job, code, spell.cause)
            seconds = record_seconds(spell, records=limits.records, measured=limits.duration)
            if seconds is not None:
                _add_latency(fields, seconds)
            yield h.job_finding(job, **fields)
    for task, code in read_tasks(job.job, agreement).items() if not spells else ():
        severity = severity_alone(
            job,
            task,
            code,
            dumps=limits.dumps,
            agreeing=limits.agreeing_dumps,
            throughout=limits.throughout,
            saturated=limits.saturated,
        )
        if severity is not None:
            fields = _fields(job, code, limits, h.task_subject(job, task))
            yield h.job_finding(job, **(fields | {"severity": severity}))


def _add_latency(fields: h.SubjectFields, seconds: float) -> None:
    """Add the time per record, which limits the throughput of a subtask."""
    name, wait = "BP107.time-per-record", seconds * 1000
    if fields["cause"] == "async-queue-full":
        name, wait = "BP107.time-per-request", wait * _CAPACITY
    rate = h.fmt.rate(1 / seconds)
    text = h.text(name, wait=h.fmt.duration(wait), rate=rate, size=_CAPACITY)
    over = "of a busy subtask, median of the culprits"
    latency = h.measurement("time-per-record", round(seconds * 1000, 3), "ms", over=over)
    fields["explain"] = f"{h.explanation(fields['cause'] or '')} {text}"
    fields["measurements"] = (*fields["measurements"], latency)


def _fields(
    job: h.JobQueues, code: CodeReading, limits: Limits, subject: h.Subject
) -> h.SubjectFields:
    task = h.fmt.shorten(subject.task or "")
    name = h.fmt.subtask_of(task, subject.subtask_index, subject.parallelism)
    return {
        **code_fields(code, limits.agreeing_dumps, waits_for="output"),
        "subject": subject,
        "state": h.State.ONGOING,
        "title": f"{name} {code.place}",
        "why": f"{name}: {code.clause}, {code.evidence_text}",
        "rank": h.Rank.BOTTLENECK_SIGN,
        "actions": remedies_for_code(job.job, code),
    }


RULE = h.Rule(
    "BP107", judge, Limits, causes=ALL_CODE_CAUSES, needs="stacks", severity=h.Severity.CRITICAL
)
