"""A TaskManager or JobManager was lost.

What it reports
---------------
The rule names the TaskManager that disappeared, missed its heartbeats or became unreachable. It shows which
records reveal the loss, how many failures followed, and whether the job recovered. `flowdiag startup` also
reports the reason. In addition, it reports a JobManager if TaskManagers lost contact with it or if its process
restarted.

Why it matters
--------------
The task that fails first runs on a *survivor*, which lost its connection. Only the text of its exception and the
message "no longer reachable" name the lost TaskManager. Restarts that fail because of missing slots then bury
these records. A longer heartbeat timeout only hides a pause, and does not help if the process is gone.

How it decides
--------------
The rule evaluates each crisis (see CP301) that begins with a lost connection, a heartbeat timeout or a killed
container. The lost TaskManager is the peer in the exceptions or the TaskManager whose heartbeat timed out.
The rule identifies it by resource ID if available (1.15+), or else by host. If the records name several
TaskManagers, the rule reports the most frequent. A failed task alone never implicates its TaskManager.
If memory ran out, CP303 outranks this rule. The finding is critical if the job failed for good or cannot
restart. It is a warning if the loss affects over 1% of the checkpoints, and info otherwise. In reactive mode,
it is info if the TaskManager shut down on request and the job recovered.

A TaskManager also counts as lost if its own log shows that it stops while tasks run, without a signal before. If the
log contains a fatal error, this exception ended it. The loss is a consequence if a task failed on this TaskManager
within the 3 s before. Without a fatal error, code in the process ended the JVM, for example by `System.exit`.

`flowdiag startup` begins with the record in which the JobManager reports the loss while a job started or ran. It
takes the reason from records of other logs within `timeout-window` of that record:

- If the container ended or connections broke, the process is gone.
- If the TaskManager's own log shows the timeout `timeout-delay` or more after the JobManager, but within `resume-window`,
  the process was paused.
- If both sides notice the timeout at the same time, the network between them failed.
- If logged metrics show that garbage collection took much of that minute, garbage collection is the reason.

Without any of these records, the reason remains unknown. A JobManager has restarted if a new JobManager
process starts, in the same log or another, and no earlier JobManager logs anything afterwards. The restart
is only info if it interrupted no job and no TaskManager lost contact with the JobManager.

What to do
----------
Find out why the process was lost: check `kubectl describe pod`, the NodeManager's log, `dmesg` and the memory
of the host, the garbage collection log, and the network. Keep one or two spare slots so that the job can
restart at once.

False alarms
------------
The rule ignores TaskManagers that the JobManager released, idle TaskManagers that deregister, and the shutdown of
the cluster. However, `flowdiag startup` reports a TaskManager that someone shuts down while a job runs on it. A
long garbage collection looks like a loss until the TaskManager registers again. In that case, only the heartbeat was
lost.
"""

from dataclasses import replace
from functools import singledispatch
from typing import Any, Final

from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.failures.crises import (
    ROOT_WINDOW_US,
    classify_incident,
    ends_taskmanager,
)
from flowdiag.analyses.flink.failures.lost_taskmanagers import (
    Lost,
    find_lost_taskmanager,
    loss_signals,
    own_records,
)
from flowdiag.analyses.flink.failures.process_exits import Exit, exits_of
from flowdiag.analyses.flink.settings import is_reactive
from flowdiag.analyses.knowledge.exceptions import CAUSE_OF_CLASS, cause_of_class
from flowdiag.analyses.knowledge.message_advice import frame_action
from flowdiag.analyses.model.keys import Ref


class Limits(h.Limits):
    timeout_delay: float = h.limit(
        5, "s", "minimum delay until a lost process logs its timeout; only a pause takes longer"
    )
    timeout_window: float = h.limit(
        60, "s", "maximum time from the loss to the timeout: 50 s by default, plus the next check"
    )
    resume_window: float = h.limit(
        600, "s", "maximum time until a paused process logs the timeout after it resumes"
    )


@singledispatch
def judge(facts: Any, limits: Limits) -> h.Iterator[h.Finding]:
    """Report each lost process, based on the facts of the topic."""
    raise TypeError(f"no topic judges {type(facts).__name__}")


@judge.register
def judge_crises(facts: h.ClusterFacts, limits: Limits) -> h.Iterator[h.Finding]:
    """Report each lost TaskManager of a job, based on the job's crises."""
    for job in h.jobs_of(facts):
        groups: dict[Lost, list[h.Crisis]] = {}
        for crisis in job.crises:
            if crisis.kind == "taskmanager-lost":
                groups.setdefault(find_lost_taskmanager(job, crisis), []).append(crisis)
        for lost, group in groups.items():
            yield _finding(job, lost, group)
    yield from _exits(facts)


