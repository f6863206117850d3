"""The autoscaler scaled a task up without effect.

What it reports
---------------
The rule reports tasks whose throughput barely grew after a scale-up, with the expected and the actual increase.

Why it matters
--------------
More subtasks do not help against a hot key, a blocked sink or a slow service. They only use up slots. If the
autoscaler does not detect ineffective scaling, it continues to add subtasks.

How it decides
--------------
The rule reads the event `IneffectiveScaling`, which the autoscaler creates if the increase is below
`job.autoscaler.scaling.effectiveness.threshold` (default: 10% of the expected increase).

False alarms
------------
A task that receives less input after the scale-up shows no increase either.
"""

import re
from collections import defaultdict
from typing import Final

from flowdiag.analyses.startup import autoscaling
from flowdiag.analyses.startup import helpers as h

_INCREASE: Final = re.compile(
    r"\(expected increase: (?P<expected>[^,)]{1,40}), actual increase (?P<actual>[^,)]{1,40})\)"
)
_OFF: Final = "scaling decisions is disabled"


def judge(job: h.JobStarting, limits: h.Limits) -> h.Iterator[h.Finding]:
    """Report each task that was scaled up without effect."""
    by_task: defaultdict[str, list[h.Trouble]] = defaultdict(list)
    for event in autoscaling.events_of(job.cluster, job).get("ineffective", []):
        by_task[autoscaling.task_in(event, job) or "a task"].append(event)
    for task, events in sorted(by_task.items()):
        yield _finding(job, task, events)


def _finding(job: h.JobStarting, task: str, events: list[h.Trouble]) -> h.Finding:
    last = max(events, key=lambda event: event.last_us or 0)
    text = last.values.get("said", "")
    found = _INCREASE.search(text)
    increase = ""
    if found is not None:
        expected, actual = (_rate(found[name]) for name in ("expected", "actual"))
        increase = f": {actual} records/s more instead of {expected}"
    detected = () if _OFF not in text else ("detection",)
    return h.trouble_finding(
        job.cluster,
        events,
        ongoing=True,
        severity=h.Severity.WARNING,
        subject=h.job_subject(job, "vertex", task=task),
        title=f"Scaling up {h.fmt.shorten(task, 60)} had no effect{increase}",
        why=f"scaling up {h.fmt.shorten(task, 60)} had no effect",
        cause="ineffective-scaling",
        # A finding about the actual limit explains more.
        rank=h.Rank.REPETITION,
        explain=h.explanation("ineffective-scaling"),
        measurements=(h.measurement("events", sum(e.count for e in events), "events"),),
        actions=h.remedies("ineffective-scaling", job.job, "bottleneck", *detected, place=task),
    )


def _rate(text: str) -> str:
    try:
        return h.fmt.number(round(float(text), 1))
    except ValueError:
        return text


RULE: Final = h.Rule("ST403", judge, causes=("ineffective-scaling",), needs="dated-records")
