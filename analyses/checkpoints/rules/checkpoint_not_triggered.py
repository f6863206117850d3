"""Checkpoints are no longer triggered.

What it reports
---------------
Flink refuses to trigger checkpoints up to the end of the input, because tasks are not running or have finished, or
because a limit is reached. The rule also reports a job whose checkpoints stop without any message.

Why it matters
--------------
The failure is silent: the job runs, no checkpoint fails, and hours later there is nothing to restore from. Up to
Flink 1.13, one finished source subtask is enough. This happens if the parallelism is higher than the number of
partitions, or if a job reads a bounded and an unbounded input.

How it decides
--------------
Refused: at the end of the input, at least `attempts` triggers have been refused since the last successful one. If
the reason is that tasks have finished, `finished-attempts` refusals over at least `finishing` are enough. The
finding is a warning, or critical after `critical` times `attempts` refusals. If the tasks finished less than
`finishing` ago, its severity is info.

Silent: the last trigger was more than `silence` intervals and more than `silence-floor` ago, no checkpoint is in
progress, and the job continues.

What to do
----------
Finished sources: enable checkpoints with finished tasks (1.14+), or match the parallelism to the
partitions. Tasks that are not running: check what they wait for (slots, restores).

False alarms
------------
Triggers refused while the job starts or restarts do not count, and neither do triggers refused before a bounded
job finishes. Periods in which the JobManager logs nothing at all do not count, because lines may be missing. A
source that reads its backlog may switch checkpoints off for that time (`execution.checkpointing.interval-during-backlog`,
1.19+). If that option is set, a lack of triggers proves nothing.
"""

from collections import Counter
from operator import attrgetter
from typing import Final

from flowdiag.analyses.checkpoints.detect.triggers import all_finished, refused_triggers, silence_ms
from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.failures.episodes import finished_us
from flowdiag.parsers.flink.failures import reason_kind


class Limits(h.Limits):
    attempts: float = h.limit(
        5, "attempts", "minimum number of refused triggers; each start causes one to three"
    )
    finished_attempts: float = h.limit(
        3, "attempts", "minimum number of refusals after tasks finished; a start causes none"
    )
    critical: float = h.limit(
        10.0, "ratio", "multiple of `attempts` at which the finding is critical"
    )
    finishing: float = h.limit(
        30_000.0, "ms", "minimum duration of refusals; a bounded job ends seconds after its sources"
    )
    silence: float = h.limit(
        20.0, "intervals", "minimum time since the last trigger; pauses cause up to three intervals"
    )
    silence_floor: float = h.limit(
        600_000.0, "ms", "minimum time since the last trigger; a few short intervals prove nothing"
    )


def judge(job: h.Job, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield at most one finding per job."""
    if finished_us(job) is not None:
        return
    refused = refused_triggers(job)
    if len(refused) >= limits.attempts or all_finished(
        refused, fewest=limits.finished_attempts, finishing_ms=limits.finishing
    ):
        yield _refusal_finding(job, refused, limits)
        return
    most = max(limits.silence_floor, limits.silence * (job.interval_ms or 0.0))
    silence = silence_ms(job)
    if silence is None or silence <= most:
        return
    last = max(
        (c for c in job.checkpoints if c.triggered_us is not None), key=attrgetter("triggered_us")
    )
    yield h.job_finding(
        job,
        severity=h.Severity.WARNING,
        state=h.State.ONGOING,
        title=f"No checkpoint was triggered for {h.fmt.duration(silence)}, without a logged reason",
        explain=h.text(
            "CP107.silence", interval=h.fmt.duration(job.interval_ms), origin=job.interval_from
        ),
        rank=h.Rank.SYMPTOM,
        first_us=last.ended_us,
        last_us=job.last_us,
        measurements=(h.measurement("silence", silence, "ms", most),),
        evidence=h.end_records([last]),
        actions=h.shared_remedies(job, "checkpoint-timer"),
    )


def _refusal_finding(job: h.Job, refused: list[h.Incident], limits: Limits) -> h.Finding:
    kinds = Counter(reason_kind(i.cause or "") for i in refused)
    span = ((refused[-1].time_us or 0) - (refused[0].time_us or 0)) / 1000
    reason = " ".join((refused[-1].cause or "").split())
    main_kind = kinds.most_common(1)[0][0]
    finished = main_kind == "finished" or "finished" in reason
    severity = h.Severity.WARNING
    if finished and span < limits.finishing:
        severity = h.Severity.INFO
    elif len(refused) >= limits.critical * limits.attempts:
        severity = h.Severity.CRITICAL
    explain, actions = _advice(job, main_kind, finished=finished)
    over = "since the last triggered checkpoint"
    number = h.measurement("refused-triggers", len(refused), "attempts", limits.attempts, over)
    return h.incident_finding(
        job,
        refused,
        ongoing=True,
        severity=severity,
        title=f"{len(refused)} triggers in a row failed within {h.fmt.duration(span)}: "
        f"{h.fmt.shorten(reason, 120) or 'no reason in the log'}",
        explain=explain,
        rank=h.Rank.SYMPTOM,
        cause="finished-tasks" if finished else None,
        measurements=(number,),
        actions=actions,
    )


def _advice(job: h.Job, kind: str | None, *, finished: bool) -> tuple[str, tuple[h.Action, ...]]:
    """Return the explanation and the remedies of refused triggers."""
    if finished:
        return h.explanation("finished-tasks"), h.remedies(
            "finished-tasks", job, "let-them-finish"
        ) or h.remedies("finished-tasks", job, "keep-running")
    if kind == "trigger_io":
        return h.text("CP107.broken"), h.shared_remedies(job, "deepest-exception")
    return h.text("CP107.waiting"), h.shared_remedies(job, "waiting-tasks")


RULE: Final = h.Rule(
    "CP107",
    judge,
    Limits,
    causes=("finished-tasks",),
    needs="dated-records",
    severity=h.Severity.CRITICAL,
)