def _exits(facts: h.ClusterFacts) -> h.Iterator[h.Finding]:
    """Report the TaskManagers that ended on their own, unless a crisis of their job shows their loss."""
    for job in h.jobs_of(facts):
        exits = _exits_outside_crises(job, facts)
        ended = _ended_by_tasks(job) if exits else ()
        for follows in (False, True):
            group = [each for each in exits if (each.stop.taskmanager in ended) is follows]
            if group:
                yield _exit_finding(job, group, follows=follows)


def _ended_by_tasks(job: h.Job) -> set[str | None]:
    """Return the TaskManagers that the failure of a task ended."""
    roots = [crisis.root for crisis in job.crises if ends_taskmanager(job, crisis.root)]
    return {root.incident.taskmanager for root in roots}


def _exits_outside_crises(job: h.Job, facts: h.ClusterFacts) -> list[Exit]:
    keys = (job.key, None) if len(facts.jobs) == 1 else (job.key,)
    crises = [crisis for crisis in job.crises if crisis.kind == "taskmanager-lost"]
    exits = [each for each in exits_of(facts) if each.stop.job in keys]
    return [each for each in exits if not any(_is_in(each, one) for one in crises)]


def _exit_finding(job: h.Job, exits: list[Exit], *, follows: bool) -> h.Finding:
    """Report the TaskManagers of `exits`. `follows`: the failure of a task ended them."""
    first, last = exits[0], exits[-1]
    others = _others_text(exits[1:])
    begins = [attempt.deployed_us or 0 for attempt in job.attempts]
    continues = job.completed_after(last.time_us) or max(begins, default=0) > last.time_us
    where = first.stop.taskmanager or "an unknown TaskManager"
    votes = h.votes_for(_exit_signal(first), RULE.signals)
    return h.incident_finding(
        job,
        [each.record for each in exits],
        ongoing=not continues,
        subject=h.taskmanager_subject(job, first.stop.taskmanager, first.stop.host),
        title=f"{_event_text(where, [first])} while it ran {h.fmt.plural(first.tasks, 'subtask')}{others}",
        why=f"{where}: {votes[0].text}",
        severity=h.Severity.WARNING,
        # A consequence explains nothing.
        cause=None if follows else "taskmanager-lost",
        confidence=h.weigh(votes),
        rank=h.Rank.CONSEQUENCE if follows else h.Rank.ROOT_CAUSE,
        explain=_reason_text([first]),
        actions=_remedies(job, [first], where, "find-out"),
        votes=votes,
    )


def _is_in(each: Exit, crisis: h.Crisis) -> bool:
    """Return whether a TaskManager ended at the time of a crisis."""
    last = crisis.last_us or 0
    return (crisis.first_us or 0) - ROOT_WINDOW_US <= each.time_us <= last + ROOT_WINDOW_US


def _exit_signal(each: Exit) -> dict[str, str | None]:
    """Return the signal of a TaskManager that ended itself, with its text."""
    if each.error is not None:
        text = h.exception_text(each.error.cause)
        return {"fatal-error": f"its log contains the fatal error that ended it: {text}"}
    tasks = h.fmt.plural(each.tasks, "subtask")
    clause = f"it stopped while it ran {tasks}, without a signal or a fatal error in its log"
    return {"ended-itself": clause}


_NAMED: Final = 3  # other TaskManagers in a title
_LOST_ELSEWHERE: Final = "The tasks that failed first were running elsewhere and lost their connection to this TaskManager."
_ENDED_ITSELF: Final = (
    "A TaskManager logs each signal that stops it and each fatal error. Its log contains neither before 'Stopping "
    "TaskExecutor'. So code in the process ended the JVM, for example by System.exit."
)
_FATAL_ERROR: Final = (
    "The exception occurred where Flink cannot fail the task alone, for example while the task was closed. Flink then "
    "ends the TaskManager."
)


def _finding(job: h.Job, lost: Lost, group: list[h.Crisis]) -> h.Finding:
    last, where, known = group[-1], h.fmt.place(*lost), lost != (None, None)
    exits, others = _exits_of(job, lost, group)
    votes = _votes(lost, last, exits)
    restarts = sum(crisis.bursts for crisis in group)
    slots = sum(len(crisis.of_kind("no-resource")) for crisis in group)
    down = last.final or last.state is h.State.ONGOING
    what = _event_text(where if known else None, exits) + _others_text(others)
    followed = f"; {restarts} failures followed" if restarts > 1 else ""
    numbers = [("losses", len(group), "times"), ("failures", restarts, "restarts")]
    if slots:
        numbers.append(("failures-for-slots", slots, "failures"))
    finding = h.crisis_finding(
        job,
        group,
        subject=h.taskmanager_subject(job, *lost),
        title=f"{what}{followed}{h.outcome_text(last)}",
        why=f"{where}: {votes[0].text if votes else 'a connection broke'}" if known else None,
        cause="taskmanager-lost",
        confidence=h.weigh(votes) if known else h.Confidence.LOW,
        rank=h.Rank.CONSEQUENCE if _has_known_error(exits) else h.Rank.ROOT_CAUSE,
        explain=_reason_text(exits)
        + (f" {slots} failures due to missing slots were a consequence." if slots else ""),
        measurements=tuple(h.measurement(*number) for number in numbers),
        evidence=h.cite(_records(group, [*exits, *others])),
        actions=_remedies(job, exits, where, "find-out", "spare-slots"),
        votes=votes,
    )
    severity = _severity(job, votes, down=down, slots=slots)
    return replace(finding, severity=severity or finding.severity)


