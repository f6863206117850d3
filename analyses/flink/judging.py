"""Shared helpers of the rules: subjects, evidence and grades."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import median
from typing import Final

from flowdiag.analyses.flink.failures.crises import LOOP
from flowdiag.analyses.flink.failures.episodes import Episode, concluded, episodes, finished_us
from flowdiag.analyses.flink.job import (
    Attempt,
    Checkpoint,
    Incident,
    JobFacts,
)
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.derived import once
from flowdiag.analyses.model.finding import (
    Evidence,
    Severity,
    State,
    Subject,
    cite,
    grade,
)
from flowdiag.parsers.kubernetes_requests import short_request

# One failed checkpoint costs one interval and is normal. "Completes no checkpoint at the end" needs a second
# failure without a completed checkpoint in between; otherwise, it describes only the last line of the log.
UNSUCCESSFUL_AT_END: Final = 2
DEFAULT_TIMEOUT_MS: Final = 600_000  # execution.checkpointing.timeout, 1.4 to 2.3
# After a start or a restore, this many unsuccessful checkpoints before the first completed one are
# normal, because the job reads its state and processes the backlog at full speed.
WARM_UP: Final = 5
# Episodes that take at least this share of the checkpoints since the first are one problem that comes back.
_OFTEN: Final = 0.1


def job_subject(job: JobFacts) -> Subject:
    return Subject(kind="job", job_id=job.key.job_id or None, job_name=job.name)


def subtask_subject(job: JobFacts, attempt: Attempt) -> Subject:
    """Return the most specific subject that an attempt identifies."""
    if attempt.task is None and attempt.subtask_index is None:
        kind = "taskmanager" if attempt.taskmanager else "job"
    else:
        kind = "task" if attempt.subtask_index is None else "subtask"
    return Subject(
        kind=kind,
        job_id=job.key.job_id or None,
        job_name=job.name,
        task=attempt.task,
        vertex_id=attempt.vertex_id,
        subtask_index=attempt.subtask_index,
        parallelism=attempt.parallelism,
        attempt_id=attempt.attempt_id or None,
        taskmanager=attempt.taskmanager,
        host=attempt.host,
    )


def end_records(checkpoints: Iterable[Checkpoint]) -> tuple[Evidence, ...]:
    """Return the records that ended the checkpoints, or their triggers if the end is missing."""
    return cite(
        (c.end_ref, c.ended_us) if c.end_ref is not None else (c.trigger_ref, c.triggered_us)
        for c in checkpoints
    )


def state_of(job: JobFacts, series: Sequence[Episode]) -> State:
    """Return the state of the last episode. Episodes that come back after each recovery are ongoing."""
    if not series:
        return State.RECOVERED
    return State.ONGOING if keeps_coming_back(job, series) else series[-1].state


def keeps_coming_back(job: JobFacts, series: Sequence[Episode]) -> bool:
    """Return whether checkpoints fail again after each recovery, and another failure was due when the input ended.

    A spell joins several episodes, so each separate one of them counts. Rare failures are no such series.
    """
    ids = {each for episode in series for each in episode.ids}
    found = [episode for episode in episodes(job) if episode.ids & ids and not episode.warm_up]
    over = finished_us(job) is not None or not series or series[-1].handed_on
    return not over and len(found) >= LOOP and _was_due(job, found) and _is_often(job, found)


def _was_due(job: JobFacts, found: Sequence[Episode]) -> bool:
    """Return whether the next episode was due when the input ended."""
    times = [episode.first_us or 0 for episode in found]
    apart = median(after - before for before, after in pairwise(times))
    return job.last_us is not None and job.last_us - times[-1] <= 2 * apart


def _is_often(job: JobFacts, found: Sequence[Episode]) -> bool:
    """Return whether the episodes take a considerable share of the checkpoints since the first of them."""
    first = found[0].first_us or 0
    since = [c for c in concluded(job) if (c.triggered_us or c.ended_us or 0) >= first]
    return sum(len(episode.checkpoints) for episode in found) >= _OFTEN * len(since)


def unsuccessful_at_end(series: Sequence[Episode]) -> int:
    """Return how many of the last checkpoints in a row failed."""
    return len(series[-1].checkpoints) if series and series[-1].state is State.ONGOING else 0


def fatal_at_end(
    job: JobFacts, series: Sequence[Episode], most: float = UNSUCCESSFUL_AT_END
) -> bool:
    """Return whether no checkpoint completes at the end of the input, or the job failed for good."""
    failed = unsuccessful_at_end(series)
    return failed > 0 and (failed >= most or job_failed(job))


@once
def job_failed(job: JobFacts) -> bool:
    """Return whether the job ended as FAILED, rather than canceled, finished or restarted."""
    failures = [i for i in job.incidents if i.kind == "job-failure" and final_failure(i.text)]
    if not failures:
        return False
    last = failures[-1].time_us
    return not any(
        i.kind in ("restored", "started", "restart", "submitted", "job-running")
        and i.time_us is not None
        and last is not None
        and i.time_us > last
        for i in job.incidents
    )


def final_failure(text: dict[str, str]) -> bool:
    """Return whether an incident shows the job as FAILED, not just as FAILING or RESTARTING."""
    return text.get("to_state", "FAILED").upper() == "FAILED"


def harmless_warm_up(episode: Episode) -> bool:
    """Return whether an episode is normal after a start or a restore."""
    return (
        episode.warm_up and episode.state is State.RECOVERED and len(episode.checkpoints) <= WARM_UP
    )


def severity_of(
    job: JobFacts,
    series: Sequence[Episode],
    affected: int,
    population: int,
    *,
    fatal: bool | None = None,
) -> Severity:
    """Return the severity of episodes according to `grade`. Harmless warm-ups are always informational."""
    state = state_of(job, series)
    if fatal is None:
        fatal = fatal_at_end(job, series)
    if not fatal and series and all(harmless_warm_up(episode) for episode in series):
        return Severity.INFO
    return grade(state=state, share=affected / max(1, population), fatal=fatal)


def elapsed_ms(checkpoint: Checkpoint) -> float | None:
    """Return the duration of a completed checkpoint: the printed duration, or the time from trigger to end."""
    if checkpoint.duration_ms is not None:
        return checkpoint.duration_ms
    if checkpoint.triggered_us is not None and checkpoint.ended_us is not None:
        return max(0, checkpoint.ended_us - checkpoint.triggered_us) / 1000
    return None


def ended_or_last(job: JobFacts) -> int | None:
    """Return when the job ended or, if it did not, the time of its last record."""
    finished = finished_us(job)
    return finished if finished is not None else job.last_us


_WRAPPERS: Final = (
    "org.apache.flink.util.SerializedThrowable: ",
    "org.apache.flink.runtime.util.SerializedThrowable: ",
    "java.util.concurrent.ExecutionException: ",
    "java.util.concurrent.CompletionException: ",
)


# The start of a cause's stack frames, even if they follow on the same line.
_FRAME: Final = re.compile(r"\s(?:at [\w.$/<>]{1,300}\(|\.{3} \d{1,4} more)")


def exception_text(text: str | None, most: int = 200) -> str:
    """Reduce an exception to one line: its last cause, without stack frames and Flink's wrappers.

    >>> exception_text("org.apache.flink.util.SerializedThrowable: java.io.IOException: disk full")
    'java.io.IOException: disk full'
    >>> exception_text("a.JobException: Recovery is off\\n\\tat a.B.c(B.java:1)\\nCaused by: x.Full: no room\\n\\tat y.Z.w(Z.java:2)")
    'x.Full: no room'
    """
    causes = (text or "").split("Caused by: ")
    texts = (_without_wrapper(_FRAME.split(cause, maxsplit=1)[0]) for cause in reversed(causes))
    return fmt.shorten(next(filter(None, texts), ""), most)


def without_package(text: str) -> str:
    """Return an exception for a title, with the package removed from its class name.

    >>> without_package("org.apache.kafka.common.errors.TimeoutException: Topic a.b.C is missing")
    'TimeoutException: Topic a.b.C is missing'
    >>> without_package("a host of example.com.X is gone")
    'a host of example.com.X is gone'
    """
    return _PACKAGE.sub("", fmt.without_remote(text), count=1)


_PACKAGE: Final = re.compile(r"\A(?:[a-z_][\w$]{0,60}\.){1,20}(?=[A-Z][\w$]{0,120}(?::|\Z))")


def _without_wrapper(cause: str) -> str:
    line = " ".join(cause.split())
    for wrapper in _WRAPPERS:
        while line.startswith(wrapper):
            line = line[len(wrapper) :]
    return short_request(line)


def subtask_name(who: Attempt | Incident) -> str:
    """Return the display name of a subtask. If its task is unknown, its place serves as a name."""
    if who.task is None and who.subtask_index is None and (who.taskmanager or who.host):
        return f"a subtask on {fmt.place(who.taskmanager, who.host)}"
    return fmt.subtask_of(who.task, who.subtask_index, who.parallelism)
