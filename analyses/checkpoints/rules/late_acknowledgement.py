"""Acknowledgements arrive after the checkpoint expired.

What it reports
---------------
Every late acknowledgement of an expired checkpoint, with its task, subtask, TaskManager and host. The finding
shows how long after the expiry the acknowledgements arrived. Console output without INFO lines does not show how
the checkpoints ended. The finding then shows only which subtasks were late for which checkpoints.

Why it matters
--------------
Late messages are often the only trace that a slow subtask leaves in the JobManager's log, but they are not proof.
In 27 test runs with a known culprit, the TaskManager with the most late messages was the culprit 19 times and a
different one 5 times. 3 runs had no late message at all.

How it decides
--------------
"Received late message for now expired checkpoint attempt …" counts only if that checkpoint is known to have
expired. Up to version 1.18, Flink prints the same line after a decline or a failover. If the log does not contain the
expiry, the message is listed as unmatched. If all messages are unmatched, the rule reports them as info.

Up to version 1.10, Flink does not notify tasks of a failed checkpoint, so the culprit *and everything downstream*
are late. From Flink 1.11 on, a task is late if it had begun its snapshot, waits for the checkpoint lock (old
sources), or is stuck in a single record. CP201 weighs late messages accordingly.

What to do
----------
Read CP201. If it is inconclusive, check the most upstream of the listed subtasks. Compare its input queues,
records in and state size with those of its siblings.

False alarms
------------
None. A late acknowledgement is a fact, but the subtask that sent it may be a victim.
"""

from typing import Final

from flowdiag.analyses.checkpoints.detect.late import most_often_text, sender_of, unmatched_text
from flowdiag.analyses.flink import helpers as h


def judge(job: h.Job, limits: h.Limits) -> h.Iterator[h.Finding]:
    """Yield one finding per job."""
    matched = [item for item in job.late if item.expired]
    late = matched or list(job.late)
    if not late:
        return
    checkpoints = {(item.run, item.checkpoint) for item in late}
    # In a truncated log, the message may be the only record of its checkpoint.
    series = [e for e in h.episodes(job) if e.ids & checkpoints]
    senders = len({sender_of(item.attempt) for item in late})
    managers = len({item.attempt.taskmanager for item in late} - {None, ""})
    received = [item.received_us for item in late if item.received_us is not None]
    title = (
        f"{h.fmt.plural(len(late), 'late acknowledgement')} of "
        f"{h.fmt.plural(len(checkpoints), 'checkpoint')} from {h.fmt.plural(senders, 'subtask')}"
    )
    finding = h.episode_finding(
        job,
        series,
        len(checkpoints),
        fatal=False,
        title=f"{title} on {h.fmt.plural(managers, 'TaskManager')}" if managers else title,
        explain=f"{most_often_text(late)} {unmatched_text(late)}" + h.text("CP102.late-sender"),
        rank=h.Rank.CONSEQUENCE,
        first_us=min(received, default=None),
        last_us=max(received, default=None),
        count=len(late),
        measurements=(
            h.measurement("late-acknowledgements", len(late), "messages"),
            h.measurement("late-subtasks", senders, "subtasks"),
            h.measurement("taskmanagers", managers, "taskmanagers"),
            *_measurements(late, series),
        ),
        evidence=h.cite((item.ref, item.received_us) for item in late),
        actions=h.shared_remedies(job, "compare-late"),
    )
    # No line shows how the checkpoints of unmatched messages ended.
    open_end = h.replace(finding, severity=h.Severity.INFO, state=h.State.ONGOING)
    yield finding if matched else open_end


def _measurements(
    late: list[h.LateAcknowledgement], series: list[h.Episode]
) -> h.Iterator[h.Measurement]:
    """Yield the number of expired checkpoints without a late message, and the numbers that only some inputs contain."""
    checkpoints = {(item.run, item.checkpoint) for item in late}
    expired = {(c.run, c.id) for e in series for c in e.checkpoints if c.status is h.Status.EXPIRED}
    yield h.measurement("expired-without-late-message", len(expired - checkpoints), "checkpoints")
    delays = sorted(item.after_expiry_ms for item in late if item.after_expiry_ms is not None)
    if delays:
        yield h.measurement("median-after-expiry", delays[len(delays) // 2], "ms")
    nameless = sum(item.attempt.task is None for item in late)
    if nameless:
        over = "attempt IDs without a deployment line"
        yield h.measurement("unknown-attempts", nameless, "messages", over=over)


RULE: Final = h.Rule("CP102", judge, needs="ended-checkpoints")
