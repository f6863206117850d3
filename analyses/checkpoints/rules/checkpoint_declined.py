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
task that failed (that is CP301). Critical when at least `at-the-end` checkpoints in a row were
unsuccessful at the end of the input, or the job failed then; a warning above 1% of the checkpoints.
Who threw the exception is said by CP301.

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
from typing import Final

from flowdiag.analyses.flink import helpers as h

_FAILED: Final = (h.Status.DECLINED, h.Status.FAILED)


class Declined(h.Limits):
    """What CP103 compares with."""

    at_the_end: float = h.limit(
        h.UNSUCCESSFUL_AT_END,
        "checkpoints",
        "one failed checkpoint costs one interval; a second one in a row at the end of the "
        "input is a job that does not complete checkpoints",
    )


def judge(job: h.Job, limits: Declined) -> h.Iterator[h.Finding]:
    """One finding per job."""
    series = [e for e in h.episodes(job) if e.count(*_FAILED)]
    if not series:
        return
    sick = [c for e in series for c in e.checkpoints if c.status in _FAILED]
    ids = {(c.run, c.id) for c in sick}
    declines = [
        d for d in job.declines if (d.run, d.checkpoint) in ids and not h.is_blameless(d.reason)
    ]
    who = Counter(h.subtask_name(d.attempt) for d in declines)
    why = _reasons(sick, declines)
    by = ", ".join(f"{name} {count}×" for name, count in who.most_common(5))
    listed = "; ".join(f"{text} ({count}×)" for text, count in why.most_common(3))
    none_since = h.unsuccessful_at_end(series)
    population = len(job.concluded)
    title = f"{len(sick)} of {h.fmt.plural(population, 'checkpoint')} {_word(sick)}"
    if why:
        title += f": {h.fmt.shorten(why.most_common(1)[0][0], 120)}"
    elif none_since:
        title += ", none has completed since"
    yield h.episode_finding(
        job,
        series,
        len(sick),
        fatal=h.fatal_at_end(job, series, limits.at_the_end),
        title=title,
        explain=(f"Declined by: {by}. " if by else "")
        + (f"Causes: {listed}. " if listed else "No input says why. ")
        + "One subtask that cannot snapshot its state fails the checkpoint of the whole job.",
        rank=h.Rank.SYMPTOM,
        measurements=(
            h.measurement(
                "declined-or-failed-checkpoints",
                len(sick),
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
            h.measurement("declining-subtasks", len(who), "subtasks"),
        ),
        evidence=h.cite(
            [(d.ref, d.time_us) for d in declines] + [(c.end_ref, c.ended_us) for c in sick]
        ),
        actions=_actions(job, told=bool(why)),
    )


def _actions(job: h.Job, *, told: bool) -> tuple[h.Action, ...]:
    mend = h.Action(
        text="Mend what the deepest cause names; it is the last 'Caused by' of the cited record",
        verify="the subtasks named here acknowledge",
    )
    look = h.Action(
        text="Look why they failed: the failure message of each in the web UI (open its row under Checkpoints, "
        "History), the answer of /jobs/:id/checkpoints, or the JobManager's log",
    )
    return (mend if told else look, *h.shared_remedies(job, "tolerate"))


def _word(sick: list[h.Checkpoint]) -> str:
    return "declined" if any(c.status is h.Status.DECLINED for c in sick) else "failed"


def _reasons(sick: list[h.Checkpoint], declines: list[h.Decline]) -> Counter[str]:
    """Causes with their number of checkpoints; a decline's own words before the coordinator's."""
    told = {(d.run, d.checkpoint) for d in declines if d.reason}
    found = Counter(
        {(d.run, d.checkpoint): " ".join(d.reason.split()) for d in declines if d.reason}.values()
    )
    found.update(" ".join(c.reason.split()) for c in sick if c.reason and (c.run, c.id) not in told)
    return found


RULE: Final = h.Rule("CP103", judge, Declined, core=True)
