"""Checkpoints expire before they complete.

What it reports
---------------
Checkpoints that were cancelled because some subtask did not acknowledge within the timeout: how many,
how many in a row, and whether any has completed since.

Why it matters
--------------
Without a completed checkpoint, each failure loses more progress, and files and transactions of
exactly-once sinks stay open. After a number of failures Flink fails the job
(`execution.checkpointing.tolerable-failed-checkpoints`, 0 by default).

How it decides
--------------
It counts the checkpoints that the JobManager declared expired. *Ongoing* means that none completed
after the last one. Critical when at least `at-the-end` checkpoints failed at the end of the input and
none completed after them. A warning when ongoing or above 1% of the checkpoints, information otherwise.
If three quarters of at least six expiries, on at least three days, fall into the same three hours of
the day, the finding shows these hours. CP201 determines the culprit.

What to do
----------
Find the culprit first (CP201): a longer timeout only hides it. If barriers wait behind data, enable
unaligned checkpoints (from 1.11) so that they overtake it, or reduce in-flight data (buffer debloating, from 1.14).
Raise the timeout only when slow checkpoints are expected, as with large state.

False alarms
------------
Up to five unsuccessful checkpoints between a start or a restore and the first completed checkpoint are
the price of catching up: they are reported as information. Expired savepoints count too.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from flowdiag.analyses.checkpoints.culprit import names_culprit
from flowdiag.analyses.flink import helpers as h


class Expired(h.Limits):
    """Thresholds of CP101."""

    at_the_end: float = h.limit(
        h.UNSUCCESSFUL_AT_END,
        "checkpoints",
        "one failed checkpoint costs one interval; two in a row at the end of the input mean "
        "that the job no longer completes checkpoints",
    )


def judge(job: h.Job, limits: Expired) -> h.Iterator[h.Finding | h.Inconclusive]:
    """One finding per job."""
    series = [e for e in h.episodes(job) if e.count(h.Status.EXPIRED)]
    if series:
        yield _finding(job, series, limits)
    elif not job.checkpoints and not job.cluster.has_jobmanager_log and not job.cluster.has_rest:
        yield h.Inconclusive(
            reason="no input shows how checkpoints ended",
            remedy="add the JobManager's log, the responses of /jobs/:id/checkpoints, or the job's archive",
            job=job.key,
        )


def _finding(job: h.Job, series: list[h.Episode], limits: Expired) -> h.Finding:
    expired = [c for e in series for c in e.checkpoints if c.status is h.Status.EXPIRED]
    population = len(job.concluded)
    in_a_row = max(len(e.checkpoints) for e in series)
    none_since = h.unsuccessful_at_end(series)
    title = f"{len(expired)} of {h.fmt.plural(population, 'checkpoint')} expired"
    if none_since:
        title += _none_since(job, none_since)
    elif in_a_row > 1:
        title += f", up to {in_a_row} in a row, then they completed again"
    else:
        title += ", then they completed again"
    measurements = [
        h.measurement(
            "expired-checkpoints",
            len(expired),
            "checkpoints",
            over=f"{population} that completed or failed",
        ),
        h.measurement(
            "unsuccessful-at-the-end",
            none_since,
            "checkpoints",
            limits.at_the_end,
            over="since the last completed checkpoint",
        ),
        h.measurement("longest-series", in_a_row, "checkpoints"),
        h.measurement("episodes", len(series), "episodes"),
    ]
    if job.timeout_ms:
        measurements.append(h.measurement("timeout", job.timeout_ms, "ms"))
    return h.episode_finding(
        job,
        series,
        len(expired),
        fatal=h.fatal_at_end(job, series, limits.at_the_end),
        title=title,
        explain="A checkpoint expires when a subtask does not acknowledge it within the timeout. "
        "Either the barrier waits behind data (back pressure, skew, a task that hangs), or "
        "the snapshot takes too long. CP201 names the subtask if the inputs show it."
        + _time_of_day(expired),
        rank=h.Rank.SYMPTOM,
        measurements=tuple(measurements),
        evidence=h.end_records(expired),
        actions=_actions(job),
    )


def _none_since(job: h.Job, last: int) -> str:
    """Return the tail of a title for a job that completes no checkpoint at the end."""
    if not job.completed:
        return ", none has completed"
    if last == 1:
        return ", including the last one"
    return f"; none of the last {last} completed"


_DAY_US: Final = 86_400_000_000
_MIN_EXPIRIES: Final = 6  # fewer expiries cluster by chance
_MIN_DAYS: Final = 3
_HOURS: Final = 3  # an eighth of the day: three quarters of the expiries in it are not chance


def _time_of_day(expired: list[h.Checkpoint]) -> str:
    """Return a sentence if the expiries cluster by time of day: a nightly job, a backup, a peak."""
    moments = [c.triggered_us for c in expired if c.triggered_us is not None]
    days = {moment // _DAY_US for moment in moments}
    if len(moments) < _MIN_EXPIRIES or len(days) < _MIN_DAYS:
        return ""
    hours = Counter(moment % _DAY_US // 3_600_000_000 for moment in moments)
    begin = max(range(24), key=lambda hour: (_count_within(hours, hour), hours[hour] > 0, -hour))
    inside = _count_within(hours, begin)
    if inside * 4 < len(moments) * 3:
        return ""
    return (
        f" {inside} of {len(moments)} were triggered between {begin:02d}:00 and "
        f"{(begin + _HOURS) % 24:02d}:00 UTC, on {len(days)} days. Check what runs at that time."
    )


def _count_within(hours: Counter[int], begin: int) -> int:
    return sum(hours[(begin + offset) % 24] for offset in range(_HOURS))


def _actions(job: h.Job) -> tuple[h.Action, ...]:
    """CP201 carries the remedies for a named culprit; without one, no option is known to help."""
    if names_culprit(job):
        return (
            h.Action(
                text="Fix the culprit that CP201 names before you change any option",
                verify="all subtasks acknowledge within the timeout",
            ),
        )
    now = job.timeout_ms
    return (
        h.Action(
            text="Find the subtask that delays the barrier before you change any option: CP201 lists the "
            "input that would show it",
            verify="all subtasks acknowledge within the timeout",
        ),
        *h.shared_remedies(
            job,
            "more-time",
            current=h.Present(h.fmt.duration(now), h.Origin.OBSERVED) if now else None,
        ),
    )


RULE: Final = h.Rule("CP101", judge, Expired, core=True)
