"""All that a rule about a Flink job needs, under one import."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from flowdiag.analyses.causes import CAUSES
from flowdiag.analyses.finding import (
    Action,
    Confidence,
    Evidence,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    Severity,
    State,
    Subject,
    Vote,
    cite,
    grade,
    weigh,
)
from flowdiag.analyses.flink import judging
from flowdiag.analyses.flink.episodes import in_order
from flowdiag.analyses.flink.job import Checkpoint, ClusterFacts, JobFacts, Status
from flowdiag.analyses.flink.options import option
from flowdiag.analyses.rule import Limits, Rule, Signal, limit

__all__ = [
    "Action",
    "Checkpoint",
    "Confidence",
    "Evidence",
    "Finding",
    "Inconclusive",
    "Iterator",
    "Job",
    "Limits",
    "Measurement",
    "Rank",
    "Rule",
    "Severity",
    "Signal",
    "State",
    "Status",
    "Subject",
    "Vote",
    "cite",
    "grade",
    "limit",
    "measured",
    "of_checkpoints",
    "of_job",
    "remedies",
    "weigh",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(JobFacts):
    """A job as rules see it: its facts, and the cluster it ran in."""

    cluster: ClusterFacts

    @classmethod
    def of(cls, job: JobFacts, cluster: ClusterFacts) -> Job:
        """The job in its cluster; what rules work out about it is remembered with it."""
        known = {f.name: getattr(job, f.name) for f in fields(JobFacts) if f.init}
        return cls(**known, cluster=cluster)

    @property
    def in_order(self) -> list[Checkpoint]:
        """The checkpoints as they were triggered."""
        return in_order(self.checkpoints)

    @property
    def completed(self) -> list[Checkpoint]:
        """The checkpoints that completed, as they were triggered."""
        return [c for c in self.in_order if c.status is Status.COMPLETED]

    @property
    def interval_ms(self) -> float | None:
        """The checkpoint interval: as configured, else as observed."""
        return judging.interval_ms(self)


def jobs_of(cluster: ClusterFacts) -> tuple[Job, ...]:
    """What rules judge one by one."""
    return tuple(Job.of(job, cluster) for job in cluster.jobs)


Measured = tuple[float | int | str | None, str | None] | tuple[Any, ...]


def measured(
    name: str,
    value: float | str | None,
    unit: str | None = None,
    threshold: float | None = None,
    over: str | None = None,
) -> Measurement:
    """A number that a finding rests on.

    Args:
        name: kebab-case, e.g. `late-ratio`.
        value, unit: the number; None as unit for words.
        threshold: what it was compared with, in the same unit.
        over: what it was measured over, or against, in a few words.
    """
    return Measurement(name=name, value=value, unit=unit, threshold=threshold, population=over)


def of_job(job: JobFacts, *, subject: Subject | None = None, **said: Any) -> Finding:
    """A finding about a job, or about something of it.

    Args:
        job: whose verdict counts it.
        subject: who it is about; None: the job itself.
        said: the other fields of `Finding`.
    """
    return Finding(job=job.key, subject=subject or judging.job_subject(job), **said)


def of_checkpoints(
    job: JobFacts,
    checkpoints: list[Checkpoint],
    *,
    among: list[Checkpoint],
    ongoing: bool,
    **said: Any,
) -> Finding:
    """A finding about some of a job's checkpoints: state, severity, times and records follow from them.

    Args:
        job: whose they are.
        checkpoints: those that it is about, in order; at least one.
        among: those that were looked at: the severity goes by the share.
        ongoing: whether it lasts at the end of the input.
        said: the other fields of `Finding`.
    """
    state = State.ONGOING if ongoing else State.RECOVERED
    return of_job(
        job,
        state=state,
        severity=grade(state=state, share=len(checkpoints) / len(among)),
        first_us=checkpoints[0].triggered_us,
        last_us=checkpoints[-1].ended_us,
        count=len(checkpoints),
        evidence=judging.ends(checkpoints),
        **said,
    )


def remedies(
    cause: str,
    job: JobFacts,
    *names: str,
    proposed: Mapping[str, str | None] | None = None,
    **fill: str,
) -> tuple[Action, ...]:
    """What to do about a cause, in this job: options by its version, with the values they have now.

    Remedies whose option the version does not have are left out.

    Args:
        cause: a word of `causes.CAUSES`.
        job: its version and settings.
        names: which remedies; none: all.
        proposed: values to try, by remedy, where they depend on the job.
        fill: what stands for the names in braces.
    """
    table = CAUSES[cause].remedies or {}
    return tuple(_actions(table, job, names or tuple(table), proposed or {}, fill))


def _actions(
    table: Mapping[str, Any],
    job: JobFacts,
    names: Iterable[str],
    proposed: Mapping[str, str | None],
    fill: Mapping[str, str],
) -> Iterator[Action]:
    for name in names:
        remedy = table[name]
        key = option(remedy.option, job.version) if remedy.option else None
        if remedy.option and key is None:
            continue
        yield Action(
            text=remedy.text.format(**fill) if fill else remedy.text,
            option=key,
            current=judging.configured(job, key) if key else None,
            proposed=proposed.get(name, remedy.proposed),
            risk=remedy.risk,
            restart_needed=remedy.restart_needed,
            verify=remedy.verify,
        )
