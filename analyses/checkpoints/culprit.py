"""Who makes the checkpoints fail: every signal votes, with a published weight.

No single signal suffices. In 27 recorded runs with expired checkpoints and a known culprit, the
TaskManager with most late messages was right 19 times, wrong 5 times and silent 3 times; the subtask
with most of them 16 / 8 / 3; the busiest subtask of the metric reports 21 / 2 / 4; per-subtask
details of REST and archives, read naively, 22 / 5. So each signal that has something to say accuses
subtasks, a whole vertex or a TaskManager; the accused with most weight is convicted, what speaks
against it lowers the confidence, and where nothing speaks nobody is named.

`SIGNALS` is the voting table, shown in reports and docs; the functions named after the signals say
when each speaks. Finding the cause is a second step (`_cause`): it needs evidence of its own, and
stays None without.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from flowdiag.analyses.checkpoints.acknowledgements import Shape
from flowdiag.analyses.checkpoints.signals import (
    SPEAKERS,
    Accusation,
    Case,
    Suspect,
    at_the_abort,
    end_of_back_pressure,
    seconded,
    time_per_record,
)
from flowdiag.analyses.derived import once
from flowdiag.analyses.finding import Confidence, Subject, Vote, weigh
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.flink.episodes import Episode, all_spells, incidents
from flowdiag.analyses.flink.job import Attempt, JobFacts, SubtaskLoad
from flowdiag.analyses.flink.options import at_least
from flowdiag.analyses.flink.placement import SubtaskKey
from flowdiag.analyses.flink.pressure import (
    COSTLY,
    IDLE,
    QUEUE_TIMES,
    SKEWED,
    Load,
    cost_ratio,
    queue_ratio,
    records_ratio,
    stalled,
    unseen_end,
)
from flowdiag.analyses.keys import Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class Conviction:
    """The answer for one spell of failed checkpoints.

    Without `suspect` it is inconclusive: `missing` says why, `remedy` what would tell. `half` is
    where the time goes: `barrier`, `sync`, `async` or None.
    """

    episode: Episode
    suspect: Suspect | None = None
    cause: str | None = None
    half: str | None = None
    votes: tuple[Vote, ...] = ()
    confidence: Confidence = Confidence.LOW
    subject: Subject | None = None
    why: str | None = None
    numbers: dict[str, float] = field(default_factory=dict)
    refs: tuple[Ref, ...] = ()
    missing: str | None = None
    remedy: str | None = None


def convict(job: JobFacts, episode: Episode) -> Conviction:
    """Let every signal vote on one spell of failed checkpoints."""
    case = Case(job, episode)
    found = _answer(case, [item for signal in SPEAKERS for item in signal(case)])
    if found is not None:
        return found
    missing, remedy = _what_would_tell(case)
    return Conviction(episode=episode, missing=missing, remedy=remedy)


def conviction_of(job: JobFacts, number: int) -> Conviction:
    """Who held up one of `all_spells(job)`; it is looked at once, whoever asks."""
    known = _convictions(job)
    if number not in known:
        known[number] = convict(job, all_spells(job)[number])
    return known[number]


@once
def _convictions(job: JobFacts) -> dict[int, Conviction]:
    return {}


def hot_spot(job: JobFacts) -> Conviction | None:
    """A saturated subtask whose upstream waits, in a job whose checkpoints complete all the same.

    Returns:
        None when there is no back pressure, or where it ends is nothing to worry about; without a
        suspect when it ends where the input does not look.
    """
    episode = Episode(
        job=job.key, checkpoints=(), recovered=None, warm_up=False, since_us=job.first_us
    )
    case = Case(job, episode)
    if not any(root.measured for root in case.roots):
        task = unseen_end(case.loads, case.topology)
        if task is None or case.roots:
            return None
        return Conviction(
            episode=episode,
            missing=f"back pressure ends in {j.shorten(task)}, and not all of its subtasks are known",
            remedy="add the logs of the TaskManagers that are missing",
        )
    return _answer(case, [*end_of_back_pressure(case), *time_per_record(case)])


def _answer(case: Case, accusations: list[Accusation]) -> Conviction | None:
    suspect = _most_accused(case, accusations)
    if suspect is None:
        return None
    accusations = [*accusations, *seconded(case, suspect)]
    votes = tuple(_vote(case, suspect, item) for item in accusations)
    counted = sorted(zip(accusations, votes, strict=True), key=lambda pair: -pair[1].weight)
    pro = [item for item, vote in counted if vote.weight > 0]
    cause, half, reason = _cause(case, suspect)
    return Conviction(
        episode=case.episode,
        suspect=suspect,
        cause=cause,
        half=half,
        votes=tuple(sorted(votes, key=lambda vote: (-vote.weight, vote.signal, vote.says))),
        confidence=_confidence(case, votes),
        subject=subject_of(case, suspect),
        why=_why(case, suspect, pro, reason),
        numbers=_numbers(case, suspect),
        refs=tuple(dict.fromkeys(ref for item in pro for ref in item.refs)),
    )


# --- the vote -------------------------------------------------------------------------------------


def _most_accused(case: Case, accusations: Sequence[Accusation]) -> Suspect | None:
    """The suspect with most weight; None if nobody stands out.

    An accusation of many splits: each of them gets half of its weight. One that fits (the vertex, or
    the TaskManager, of the suspect) adds a point at most. A machine that is slow at everything
    explains the subtasks on it, unless the accused one has more to do than its siblings.
    """
    scores: dict[Suspect, list[float]] = {}
    for item in accusations:
        for suspect in item.suspects:
            score = scores.setdefault(suspect, [0.0, 0.0])
            score[0] += item.weight / (1 if len(item.suspects) == 1 else 2)
            score[1] = max(score[1], item.weight / len(item.suspects))
    for suspect, score in scores.items():
        for item in accusations:
            if suspect not in item.suspects and _agrees(case, suspect, item):
                score[0] += min(1.0, item.weight / 2)
    if not scores:
        return None
    ranked = sorted(scores, key=lambda s: (-scores[s][0], -scores[s][1], s))
    best = ranked[0]
    if best.kind == "subtask" and case.machine is not None:
        key = SubtaskKey(best.task, best.subtask_index)
        ratio = None
        if key in case.loads:
            ratio = records_ratio(case.loads[key], case.members(best.task), case.size(best.task))
        even = ratio is not None and ratio < SKEWED
        if even and case.manager_of(key) == case.machine.taskmanager:
            return Suspect(taskmanager=case.machine.taskmanager)
    named_by = {item.signal: item.weight for item in accusations if best in item.suspects}
    if named_by.keys() == {"placement"} and named_by["placement"] < 2:
        return None  # with few TaskManagers and subtasks that happens by chance
    # Nobody stands out: nobody is named. What several have in common (a task, a machine) takes a
    # signal of its own.
    tied = [other for other in ranked[1:] if scores[other] == scores[best]]
    machines = [s for s in (best, *tied) if s.kind == "taskmanager"]
    if len(machines) == 1 and all(
        _goes_with(case, s, machines[0]) for s in (best, *tied) if s is not machines[0]
    ):
        return machines[0]  # its own subtasks are all that rivals it
    return None if tied else best


def _manager(case: Case, suspect: Suspect) -> str | None:
    if suspect.kind == "taskmanager":
        return suspect.taskmanager
    if suspect.kind == "task":
        return None
    return case.manager_of(SubtaskKey(suspect.task, suspect.subtask_index))


def _agrees(case: Case, suspect: Suspect, item: Accusation) -> bool:
    """Whether an accusation of somebody else fits: the vertex, or the TaskManager, of the suspect."""
    return any(_goes_with(case, suspect, other) for other in item.suspects)


def _goes_with(case: Case, one: Suspect, other: Suspect) -> bool:
    kinds = {one.kind, other.kind}
    if kinds == {"subtask", "task"}:
        return one.task == other.task
    if kinds == {"subtask", "taskmanager"}:
        return _manager(case, one) == _manager(case, other)
    return False


def _vote(case: Case, suspect: Suspect, item: Accusation) -> Vote:
    if suspect in item.suspects:
        weight = item.weight if len(item.suspects) == 1 else max(1, item.weight - 1)
    elif _agrees(case, suspect, item):
        weight = 1
    else:
        weight = -item.weight
    return Vote(signal=item.signal, says=item.says, weight=weight)


def _confidence(case: Case, votes: Sequence[Vote]) -> Confidence:
    """What the votes add up to; never high on hints alone, or on one checkpoint unmeasured."""
    confidence = weigh(votes)
    measured = any(
        vote.weight > 0
        and vote.signal
        in ("snapshot-duration", "end-of-back-pressure", "time-per-record", "stuck-stack")
        for vote in votes
    )
    few = 0 < len(case.episode.checkpoints) < 2
    hints = all(vote.weight <= 1 for vote in votes)
    if confidence is Confidence.HIGH and (hints or (few and not measured)):
        return Confidence.MEDIUM
    return confidence


# --- the cause ------------------------------------------------------------------------------------


def _cause(case: Case, suspect: Suspect) -> tuple[str | None, str | None, str | None]:
    """What ails the suspect: cause word, slow half, and the number behind it; None where unknown."""
    if suspect.kind == "taskmanager":
        return "slow-taskmanager", None, None
    if suspect.kind == "task":
        if any(root.task == suspect.task and root.whole for root in case.roots):
            return "slow-operator", "barrier", None
        return None, None, None
    key = SubtaskKey(suspect.task, suspect.subtask_index)
    part = case.slow_parts.get(key)
    if part is not None:
        return f"slow-{part[0]}-snapshot", part[0], None
    shape = _shape_of(case, key)
    load = case.loads.get(key)
    rooted = any(load.key == key for root in case.roots for load in root.subtasks)
    # Where back pressure ends, the asynchronous part of an unaligned checkpoint waits for barriers,
    # and logs do not say whether it was one.
    if not rooted and any(
        case.topology.canonical(i.task) == key.task and i.subtask_index == key.subtask_index
        for i in case.cut_off
        if at_the_abort(case, i)
    ):
        return "slow-async-snapshot", "async", None
    ratio = (
        records_ratio(load, case.members(load.key.task), case.size(load.key.task))
        if load is not None
        else None
    )
    skewed = ratio is not None and ratio >= SKEWED
    if shape is Shape.SLOW_SNAPSHOT or (shape is Shape.ONE_LATE and load and not rooted):
        return _snapshot_half(case, load, skewed)
    if load is not None:
        if skewed and (rooted or shape is Shape.STUCK_BARRIER):
            return "data-skew", "barrier", f"{ratio:.1f} times the records of its siblings"
        if stalled(load):
            return "task-hangs", "barrier", "busy without taking in a single record"
        cost = cost_ratio(load, case.members(load.key.task))
        # Totals over its life cannot tell a slow subtask from one that hangs.
        if rooted and load.sampled and ratio is not None and cost is not None and cost >= COSTLY:
            return "slow-subtask", "barrier", f"{cost:.1f} times its siblings' time per record"
    if any(
        case.topology.canonical(i.task) == key.task and i.subtask_index == key.subtask_index
        for i in incidents(case.job, "task-stuck")
    ):
        return "task-hangs", "barrier", None
    return None, "barrier" if shape is Shape.STUCK_BARRIER or rooted else None, None


def _snapshot_half(
    case: Case, load: Load | None, skewed: bool
) -> tuple[str | None, str | None, str | None]:
    """Which half of a slow snapshot: a synchronous part keeps the task from reading its input."""
    if load is None:
        return None, "snapshot", None
    if load.measured and load.busy is not None:
        if load.works and not skewed:
            return "slow-sync-snapshot", "sync", None
        if load.busy <= IDLE:
            return "slow-async-snapshot", "async", None
        return None, "snapshot", None
    if load.queue is None or skewed:
        return None, "snapshot", None
    queue = queue_ratio(load, case.members(load.key.task))
    if queue is not None and queue >= QUEUE_TIMES:
        return "slow-sync-snapshot", "sync", f"{queue:.1f} times the queue of its siblings"
    waiting = any(
        other.waits
        for other in case.loads.values()
        if other.key.task in case.topology.upstream.get(load.key.task, ())
    )
    if queue is None and not waiting:
        return "slow-async-snapshot", "async", None
    return None, "snapshot", None


def _shape_of(case: Case, key: SubtaskKey) -> Shape:
    """The shape most of the suspect's checkpoints have; reported acknowledgements before messages."""
    for readings in (case.reported, case.late):
        shapes = Counter(reading.shape for reading in readings if key in reading.laggards)
        if shapes[Shape.SLOW_SNAPSHOT] or shapes[Shape.STUCK_BARRIER]:
            slow, stuck = shapes[Shape.SLOW_SNAPSHOT], shapes[Shape.STUCK_BARRIER]
            if slow != stuck:
                return Shape.SLOW_SNAPSHOT if slow > stuck else Shape.STUCK_BARRIER
        if shapes[Shape.ONE_LATE]:
            return Shape.ONE_LATE
    return Shape.UNKNOWN


