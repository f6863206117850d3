"""Checkpoints expire before they complete.

What it reports
---------------
Checkpoints that were canceled because at least one subtask did not acknowledge within the timeout. The
finding shows how many expired, how many failed in a row, and whether any has completed since.

Why it matters
--------------
While no checkpoint completes, each failure of the job loses more progress, and files and transactions of
exactly-once sinks stay open. Flink fails the job after more failures than
`execution.checkpointing.tolerable-failed-checkpoints` allows (0 by default).

How it decides
--------------
The rule counts the checkpoints that the JobManager declared expired. They are *ongoing* if no checkpoint
completed after the last one.

The finding is critical if at least `at-the-end` checkpoints failed at the end of the input and none completed
after them. It is a warning if expiries are ongoing or affect more than 1% of the checkpoints, and info
otherwise. If at least six checkpoints expired on at least three days, and three quarters of them in the same three
hours, the finding shows the time of day. CP201 determines the culprit.

Failures that come back three times, and take a tenth of the checkpoints since then, are ongoing until the job ends, even
if a checkpoint completed last.

What to do
----------
Find the culprit first (CP201): a longer timeout only hides it. If barriers wait behind data, enable unaligned
checkpoints (1.11+) so that barriers overtake the data, or enable buffer debloating (1.14+) to reduce in-flight
data. Raise the timeout only if slow checkpoints are expected, for example because the state is large.

False alarms
------------
While a job catches up after a start or a restore, a few checkpoints may fail. Up to five failures before the
first completed checkpoint are reported as info. Expired savepoints count too.
"""

from typing import Final

from flowdiag.analyses.checkpoints.culprit import names_culprit
from flowdiag.analyses.checkpoints.detect.time_of_day import time_of_day_text
from flowdiag.analyses.flink import helpers as h


class Limits(h.Limits):
    at_the_end: float = h.at_the_end_limit()


def judge(job: h.Job, limits: Limits) -> h.Results:
    """Yield one finding per job."""
    series = [e for e in h.episodes(job) if e.count(h.Status.EXPIRED)]
    if not series:
        if not (job.checkpoints or job.cluster.has_jobmanager_log or job.cluster.has_rest):
            yield h.Inconclusive(
                reason="no input shows how checkpoints ended",
                checks=("checkpoint-statistics", "jobmanager-log"),
                job=job.key,
            )
        return
    expired = [c for e in series for c in e.checkpoints if c.status is h.Status.EXPIRED]
    population, timeout = len(job.concluded), job.timeout_ms
    in_a_row = max(len(e.checkpoints) for e in series)
    at_the_end = h.unsuccessful_at_end(series)
    over = f"{population} that completed or failed"
    recurs = h.keeps_coming_back(job, series)
    unsuccessful = h.measurement(
        "unsuccessful-at-the-end",
        at_the_end,
        "checkpoints",
        limits.at_the_end,
        "since the last completed checkpoint",
    )
    # CP201 lists the remedies for a culprit. Without a culprit, no option is known to help.
    named = names_culprit(job)
    current = h.CurrentValue(h.fmt.duration(timeout), h.Origin.OBSERVED) if timeout else None
    yield h.episode_finding(
        job,
        series,
        len(expired),
        fatal=h.fatal_at_end(job, series, limits.at_the_end),
        title=f"{len(expired)} of {h.fmt.plural(population, 'checkpoint')} expired"
        f"{_outcome(job, at_the_end, in_a_row, recurs=recurs)}",
        explain=h.text("CP101.expires") + time_of_day_text(expired),
        rank=h.Rank.SYMPTOM,
        measurements=(
            h.measurement("expired-checkpoints", len(expired), "checkpoints", over=over),
            unsuccessful,
            h.measurement("longest-series", in_a_row, "checkpoints"),
            h.measurement("episodes", len(series), "episodes"),
            *((h.measurement("timeout", timeout, "ms"),) if timeout else ()),
        ),
        evidence=h.end_records(expired),
        actions=h.shared_remedies(job, "culprit-first")
        if named
        else (
            *h.shared_remedies(job, "find-culprit"),
            *h.shared_remedies(job, "more-time", current=current),
        ),
    )


def _outcome(job: h.Job, at_the_end: int, in_a_row: int, *, recurs: bool) -> str:
    """Return the end of a title: whether any checkpoint has completed since."""
    if not at_the_end:
        often = f", up to {in_a_row} in a row" if in_a_row > 1 else ""
        return f"{often}; {'they expire again after each recovery' if recurs else 'later checkpoints completed'}"
    if not job.completed:
        return "; none has completed"
    if at_the_end == 1:
        return ", including the last checkpoint"
    return f"; none of the last {at_the_end} completed"


RULE: Final = h.Rule(
    "CP101", judge, Limits, core=True, needs="ended-checkpoints", severity=h.Severity.CRITICAL
)
