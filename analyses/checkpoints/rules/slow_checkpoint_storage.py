"""Writing the state is slow everywhere, or on one TaskManager.

What it reports
---------------
Snapshots whose asynchronous part is slow although they write little data. If it is slow on nearly all subtasks with
state, the storage is slow or throttles requests. If it is slow only on the subtasks of one TaskManager, the disk or
the network of that TaskManager is slow.

Why it matters
--------------
Slow writes look like large state, so engineers change the job instead of the limits of the storage.

How it decides
--------------
The rule uses the per-subtask details of checkpoints in which at least `subtasks` subtasks wrote state.

A checkpoint implicates the storage if three conditions hold. The asynchronous part takes at least `async-duration` on
`subtask-share` of these subtasks and in the median. Its median share of their end-to-end time is at least `share`.
The median throughput is at most `throughput`.

A checkpoint implicates a TaskManager if at least two such subtasks run there and all of them are slow. The fastest of
them must take at least `async-duration`, and at least `host-ratio` as long as the slowest subtask on the other
TaskManagers.

The rule reports the problem if at least `checkpoints` checkpoints, and at least `agreement` of those with details,
implicate the same storage or TaskManager. A storage that is slow only for some requests slows down other subtasks in
each checkpoint. The rule then counts checkpoints in which any subtask with state writes slowly by these limits. At
least `subtasks` different subtasks on several TaskManagers must be slow in turn, and none of them most of the time.
Only checkpoints since one of the slow ones count for `agreement`.

Thread dumps taken while a checkpoint is overdue or until it expires show the threads that wait for the storage: those of
the JobManager that prepare its directory or write its metadata, and those of the TaskManagers that write its state. At least two dumps of
one process must agree.

Without such details, interrupted uploads indicate slow storage. Hadoop's S3A file system logs them when a
checkpoint expires. At least `checkpoints` uploads must be interrupted, and at least as many checkpoints must
expire. S3A retries throttled requests for minutes without logging anything.

What to do
----------
Check the metrics of the storage: throttled requests, latency and bandwidth. Write fewer and larger files
(`state.storage.fs.memory-threshold` and its successors), use entropy in object store paths, or reduce the
state.

False alarms
------------
None known. The rule also reports small state that is written over a slow network link. CP105 covers state that
grows. Unaligned checkpoints do not count, because their asynchronous part also waits for the barriers of all
channels.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from flowdiag.analyses.checkpoints.detect.storage_waits import AGREEING, StorageWait, storage_wait
from flowdiag.analyses.checkpoints.detect.writes import (
    Rows,
    are_slow_in_turn,
    rows_with_state,
    slow_rows,
    slow_taskmanager_of,
    subtask_count,
    writes_slowly,
    written_ms,
)
from flowdiag.analyses.checkpoints.storage import DIRECTORY_KEYS
from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.settings import setting, uses_unaligned_checkpoints
from flowdiag.analyses.flink.tasks.pressure import median


class Limits(h.Limits):
    async_duration: float = h.limit(
        5000.0, "ms", "minimum write time; healthy storage writes gigabytes in 5 s"
    )
    share: float = h.limit(
        0.5, "share", "minimum share of the end-to-end time spent writing; the rest is waiting"
    )
    throughput: float = h.limit(
        5_242_880.0, "bytes/s", "maximum throughput of a slow write; healthy storage is much faster"
    )
    host_ratio: float = h.limit(
        5.0, "ratio", "minimum ratio of write times between hosts; a factor of two is normal"
    )
    checkpoints: float = h.limit(
        2, "checkpoints", "minimum number of affected checkpoints; one may be a coincidence"
    )
    subtasks: float = h.limit(
        3, "subtasks", "minimum number of subtasks with state; one or two slow writes prove nothing"
    )
    subtask_share: float = h.limit(
        0.8, "share", "minimum share of subtasks with slow writes; small states are always fast"
    )
    agreement: float = h.limit(
        0.5, "share", "minimum share of checkpoints that agree; less is a temporary slowdown"
    )


def judge(job: h.Job, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield at most one finding per job."""
    if uses_unaligned_checkpoints(job, job.checkpoints):
        return
    found = ((n, rows) for n, rows in rows_with_state(job).items() if len(rows) >= limits.subtasks)
    detailed = dict(sorted(found))
    by_place = _slow_places(detailed, limits)
    enough = max(limits.checkpoints, limits.agreement * len(detailed))
    for manager, checkpoints in sorted(by_place.items(), key=lambda pair: pair[0] is not None):
        if len(checkpoints) >= enough:
            last = detailed[max(checkpoints)]
            yield _finding(job, manager, checkpoints, median(map(written_ms, last)), len(detailed))
            return
    if (finding := _moving_writes_finding(job, detailed, limits)) is not None:
        yield finding
        return
    if (wait := storage_wait(job)) is not None:
        yield _waits(job, wait)
        return
    interrupted = h.incidents(job, "upload-interrupted")
    expired = [c for c in job.checkpoints if c.status is h.Status.EXPIRED]
    if len(interrupted) >= limits.checkpoints and len(expired) >= limits.checkpoints:
        yield _unfinished(job, interrupted, len(expired))