# --- the answer -----------------------------------------------------------------------------------


def subject_of(case: Case, suspect: Suspect) -> Subject:
    """The suspect as a subject, with what is known of it."""
    job = case.job
    if suspect.kind == "taskmanager":
        hosts, named = _machines(job)
        # Up to 1.9 REST names machines by their hosts only: those are no resource ids.
        is_name = suspect.taskmanager in named or suspect.taskmanager not in hosts
        return Subject(
            kind="taskmanager",
            job_id=job.key.job_id or None,
            job_name=job.name,
            taskmanager=suspect.taskmanager if is_name else None,
            host=hosts.get(suspect.taskmanager),
        )
    vertex = next(
        (
            v.vertex_id
            for v in (job.graph.vertices if job.graph is not None else ())
            if v.task == suspect.task
        ),
        None,
    )
    size = case.size(suspect.task) or None
    if suspect.kind == "task":
        return Subject(
            kind="task",
            job_id=job.key.job_id or None,
            job_name=job.name,
            task=suspect.task,
            vertex_id=vertex,
            parallelism=size,
        )
    key = SubtaskKey(suspect.task, suspect.subtask_index)
    attempt = case.where.get(key) or Attempt(job=job.key, attempt_id="")
    load = _first_loads(job).get(key)
    return Subject(
        kind="subtask",
        job_id=job.key.job_id or None,
        job_name=job.name,
        task=suspect.task,
        vertex_id=attempt.vertex_id or vertex,
        subtask_index=suspect.subtask_index,
        parallelism=attempt.parallelism or size,
        attempt_id=attempt.attempt_id or None,
        taskmanager=attempt.taskmanager or (load.taskmanager if load else None),
        host=attempt.host or _unmangled(load.host if load else None),
    )


