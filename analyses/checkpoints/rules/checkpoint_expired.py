"""Checkpoints expire before they complete.

What it reports
---------------
Checkpoints that were cancelled since not every subtask had acknowledged within the time-out, how
many of them, how many in a row, and whether any has completed since.

Why it matters
--------------
Without a completed checkpoint a failure throws the job back further and further, files and
transactions of exactly-once sinks stay open, and from some number on Flink fails the job
(`execution.checkpointing.tolerable-failed-checkpoints`, 0 by default).

How it decides
--------------
It counts the checkpoints that the JobManager declared expired. *Ongoing* means that none completed
after the last one. It is critical when at least `at-the-end` checkpoints failed at the end of the
input without a completed one after them, a warning when it is ongoing or above 1 % of the
checkpoints, and information otherwise. Who is to blame is not decided here: see CP201.

What to do
----------
Find the culprit first (CP201): a longer time-out only hides it. If barriers wait behind data, let
them overtake it (unaligned checkpoints, from 1.11) or keep less data in flight (buffer debloating,
from 1.14). Raise the time-out when checkpoints are slow for a good reason, as with large state.

False alarms
------------
Up to five unsuccessful checkpoints between a start or a restore and the first completed one are
what catching up costs; they are reported as information. Savepoints are counted too: an expired
savepoint is an expired savepoint.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.finding import (
    Action,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    State,
)
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.flink.episodes import Episode, concluded, episodes
from flowdiag.analyses.flink.job import Checkpoint, JobFacts, Status
from flowdiag.analyses.flink.kit import Job
from flowdiag.analyses.flink.options import option
from flowdiag.analyses.rule import Limits, Rule, limit


class CheckpointExpiredLimits(Limits):
    """What CP101 compares with."""

    at_the_end: float = limit(
        j.AT_THE_END,
        "checkpoints",
        "one failed checkpoint costs one interval; a second one in a row at the end of the "
        "input is a job that does not complete checkpoints",
    )


def judge(job: Job, limits: CheckpointExpiredLimits) -> Iterator[Finding | Inconclusive]:
    """One finding per job."""
    series = [e for e in episodes(job) if e.count(Status.EXPIRED)]
    if series:
        yield _finding(job, series, limits)
    elif not job.checkpoints and not job.cluster.has_jobmanager_log and not job.cluster.has_rest:
        yield Inconclusive(
            reason="no input says how checkpoints ended",
            remedy="add the JobManager's log, the answers of /jobs/:id/checkpoints, or "
            "the archive of the job",
            job=job.key,
        )


def _finding(job: JobFacts, series: list[Episode], limits: CheckpointExpiredLimits) -> Finding:
    expired = [c for e in series for c in e.checkpoints if c.status is Status.EXPIRED]
    population = len(concluded(job))
    state = j.state_of(series)
    in_a_row = max(len(e.checkpoints) for e in series)
    at_the_end = len(series[-1].checkpoints) if state is State.ONGOING else 0
    fatal = state is State.ONGOING and (at_the_end >= limits.at_the_end or j.job_failed(job))
    timeout = j.timeout_ms(job)
    cited = j.ends(expired)
    title = f"{len(expired)} of {j.count_text(population, 'checkpoint')} expired"
    if at_the_end:
        title += f", none has completed since the last {at_the_end}"
    elif in_a_row > 1:
        title += f", up to {in_a_row} in a row, then they completed again"
    else:
        title += ", then they completed again"
    return Finding(
        job=job.key,
        severity=j.severity_of(job, series, len(expired), population, fatal=fatal),
        state=state,
        subject=j.job_subject(job),
        title=title,
        explain=(
            "A checkpoint expires when one subtask has not acknowledged it within the time-out: "
            "either its barrier waits behind data (back pressure, skew, a task that hangs), or "
            "its snapshot takes too long. CP201 says who, as far as the inputs tell."
            + _clustered(expired)
        ),
        rank=Rank.SYMPTOM,
        first_us=series[0].first_us,
        last_us=series[-1].last_us,
        count=len(expired),
        measurements=(
            Measurement(
                name="expired-checkpoints",
                value=len(expired),
                unit="checkpoints",
                population=f"{population} that completed or failed",
            ),
            Measurement(
                name="unsuccessful-at-the-end",
                value=at_the_end,
                unit="checkpoints",
                threshold=limits.at_the_end,
                population="since the last completed checkpoint",
            ),
            Measurement(name="longest-series", value=in_a_row, unit="checkpoints"),
            Measurement(name="episodes", value=len(series), unit="episodes"),
            *((Measurement(name="timeout", value=timeout, unit="ms"),) if timeout else ()),
        ),
        evidence=cited,
        actions=_actions(job),
    )


def _clustered(expired: list[Checkpoint]) -> str:
    """A sentence if the expiries keep to a time of day: a nightly job, a backup, a peak."""
    moments = [c.triggered_us for c in expired if c.triggered_us is not None]
    days = {moment // _DAY_US for moment in moments}
    if len(moments) < _MANY or len(days) < _DAYS:
        return ""
    hours = Counter(moment % _DAY_US // 3_600_000_000 for moment in moments)
    begin = max(range(24), key=lambda hour: (_within(hours, hour), hours[hour] > 0, -hour))
    inside = _within(hours, begin)
    if inside * 4 < len(moments) * 3:
        return ""
    return (
        f" {inside} of {len(moments)} were triggered between {begin:02d}:00 and "
        f"{(begin + _HOURS) % 24:02d}:00 UTC, on {len(days)} days: look for what runs at that time."
    )


_DAY_US: Final = 86_400_000_000
_MANY: Final = 6  # fewer expiries keep to a time of day by chance
_DAYS: Final = 3
_HOURS: Final = 3  # an eighth of the day; three quarters of the expiries in it are no chance


def _within(hours: Counter[int], begin: int) -> int:
    return sum(hours[(begin + offset) % 24] for offset in range(_HOURS))


def _actions(job: JobFacts) -> tuple[Action, ...]:
    found = [
        Action(
            text="Look at the culprit that CP201 names before touching any option",
            verify="acknowledgements of all subtasks arrive within the time-out",
        )
    ]
    unaligned = option("unaligned", job.version)
    if unaligned is not None:
        found.append(
            Action(
                text="Let barriers overtake the data that waits in front of slow subtasks",
                option=unaligned,
                current=j.configured(job, "execution.checkpointing.unaligned", unaligned),
                proposed="true",
                risk="checkpoints carry in-flight data: more to store and to restore; "
                "no help against slow snapshots",
                restart_needed=True,
                verify="start delay and alignment duration per subtask fall",
            )
        )
    debloat = option("debloat", job.version)
    if debloat is not None:
        found.append(
            Action(
                text="Keep less data in flight, so that barriers queue for a shorter time",
                option=debloat,
                current=j.configured(job, debloat),
                proposed="true",
                risk="smaller buffers cost some throughput",
                restart_needed=True,
                verify="start delay per subtask falls",
            )
        )
    timeout = option("timeout", job.version)
    found.append(
        Action(
            text="Raise the time-out only if the slow part is slow for a good reason",
            option=timeout,
            current=j.configured(job, "execution.checkpointing.timeout", *j.TIMEOUT_KEYS)
            or (j.duration_text(j.timeout_ms(job)) if j.timeout_ms(job) else None),
            risk="a failure throws the job back further",
            restart_needed=True,
            verify="checkpoints complete, however late",
        )
    )
    return tuple(found)


RULE: Final = Rule("CP101", judge, CheckpointExpiredLimits, core=True)