def _moving_writes_finding(
    job: h.Job, detailed: dict[int, Rows], limits: Limits
) -> h.Finding | None:
    """Report slow writes that move from subtask to subtask, over the longest period up to the end of the input."""
    slow = slow_rows(
        detailed, async_ms=limits.async_duration, share=limits.share, throughput=limits.throughput
    )
    for first in slow:
        recent = {number: rows for number, rows in detailed.items() if number >= first}
        found = {number: rows for number, rows in slow.items() if number >= first}
        enough = len(found) >= max(limits.checkpoints, limits.agreement * len(recent))
        if enough and are_slow_in_turn(recent, found, limits.subtasks):
            written = median(written_ms(row) for rows in found.values() for row in rows)
            return _finding(job, None, found, written, len(recent), in_turn=True)
    return None


def _slow_places(detailed: dict[int, Rows], limits: Limits) -> dict[str | None, dict[int, Rows]]:
    """Return the slow checkpoints by TaskManager. The key None has checkpoints that were slow on all TaskManagers."""
    by_place: defaultdict[str | None, dict[int, Rows]] = defaultdict(dict)  # None: everywhere
    for number, rows in detailed.items():
        slow = [row for row in rows if written_ms(row) >= limits.async_duration]
        if len(slow) >= limits.subtask_share * len(rows) and writes_slowly(
            rows, async_ms=limits.async_duration, share=limits.share, throughput=limits.throughput
        ):
            by_place[None][number] = slow
        elif (
            manager := slow_taskmanager_of(
                rows, async_ms=limits.async_duration, times=limits.host_ratio
            )
        ) is not None:
            by_place[manager][number] = [row for row in slow if row.taskmanager == manager]
    return by_place


def _storage(job: h.Job) -> tuple[h.Subject, str]:
    """Return the storage as a subject, and its configured location in parentheses."""
    known = setting(job, *DIRECTORY_KEYS)
    where = f" ({h.fmt.shorten(known.value, 80)})" if known is not None and known.value else ""
    subject = h.Subject(kind="storage", job_id=job.key.job_id or None, job_name=job.name)
    return subject, where


def _waits(job: h.Job, wait: StorageWait) -> h.Finding:
    """Report the threads that wait for the storage while a checkpoint is overdue."""
    subject, where = _storage(job)
    numbers = h.fmt.listed((str(c.id) for c in wait.checkpoints[-3:]), " and ")
    name = "checkpoint" if len(wait.checkpoints) == 1 else "checkpoints"
    over = any(c.id > wait.checkpoints[-1].id for c in job.completed)
    state = h.State.RECOVERED if over else h.State.ONGOING
    fatal = not over and h.fatal_at_end(job, h.episodes(job))
    votes = h.votes_for({"storage-awaited": wait.clause}, RULE.signals)
    return h.job_finding(
        job,
        subject=subject,
        severity=h.grade(state=state, share=1, fatal=fatal),
        state=state,
        title=f"The checkpoint storage{where} {'did' if over else 'does'} not complete the requests of {name} {numbers}",
        why=wait.clause,
        cause="slow-checkpoint-storage",
        confidence=h.weigh(votes),
        rank=h.Rank.ROOT_CAUSE,
        first_us=wait.checkpoints[0].triggered_us,
        last_us=wait.stacks[-1].time_us,
        count=len(wait.checkpoints),
        explain="Clients of object stores repeat throttled and failed requests for minutes without a record in the log. "
        "The JobManager sends no barrier until the directory of a checkpoint exists, and the checkpoint is incomplete until its "
        "metadata is written.",
        measurements=(h.measurement("thread-dumps", len(wait.stacks), "dumps", AGREEING),),
        evidence=h.cite((stack.ref, stack.time_us) for stack in wait.stacks),
        actions=h.remedies("slow-checkpoint-storage", job),
        votes=votes,
    )


