"""One subtask, task or TaskManager holds the checkpoints up.

What it reports
---------------
The subtask, the task or the TaskManager that made checkpoints expire, what ails it (`data-skew`,
`task-hangs`, `slow-operator`, `slow-taskmanager`, `slow-sync-snapshot`, `slow-async-snapshot`,
`slow-subtask`), every signal's vote, and how sure that is. A saturated subtask whose upstream waits is
reported too when all checkpoints complete, as unaligned ones do.

Why it matters
--------------
One subtask is enough to fail the checkpoints of the whole job, and the one that is seen (late,
failing, complaining) is often a victim.

How it decides
--------------
Each signal that has something to say accuses: late messages and missing acknowledgements by their
shape along the job graph (the most upstream vertex in which some subtasks lag behind their siblings),
snapshots that lasted for half of the time-out, asynchronous parts that an abort cut off, the end of
back pressure, the busiest subtask, time per record, placement, stuck stacks. The weights stand in the
table of signals. The accused with most weight is named; votes for others count against the
confidence, by the same scale as everywhere: high takes three points and at most a fifth of them
against. The cause needs evidence of its own: records in for skew, busy time or measured durations for
the two halves of a snapshot, a subtask that is busy without taking in anything for a hang.

Failed checkpoints with at most three completed ones between are judged together.

What to do
----------
By cause. Skew: find the hot key, salt it or aggregate in two steps. Slow machine: look at its disk,
CPU, neighbours; move it away. Slow operator: more parallelism, or less work per record. Slow
snapshot: smaller state per subtask, incremental checkpoints, faster storage, no flushing in
`snapshotState`. Hang: take a thread dump of that TaskManager.

False alarms
------------
Nobody is named without a signal, and then the rule says which file or setting would tell. When kinds
of input are missing the confidence falls. A subtask can be named although the whole machine is slow,
if the machine runs but one subtask of each vertex and no metrics tell the time per record.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.checkpoints.culprit import Conviction, conviction_of, hot_spot
from flowdiag.analyses.checkpoints.signals import SIGNALS
from flowdiag.analyses.finding import (
    MAX_CITED,
    Action,
    Confidence,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    Severity,
    State,
    Subject,
    cite,
)
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.flink.episodes import Episode, all_spells, concluded
from flowdiag.analyses.flink.job import JobFacts, Status
from flowdiag.analyses.flink.kit import Job
from flowdiag.analyses.flink.options import option
from flowdiag.analyses.rule import Limits, Rule, Signal

# Episodes are judged one by one up to here; of more, the last ones tell what is the matter now.
_MOST_SPELLS: Final = 40


def judge(job: Job, limits: Limits) -> Iterator[Finding | Inconclusive]:
    """One finding per job and culprit."""
    sick = [n for n, e in enumerate(all_spells(job)) if e.count(Status.EXPIRED)]
    if not sick:
        found = hot_spot(job)
        # A whole task that is saturated works as fast as it can: catching up does that.
        if (
            found is not None
            and found.suspect is not None
            and found.suspect.kind != "task"
            and found.confidence is not Confidence.LOW
        ):
            yield _hot(job, found)
        elif found is not None and found.missing is not None:
            yield Inconclusive(reason=found.missing, remedy=found.remedy, job=job.key)
        return
    yield from _judge(job, sick[-_MOST_SPELLS:])


def _judge(job: JobFacts, numbers: list[int]) -> Iterator[Finding | Inconclusive]:
    named: dict[tuple[object, str | None], list[Conviction]] = {}
    unnamed: list[Conviction] = []
    for number in numbers:
        conviction = conviction_of(job, number)
        if conviction.suspect is None:
            unnamed.append(conviction)
        else:
            named.setdefault((conviction.suspect, conviction.cause), []).append(conviction)
    for group in named.values():
        yield _finding(job, group)
    # What was over before long, or stands among named ones, needs no answer of its own.
    serious = [c for c in unnamed if _severity(job, [c.episode]) is not Severity.INFO]
    if serious and not named:
        last = serious[-1]
        yield Inconclusive(
            reason=last.missing or "no signal",
            remedy=last.remedy,
            job=job.key,
        )


def _severity(job: JobFacts, series: list[Episode]) -> Severity:
    expired = sum(e.count(Status.EXPIRED) for e in series)
    return j.severity_of(job, series, expired, len(concluded(job)))


def _finding(job: JobFacts, group: list[Conviction]) -> Finding:
    best = max(group, key=lambda c: (c.confidence.weight, len(c.episode.checkpoints)))
    series = [conviction.episode for conviction in group]
    expired = sum(e.count(Status.EXPIRED) for e in series)
    subject = best.subject or j.job_subject(job)
    cited = cite((ref, None) for conviction in group for ref in conviction.refs)
    ended = j.ends(c for e in series for c in e.checkpoints)
    evidence = (*cited[:7], *ended[:3]) if cited else ended[:MAX_CITED]
    return Finding(
        job=job.key,
        severity=_severity(job, series),
        state=j.state_of(series),
        subject=subject,
        title=_title(best, f"held up {j.count_text(expired, 'checkpoint')}"),
        why=best.why,
        cause=best.cause,
        confidence=best.confidence,
        rank=Rank.MECHANISM,
        first_us=series[0].first_us,
        last_us=series[-1].last_us,
        count=expired,
        explain=explanation(best, subject),
        measurements=_measurements(best),
        evidence=evidence,
        evidence_total=len(cited) + len(ended),
        actions=actions(job, best, subject),
        votes=best.votes,
    )


def _hot(job: JobFacts, found: Conviction) -> Finding:
    subject = found.subject or j.job_subject(job)
    cited = cite((ref, None) for ref in found.refs)
    return Finding(
        job=job.key,
        severity=Severity.WARNING,
        state=State.ONGOING,
        subject=subject,
        title=_title(found, "is saturated while upstream waits; checkpoints complete all the same"),
        why=found.why,
        cause=found.cause,
        confidence=found.confidence,
        rank=Rank.MECHANISM,
        first_us=job.first_us,
        last_us=job.last_us,
        explain=explanation(found, subject)
        + " No checkpoint fails for it (yet), but the job cannot go faster than this.",
        measurements=_measurements(found),
        evidence=cited,
        ranked=True,
        actions=actions(job, found, subject),
        votes=found.votes,
    )


def _title(conviction: Conviction, what: str) -> str:
    subject = conviction.subject
    if subject is None:
        return what
    if subject.kind == "taskmanager":
        name = f"TaskManager {j.place_text(subject.taskmanager, subject.host)}"
    else:
        name = j.subtask_text(subject.task, subject.subtask_index, subject.parallelism)
    cause = f" ({conviction.cause})" if conviction.cause else ""
    return f"{name} {what}{cause}"


def _measurements(conviction: Conviction) -> tuple[Measurement, ...]:
    units = {
        "busy": ("share", "mean while checkpoints failed"),
        "back-pressured": ("share", "mean while checkpoints failed"),
        "records-ratio": ("ratio", "records in, against the mean of its siblings"),
        "queue-ratio": ("ratio", "queued buffers, against the median sibling"),
        "time-per-record-ratio": ("ratio", "against siblings on other TaskManagers"),
    }
    pro = sum(vote.weight for vote in conviction.votes if vote.weight > 0)
    contra = -sum(vote.weight for vote in conviction.votes if vote.weight < 0)
    return (
        *(
            Measurement(name=name, value=value, unit=units[name][0], population=units[name][1])
            for name, value in conviction.numbers.items()
        ),
        Measurement(name="points-for", value=pro, unit="points"),
        Measurement(name="points-against", value=contra, unit="points"),
    )


_EXPLAIN: Final = {
    "data-skew": (
        "It gets far more records than its siblings; barriers wait behind them in its input queue, "
        "and everything downstream waits for its barrier."
    ),
    "task-hangs": "It is busy without taking in records: stuck in user code or in a call that never returns.",
    "slow-subtask": (
        "It gets no more records than its siblings but needs much longer for each: its keys, its "
        "disk, or what it calls."
    ),
    "slow-operator": (
        "All its subtasks are saturated: the task is too slow for its input, and back pressure "
        "holds the barriers up along the whole way."
    ),
    "slow-taskmanager": "Subtasks of several tasks are slow on this TaskManager and nowhere else: it is the machine.",
    "slow-sync-snapshot": (
        "Its barrier arrives in time, but the synchronous part of its snapshot blocks the task for "
        "longer than the time-out."
    ),
    "slow-async-snapshot": (
        "Its barrier arrives in time and the task goes on working, but writing its state takes longer "
        "than the time-out."
    ),
}
_HALVES: Final = {
    "barrier": "Its barrier waits (behind data, or for the task); the snapshot itself was not begun.",
    "snapshot": (
        "Its barrier arrived and was passed on, but its snapshot took too long; no input says "
        "whether the synchronous or the asynchronous part."
    ),
}


def explanation(conviction: Conviction, subject: Subject) -> str:
    """What it means here."""
    text = _EXPLAIN.get(conviction.cause or "") or _HALVES.get(conviction.half or "")
    if text is None:
        text = (
            "It lags behind its siblings. Records in and busy time per subtask would tell whether "
            "its data, its machine or its snapshot is to blame."
        )
    against = [vote for vote in conviction.votes if vote.weight < 0]
    if against:
        text += f" Not all signals agree: {against[0].says}."
    return text


def actions(job: JobFacts, conviction: Conviction, subject: Subject) -> tuple[Action, ...]:
    """What to do about the cause, in order."""
    cause = conviction.cause
    unaligned = option("unaligned", job.version)
    overtake = (
        (
            Action(
                text="Meanwhile, let barriers overtake the data that waits before it",
                option=unaligned,
                current=j.configured(job, "execution.checkpointing.unaligned", unaligned),
                proposed="true",
                risk="checkpoints carry in-flight data; no help against slow snapshots",
                restart_needed=True,
                verify="checkpoints complete while the subtask stays busy",
            ),
        )
        if unaligned is not None
        else ()
    )
    place = j.place_text(subject.taskmanager, subject.host)
    if cause == "data-skew":
        return (
            Action(
                text="Find the hot key: count records per key at this task; then salt it, or "
                "aggregate in two steps",
                verify="records in of this subtask come near those of its siblings",
            ),
            *overtake,
        )
    if cause == "task-hangs":
        return (
            Action(
                text=f"Take a thread dump of the TaskManager ({place}) and look for this task's thread",
                verify="the thread leaves the method it was stuck in",
            ),
            Action(
                text="Give every blocking call of the user code a time-out, or make it asynchronous"
            ),
        )
    if cause == "slow-operator":
        return (
            Action(
                text="Raise the parallelism of this task, or make its work per record cheaper "
                "(batching, caching, asynchronous I/O)",
                restart_needed=True,
                verify="busy time of its subtasks falls below 80 %",
            ),
            *overtake,
        )
    if cause == "slow-taskmanager":
        return (
            Action(
                text=f"Look at the machine ({place}): CPU steal, throttling, disk, garbage collection, "
                "neighbours; then take it out of service",
                risk="its subtasks are restarted elsewhere",
                restart_needed=True,
                verify="the same subtasks are as fast as their siblings on another machine",
            ),
        )
    if cause in ("slow-async-snapshot", "slow-sync-snapshot"):
        what = (
            "Look at where this subtask writes its state: storage, network, disk of the machine, "
            "size of its state compared with its siblings'"
            if cause == "slow-async-snapshot"
            else "Look at what runs in the task's thread at a snapshot: flushing in snapshotState or "
            "preCommit, timers on the heap, many small states, a pause of the JVM"
        )
        return (
            Action(text=what, verify="its synchronous and asynchronous durations fall"),
            Action(
                text="Write only what changed (RocksDB and other incremental backends)",
                option=option("incremental", job.version),
                current=j.configured(
                    job, "state.backend.incremental", "execution.checkpointing.incremental"
                ),
                proposed="true",
                risk="restoring takes longer",
                restart_needed=True,
                verify="checkpointed bytes fall well below the full size",
            ),
        )
    return (
        Action(
            text=f"Compare it with its siblings: records in, busy time, state size; then look at {place}",
            verify="it acknowledges together with its siblings",
        ),
        *overtake,
    )


RULE: Final = Rule("CP201", judge, signals=tuple(Signal(*signal) for signal in SIGNALS), core=True)