@once
def _machines(job: JobFacts) -> tuple[dict[str, str], frozenset[str | None]]:
    """The host of each TaskManager, and all resource ids."""
    # Attempts last, they count: the scope of a metric has the first part of a host's name only.
    places: list[Attempt | SubtaskLoad] = [*job.loads, *job.attempts]
    hosts = {place.taskmanager or place.host: place.host for place in places if place.host}
    return hosts, frozenset(place.taskmanager for place in places)


@once
def _first_loads(job: JobFacts) -> dict[tuple[str, int], SubtaskLoad]:
    return {(row.task, row.subtask_index): row for row in reversed(job.loads)}


@once
def _nameless(job: JobFacts) -> bool:
    """Whether any attempt that was late has no name."""
    return any(late.attempt.task is None for late in job.late)


@once
def _sampled(job: JobFacts) -> bool:
    """Whether any load is a series: one sample of a REST answer is none."""
    return any(row.samples > 1 for row in job.loads)


def _unmangled(host: str | None) -> str | None:
    """A host that a metric scope printed, unless its dots became `_`, which no host name holds.

    >>> _unmangled("worker-1_flink_example"), _unmangled("worker-1")
    (None, 'worker-1')
    """
    return None if host is None or "_" in host else host


def _why(case: Case, suspect: Suspect, pro: Sequence[Accusation], reason: str | None) -> str:
    """Who, in one line, with the number that convicts."""
    told = [item.about for item in pro]
    if reason is not None:
        told.insert(0, reason)
    name = case.name(suspect)
    if suspect.kind == "subtask":
        subject = subject_of(case, suspect)
        if subject.taskmanager or subject.host:
            name += f" on {j.place_text(subject.taskmanager, subject.host)}"
    return f"{name}: {', '.join(dict.fromkeys(told[:3]))}"