def _exits_of(job: h.Job, lost: Lost, group: list[h.Crisis]) -> tuple[list[Exit], list[Exit]]:
    """Return the exit of the lost TaskManager in its last crisis, and the exits of other TaskManagers in any crisis."""
    exits = exits_of(job.cluster)
    own = [e for e in exits if e.stop.taskmanager == lost[0] and _is_in(e, group[-1])]
    others = [
        e
        for e in exits
        if e.stop.taskmanager not in (lost[0], None) and any(_is_in(e, crisis) for crisis in group)
    ]
    return own, others


def _others_text(others: list[Exit]) -> str:
    """Return a clause about TaskManagers that ended on their own as well."""
    if not others:
        return ""
    names = [e.stop.taskmanager or "an unknown TaskManager" for e in others]
    more = f" and {h.fmt.plural(len(names) - _NAMED, 'other')}" if names[_NAMED:] else ""
    return f" (so did {h.fmt.listed(names[:_NAMED])}{more})"


def _event_text(where: str | None, exits: list[Exit]) -> str:
    if where is None:
        return "A TaskManager was lost, but no record names it"
    if exits and exits[0].error is not None:
        error = h.exception_text(exits[0].error.cause, 120)
        return f"TaskManager {where} ended after a fatal error ({error})"
    return f"TaskManager {where} {'ended on its own' if exits else 'was lost'}"


def _reason_text(exits: list[Exit]) -> str:
    if not exits:
        return _LOST_ELSEWHERE
    return _ENDED_ITSELF if exits[0].error is None else _FATAL_ERROR


def _has_known_error(exits: list[Exit]) -> bool:
    """Return whether an error with a known cause, which another rule reports, ended the TaskManager."""
    error = exits[0].error if exits else None
    return error is not None and _error_class(error) is not None


def _error_class(error: h.Incident) -> str | None:
    found = classify_incident(error)
    return found.name if found is not None and found.name in CAUSE_OF_CLASS else None


def _remedies(job: h.Job, exits: list[Exit], where: str, *others: str) -> tuple[h.Action, ...]:
    """Return the remedies of the error that ended a TaskManager, or those of `taskmanager-lost`."""
    error = exits[0].error if exits else None
    if error is None:
        own = ("own-exit",) * bool(exits)
        return h.remedies("taskmanager-lost", job, *own, *others, place=where)
    known = _error_class(error)
    cause, names = cause_of_class(known, "task-failure")
    names = names if known is not None else ("fix-error",)
    return (*frame_action(error.text), *h.remedies(cause, job, *names))


def _severity(
    job: h.Job, votes: tuple[h.Vote, ...], *, down: bool, slots: int
) -> h.Severity | None:
    """Return the severity if the job cannot restart or the loss was planned. None leaves the default."""
    if down:
        return h.Severity.CRITICAL if slots else None
    planned = is_reactive(job) and any(vote.signal == "shut-down" for vote in votes)
    return h.Severity.INFO if planned else None


def _votes(lost: Lost, crisis: h.Crisis, exits: list[Exit]) -> tuple[h.Vote, ...]:
    signals = loss_signals(lost, crisis)
    if exits:
        signals = _exit_signal(exits[0]) | signals | {"shut-down": None}
    votes = h.votes_for(signals, RULE.signals)
    # Records about other TaskManagers contradict nothing if no TaskManager is blamed.
    return votes if any(vote.weight > 0 for vote in votes) else ()


def _records(group: list[h.Crisis], exits: list[Exit]) -> h.Iterator[tuple[Ref | None, int | None]]:
    """Yield the records of the exits, then those of the losses, latest crisis first."""
    yield from ((each.record.ref, each.record.time_us) for each in exits)
    for crisis in reversed(group):
        yield from ((incident.ref, incident.time_us) for incident in own_records(crisis))
        yield from crisis.refs


RULE: Final = h.Rule(
    "CP302",
    judge,
    Limits,
    whole=True,
    causes=(
        "taskmanager-lost",
        "garbage-collection",
        "jobmanager-lost",
        "network",
        "process-paused",
    ),
    needs="dated-records",
    severity=h.Severity.CRITICAL,
)