def _unfinished(job: h.Job, interrupted: Sequence[h.Incident], expired: int) -> h.Finding:
    """Report uploads that were interrupted because their checkpoint expired."""
    count = h.fmt.plural(len(interrupted), "upload")
    series = h.episodes(job)
    subject, where = _storage(job)
    votes = h.votes_for({"slow-everywhere": f"{count} did not finish in time"}, RULE.signals)
    return h.episode_finding(
        job,
        series,
        len(interrupted),
        fatal=h.fatal_at_end(job, series),
        subject=subject,
        title=f"The checkpoint storage{where} is slow: {count} did not finish before the timeout",
        why=f"the checkpoint storage{where} is slow: {count} did not finish before the timeout",
        cause="slow-checkpoint-storage",
        confidence=h.weigh(votes),
        rank=h.Rank.ROOT_CAUSE,
        explain="The tasks took their snapshots in time. The uploads to the storage were still running, "
        "or were retried by the client, when the checkpoints expired.",
        measurements=(
            h.measurement("interrupted-uploads", len(interrupted), "uploads"),
            h.measurement("expired", expired, "checkpoints"),
        ),
        evidence=h.cite((incident.ref, incident.time_us) for incident in interrupted),
        actions=h.remedies("slow-checkpoint-storage", job),
        votes=votes,
    )


def _finding(
    job: h.Job,
    manager: str | None,
    slow: dict[int, Rows],
    middle: float | None,
    seen: int,
    *,
    in_turn: bool = False,
) -> h.Finding:
    hosts = (a.host for a in job.attempts if manager and a.taskmanager == manager and a.host)
    host = next(hosts, None)
    last = max((c.id for c in job.checkpoints if c.status is not h.Status.IN_FLIGHT), default=0)
    state = h.State.ONGOING if max(slow) >= last - 1 else h.State.RECOVERED
    series = h.episodes(job)
    fatal = h.fatal_at_end(job, series) and any(c.id in slow for c in series[-1].checkpoints)
    over = f"{seen} with per-subtask details"
    measurements = [h.measurement("slow-checkpoints", len(slow), "checkpoints", over=over)]
    place, took = h.fmt.place(manager, host), h.fmt.duration(middle)
    if manager is None:
        cause = "slow-checkpoint-storage"
        subject, where = _storage(job)
        who = f"{subtask_count(slow)} subtasks in turn" if in_turn else "all subtasks"
        title = f"Writing state to the checkpoint storage{where} is slow on {who}: median {took}"
        why = f"the checkpoint storage{where} is slow: the median asynchronous part on {who} took {took}"
        votes = h.votes_for({"slow-everywhere": why}, RULE.signals)
        actions = h.remedies(cause, job)
        measurements.append(h.measurement("median-asynchronous-part", middle, "ms"))
    else:
        cause, subject = "slow-taskmanager", h.taskmanager_subject(job, manager, host)
        title = f"Writing state is slow on {place} and nowhere else"
        clause = f"all subtasks on {place} write slowly, and all others write fast"
        votes = h.votes_for({"slow-on-one-taskmanager": clause}, RULE.signals)
        why = f"{place}: {clause}"
        actions = (
            *h.remedies(cause, job, "look-at-disk", place=place),
            *h.remedies("slow-checkpoint-storage", job, "fewer-files"),
        )
    return h.job_finding(
        job,
        subject=subject,
        severity=h.grade(state=state, share=len(slow) / max(1, len(job.concluded)), fatal=fatal),
        state=state,
        title=title,
        why=why,
        cause=cause,
        confidence=h.weigh(votes),
        rank=h.Rank.SHARED_MECHANISM,
        count=len(slow),
        explain="Synchronous parts and barriers are fast. Writes are slow, although little data is "
        "written.",
        measurements=tuple(measurements),
        evidence=h.cite((row.cited, None) for rows in slow.values() for row in rows),
        ranked=True,
        actions=actions,
        votes=votes,
    )


RULE: Final = h.Rule(
    "CP306",
    judge,
    Limits,
    causes=("slow-checkpoint-storage", "slow-taskmanager"),
    needs="checkpoints",
    severity=h.Severity.CRITICAL,
)
