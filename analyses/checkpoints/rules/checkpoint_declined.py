"""Checkpoints are declined or fail.

What it reports
---------------
Checkpoints that a subtask declined, or that failed while they were triggered, written or finalised:
how many, the subtasks that declined, and the deepest cause each of them gave.

Why it matters
--------------
A decline kills the checkpoint for the whole job at once. From 1.14 on it counts against
`execution.checkpointing.tolerable-failed-checkpoints` like an expiry; up to 1.10 failures of the
asynchronous part did not count, so a job could run for days without a completed checkpoint.

How it decides
--------------
Declines and failed checkpoints are grouped by their cause. Reasons that are nobody's fault do not
count: the coordinator suspends or shuts down, a newer barrier arrived, tasks are not running yet,
not any more or are just closing, a limit on concurrent checkpoints or the pause between them, a
task that failed (that is CP301). Critical when it goes on at the end of the input, a warning above
1 % of the checkpoints. Who threw the exception is said by CP301.

What to do
----------
Read the deepest cause: it names the library or the storage that refused. For causes that come and
go (storage throttling) let some checkpoints fail instead of the job.

False alarms
------------
Late messages and "Ignore decline" lines after a cancel, and declines of sources that are finishing,
are not counted.
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
    cite,
)
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.flink.episodes import Episode, blameless, concluded, episodes
from flowdiag.analyses.flink.job import Checkpoint, Decline, JobFacts, Status
from flowdiag.analyses.flink.kit import Job
from flowdiag.analyses.flink.options import option
from flowdiag.analyses.rule import Limits, Rule, limit


class CheckpointDeclinedLimits(Limits):
    """What CP103 compares with."""

    at_the_end: float = limit(
        j.AT_THE_END,
        "checkpoints",
        "one failed checkpoint costs one interval; a second one in a row at the end of the "
        "input is a job that does not complete checkpoints",
    )


def judge(job: Job, limits: CheckpointDeclinedLimits) -> Iterator[Finding | Inconclusive]:
    """One finding per job."""
    series = [e for e in episodes(job) if e.count(Status.DECLINED, Status.FAILED)]
    if series:
        yield _finding(job, series, limits)


def _finding(job: JobFacts, series: list[Episode], limits: CheckpointDeclinedLimits) -> Finding:
    sick = [
        c for e in series for c in e.checkpoints if c.status in (Status.DECLINED, Status.FAILED)
    ]
    ids = {(c.run, c.id) for c in sick}
    declines = [d for d in job.declines if (d.run, d.checkpoint) in ids and not blameless(d.reason)]
    population = len(concluded(job))
    state = j.state_of(series)
    at_the_end = len(series[-1].checkpoints) if state is State.ONGOING else 0
    fatal = state is State.ONGOING and (at_the_end >= limits.at_the_end or j.job_failed(job))
    who = Counter(
        j.subtask_text(d.attempt.task, d.attempt.subtask_index, d.attempt.parallelism)
        for d in declines
    )
    why = _reasons(sick, declines)
    word = "declined" if any(c.status is Status.DECLINED for c in sick) else "failed"
    title = f"{len(sick)} of {j.count_text(population, 'checkpoint')} {word}"
    if why:
        title += f": {j.shorten(why.most_common(1)[0][0], 120)}"
    elif at_the_end:
        title += ", none has completed since"
    listed = "; ".join(f"{text} ({count}×)" for text, count in why.most_common(3))
    by = ", ".join(f"{text} {count}×" for text, count in who.most_common(5))
    cited = cite([(d.ref, d.time_us) for d in declines] + [(c.end_ref, c.ended_us) for c in sick])
    return Finding(
        job=job.key,
        severity=j.severity_of(job, series, len(sick), population, fatal=fatal),
        state=state,
        subject=j.job_subject(job),
        title=title,
        explain=(
            (f"Declined by: {by}. " if by else "")
            + (f"Causes: {listed}. " if listed else "No input says why. ")
            + "One subtask that cannot snapshot its state fails the checkpoint of the whole job."
        ),
        rank=Rank.SYMPTOM,
        first_us=series[0].first_us,
        last_us=series[-1].last_us,
        count=len(sick),
        measurements=(
            Measurement(
                name="declined-or-failed-checkpoints",
                value=len(sick),
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
            Measurement(name="declining-subtasks", value=len(who), unit="subtasks"),
        ),
        evidence=cited,
        actions=(
            Action(
                text="Mend what the deepest cause names; it is the last 'Caused by' of the "
                "cited record",
                verify="the subtasks named here acknowledge",
            ),
            Action(
                text="Let single checkpoints fail without failing the job",
                option=option("tolerable", job.version),
                current=j.configured(
                    job,
                    "execution.checkpointing.tolerable-failed-checkpoints",
                ),
                risk="a job that never completes a checkpoint goes unnoticed",
                restart_needed=True,
                verify="the job survives a failed checkpoint",
            ),
        ),
    )


def _reasons(sick: list[Checkpoint], declines: list[Decline]) -> Counter[str]:
    """Causes with their number of checkpoints; a decline's own words before the coordinator's."""
    told = {(d.run, d.checkpoint) for d in declines if d.reason}
    found = Counter(
        {(d.run, d.checkpoint): " ".join(d.reason.split()) for d in declines if d.reason}.values()
    )
    found.update(" ".join(c.reason.split()) for c in sick if c.reason and (c.run, c.id) not in told)
    return found


RULE: Final = Rule("CP103", judge, CheckpointDeclinedLimits, core=True)
