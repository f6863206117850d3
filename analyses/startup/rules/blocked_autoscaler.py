"""The autoscaler wants a different parallelism, but something prevents it.

What it reports
---------------
The rule reports why the autoscaler does not apply its decisions: memory pressure, a quota, a plugin, disabled
scaling, an excluded period, a scheduler without rescaling, or tasks without metrics. If the parallelism differs
from the calculated value because of key groups, partitions or a limit, the finding is a note.

Why it matters
--------------
The job falls behind although the autoscaler runs. In Kubernetes, its events expire after an hour.

How it decides
--------------
The rule reads the events and log lines of the autoscaler. A problem counts as recovered if the autoscaler scaled the
job later.

What to do
----------
Change the setting in the finding. `flowdiag simulate autoscaler` shows the result of the formula with other settings.

False alarms
------------
The parallelism may be limited on purpose, to keep the load of the subtasks even.
"""

from typing import Final

from flowdiag.analyses.startup import autoscaling
from flowdiag.analyses.startup import helpers as h

_REASONS: Final = {
    "memory-pressure": ("memory pressure prevents scaling", ("memory",)),
    "quota": ("a quota prevents the scale-up", ("cpu-quota", "memory-quota")),
    "vetoed": ("a plugin rejects the scaling", ()),
    "disabled": ("scaling is disabled, so it only makes recommendations", ("enable",)),
    "excluded-period": ("the current time is in an excluded period", ("periods",)),
    "not-adaptive": ("the job does not use the adaptive scheduler", ("adaptive",)),
    "no-metric": ("a task reports no busy time or rate", ("metrics",)),
    "limited": ("key groups, partitions or a limit change the parallelism", ("limit",)),
}
_NOTES: Final = ("limited", "excluded-period", "disabled")


def judge(job: h.JobStarting, limits: h.Limits) -> h.Iterator[h.Finding]:
    """Report each reason in one finding."""
    events = autoscaling.events_of(job.cluster, job)
    scaled_us = max((e.last_us or 0 for e in events.get("report", ())), default=0)
    for reason in _REASONS:
        if reason in events:
            yield _finding(job, reason, events[reason], scaled_us)


def _finding(job: h.JobStarting, reason: str, events: list[h.Trouble], scaled_us: int) -> h.Finding:
    clause, remedies = _REASONS[reason]
    last = max(events, key=lambda event: event.last_us or 0)
    tasks = sorted({task for event in events if (task := autoscaling.task_in(event, job))})
    where = f" ({h.fmt.shorten(', '.join(tasks), 80)})" if tasks else ""
    severity = h.Severity.INFO if reason in _NOTES else h.Severity.WARNING
    ongoing = scaled_us <= (last.last_us or 0)
    return h.trouble_finding(
        job.cluster,
        events,
        ongoing=ongoing,
        severity=severity,
        subject=h.job_subject(job),
        title=f"The autoscaler is blocked: {clause}{where}",
        why=f"{clause}: {h.fmt.shorten(last.values.get('said') or clause, 120)}",
        cause="autoscaler-blocked",
        rank=h.Rank.REPORTED_CAUSE,
        explain=h.explanation("autoscaler-blocked"),
        measurements=(h.measurement("events", sum(e.count for e in events), "events"),),
        actions=h.remedies("autoscaler-blocked", job.job, *remedies) if remedies else (),
    )


RULE: Final = h.Rule("ST404", judge, causes=("autoscaler-blocked",), needs="dated-records")