def _numbers(case: Case, suspect: Suspect) -> dict[str, float]:
    found: dict[str, float] = {}
    if suspect.kind == "subtask":
        load = case.loads.get(SubtaskKey(suspect.task, suspect.subtask_index))
        if load is not None:
            for name, value in (
                ("busy", load.busy if load.measured else None),
                ("back-pressured", load.pressed if load.measured else None),
                (
                    "records-ratio",
                    records_ratio(load, case.members(load.key.task), case.size(load.key.task)),
                ),
                ("queue-ratio", queue_ratio(load, case.members(load.key.task))),
            ):
                if value is not None:
                    found[name] = round(value, 3)
    if suspect.kind == "taskmanager" and case.machine is not None:
        found["time-per-record-ratio"] = round(case.machine.ratio, 2)
    return found


def _what_would_tell(case: Case) -> tuple[str, str]:
    """Why nobody was named, and the file or setting that would."""
    job = case.job
    readings = [*case.late, *case.reported]
    if readings and all(reading.whole for reading in readings):
        reason = "whole vertices are late and no subtask stands out"
    elif any(reading.laggards for reading in readings) or case.roots:
        reason = "the signals name different subtasks with the same weight"
    else:
        reason = "no input says which subtask held the checkpoints up"
    wanted = []
    if _nameless(job):
        reason = "the attempts that were late have no name in the input"
        wanted.append(
            "the part of the JobManager's log with the deployments, or the TaskManagers' logs"
        )
    if not _sampled(job):
        busy = at_least(job.version, 1, 13)
        wanted.append(
            "TaskManager logs with metric reports (the Slf4jReporter)"
            + ("" if busy is not False else ", which tell buffer usage before 1.13")
        )
    if not case.reported:
        wanted.append(
            "the answers of /jobs/:id/checkpoints/details/:checkpoint/subtasks/:vertex while the "
            "job runs, or its archive"
        )
    if not wanted:
        wanted.append(
            "DEBUG for org.apache.flink.streaming.runtime.tasks and "
            "org.apache.flink.runtime.checkpoint"
        )
    return reason, " or ".join(wanted)
