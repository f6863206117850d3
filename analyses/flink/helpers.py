"""All that a rule about a Flink job needs, under one import.

A constructor per kind of subject fills in what follows from the facts: whose the finding is, how bad
it is and whether it lasts, its times, its count and its records. What a rule knows better it says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Unpack

from flowdiag.analyses.flink import judging
from flowdiag.analyses.flink.crises import Crisis, Failure, crises
from flowdiag.analyses.flink.episodes import (
    Episode,
    concluded,
    counts_as_failed,
    episodes,
    in_order,
    incidents,
    is_blameless,
    steady_checkpoints,
)
from flowdiag.analyses.flink.job import (
    Attempt,
    Checkpoint,
    ClusterFacts,
    Decline,
    Incident,
    JobFacts,
    LateAcknowledgement,
    Status,
    SubtaskCheckpoint,
)
from flowdiag.analyses.flink.judging import (
    DEFAULT_TIMEOUT_MS,
    UNSUCCESSFUL_AT_END,
    WARM_UP,
    elapsed_ms,
    end_records,
    exception_text,
    fatal_at_end,
    job_failed,
    subtask_name,
    unsuccessful_at_end,
)
from flowdiag.analyses.flink.options import names_of, option, version_of
from flowdiag.analyses.knowledge.causes import CAUSES, SHARED, Remedy
from flowdiag.analyses.knowledge.conditions import Setup, conditional, fitting
from flowdiag.analyses.knowledge.option_types import Value, helps, write
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.derived import once
from flowdiag.analyses.model.finding import (
    Action,
    Confidence,
    Evidence,
    Finding,
    FindingFields,
    Inconclusive,
    Measurement,
    Origin,
    Present,
    Rank,
    Severity,
    State,
    Subject,
    Vote,
    cite,
    grade,
    weigh,
)
from flowdiag.analyses.model.rule import Limits, Rule, Signal, limit


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
    def concluded(self) -> tuple[Checkpoint, ...]:
        """The checkpoints that completed or failed: what shares are shares of."""
        return concluded(self)

    @property
    def interval_ms(self) -> float | None:
        """The checkpoint interval: as configured, else as observed."""
        return judging.interval_ms(self)

    @property
    def interval_from(self) -> str:
        """Whether that interval is `configured` or `observed`, and what the other one is."""
        return judging.interval_from(self)

    @property
    def timeout_ms(self) -> float | None:
        """The checkpoint timeout: as configured, else as observed."""
        return judging.timeout_ms(self)

    @property
    def crises(self) -> tuple[Crisis, ...]:
        """Its failures, each series from the first to the recovery."""
        return crises(self, self.cluster)

    def completed_after(self, time_us: int | None) -> bool:
        """Whether a checkpoint completed after a moment: it has recovered from what was then."""
        return any(
            c.status is Status.COMPLETED and (c.ended_us or 0) > (time_us or 0)
            for c in self.checkpoints
        )


@once
def jobs_of(cluster: ClusterFacts) -> tuple[Job, ...]:
    """What rules judge one by one."""
    return tuple(Job.of(job, cluster) for job in cluster.jobs)


def measurement(
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


def votes_for(signals: Mapping[str, str | None], weights: Sequence[Signal]) -> tuple[Vote, ...]:
    """The votes that were cast, with the weights that the rule publishes.

    Args:
        signals: what each says, in order; None: it is silent.
        weights: the rule's voting table.
    """
    table = {signal.name: signal.weight for signal in weights}
    return tuple(
        Vote(signal=name, text=says, weight=table[name])
        for name, says in signals.items()
        if says is not None
    )


def subtask_subject(job: JobFacts, who: Attempt | Incident) -> Subject:
    """A subtask as far as an attempt, or a record, tells of it; the job where it tells of none."""
    if isinstance(who, Attempt):
        return judging.subtask_subject(job, who)
    return judging.subtask_subject(
        job,
        Attempt(
            job=job.key,
            attempt_id=who.attempt_id or "",
            task=who.task,
            subtask_index=who.subtask_index,
            parallelism=who.parallelism,
            taskmanager=who.taskmanager,
            host=who.host,
        ),
    )


def taskmanager_subject(
    job: JobFacts | None, taskmanager: str | None, host: str | None = None
) -> Subject:
    """A TaskManager, by resource id or only by host; the job where neither is known."""
    if job is not None and taskmanager is None and host is None:
        return judging.job_subject(job)
    return Subject(
        kind="taskmanager",
        job_id=(job.key.job_id or None) if job is not None else None,
        job_name=job.name if job is not None else None,
        taskmanager=taskmanager,
        host=host,
    )


def job_finding(
    job: JobFacts, *, subject: Subject | None = None, **overrides: Unpack[FindingFields]
) -> Finding:
    """A finding about a job, or about something of it.

    Args:
        job: whose verdict counts it.
        subject: who it is about; None: the job itself.
        overrides: other fields of `Finding`.
    """
    return Finding(job=job.key, subject=subject or judging.job_subject(job), **overrides)


def subtask_finding(
    job: JobFacts, who: Attempt | Incident, **overrides: Unpack[FindingFields]
) -> Finding:
    """A finding about a subtask, as far as an attempt or a record tells which."""
    return job_finding(job, subject=subtask_subject(job, who), **overrides)


def taskmanager_finding(
    job: JobFacts | None,
    taskmanager: str | None,
    host: str | None = None,
    **overrides: Unpack[FindingFields],
) -> Finding:
    """A finding about a TaskManager; about the job where no record names one.

    Args:
        job: whose verdict counts it; None: of no known job.
        taskmanager, host: its resource id, and where it runs.
        overrides: other fields of `Finding`.
    """
    return Finding(
        job=job.key if job is not None else None,
        subject=taskmanager_subject(job, taskmanager, host),
        **overrides,
    )


def checkpoint_finding(
    job: JobFacts,
    checkpoints: Sequence[Checkpoint],
    *,
    among: Sequence[Checkpoint],
    ongoing: bool,
    subject: Subject | None = None,
    **overrides: Unpack[FindingFields],
) -> Finding:
    """A finding about some of a job's checkpoints: severity, times and records follow from them.

    Args:
        job: whose they are.
        checkpoints: those that it is about, in order; at least one.
        among: those that were looked at: the severity goes by the share.
        ongoing: whether it lasts at the end of the input.
        overrides: other fields of `Finding`; they replace the defaults.
    """
    state = State.ONGOING if ongoing else State.RECOVERED
    fields: FindingFields = {
        "state": state,
        "severity": grade(state=state, share=len(checkpoints) / max(1, len(among))),
        "first_us": checkpoints[0].triggered_us,
        "last_us": checkpoints[-1].ended_us,
        "count": len(checkpoints),
        "evidence": end_records(checkpoints),
    }
    fields.update(overrides)
    return job_finding(job, subject=subject, **fields)


def episode_finding(
    job: JobFacts,
    series: Sequence[Episode],
    affected: int,
    *,
    fatal: bool | None = None,
    subject: Subject | None = None,
    **overrides: Unpack[FindingFields],
) -> Finding:
    """A finding about series of unsuccessful checkpoints: state, severity and times follow from them.

    Args:
        job: whose they are.
        series: the episodes that it is about, in order.
        affected: how many checkpoints: the severity goes by their share of all that ended.
        fatal: whether it is critical; None: if none completes at the end of the input.
        overrides: other fields of `Finding`; they replace the defaults.
    """
    fields: FindingFields = {
        "state": judging.state_of(series),
        "severity": judging.severity_of(job, series, affected, len(concluded(job)), fatal=fatal),
        "first_us": series[0].first_us if series else None,
        "last_us": series[-1].last_us if series else None,
        "count": affected,
    }
    fields.update(overrides)
    return job_finding(job, subject=subject, **fields)


def crisis_finding(
    job: JobFacts,
    series: Sequence[Crisis],
    *,
    subject: Subject | None = None,
    **overrides: Unpack[FindingFields],
) -> Finding:
    """A finding about crises: state, severity, times and records follow from them, the last first.

    Args:
        job: whose they are.
        series: the crises that it is about, in order; at least one.
        overrides: other fields of `Finding`; they replace the defaults.
    """
    last = series[-1]
    fields: FindingFields = {
        "state": last.state,
        "severity": grade(
            state=last.state,
            share=len(series) / max(1, len(concluded(job))),
            fatal=last.fatal,
        ),
        "first_us": series[0].first_us,
        "last_us": last.last_us,
        "count": len(series),
        "evidence": cite(ref for crisis in reversed(series) for ref in crisis.refs),
        "ranked": True,
    }
    fields.update(overrides)
    return job_finding(job, subject=subject, **fields)


def incident_finding(
    job: JobFacts,
    records: Sequence[Incident],
    *,
    ongoing: bool,
    share: float = 1.0,
    subject: Subject | None = None,
    **overrides: Unpack[FindingFields],
) -> Finding:
    """A finding about records of one kind: severity, times, count and evidence follow from them.

    Args:
        job: whose they are.
        records: those that it is about, in order of time; at least one.
        ongoing: whether it lasts at the end of the input.
        share: affected part of the checkpoints, 0 to 1.
        overrides: other fields of `Finding`; they replace the defaults.
    """
    state = State.ONGOING if ongoing else State.RECOVERED
    fields: FindingFields = {
        "state": state,
        "severity": grade(state=state, share=share),
        "first_us": records[0].time_us,
        "last_us": records[-1].time_us,
        "count": len(records),
        "evidence": records_of(records),
    }
    fields.update(overrides)
    return job_finding(job, subject=subject, **fields)


def outcome_text(crisis: Crisis) -> str:
    """What became of the job, as the tail of a title; nothing if it recovered."""
    if crisis.final:
        return "; the job failed for good"
    return "; the job has not recovered" if crisis.state is State.ONGOING else ""


def records_of(incidents: Iterable[Incident]) -> tuple[Evidence, ...]:
    """Where the incidents are written, in the given order."""
    return cite((incident.ref, incident.time_us) for incident in incidents)


def shared_remedies(
    job: JobFacts, *names: str, proposed: Value | None = None, current: Present | None = None
) -> tuple[Action, ...]:
    """Remedies that symptoms have in common (`causes.SHARED`); those that do not fit this job are left out.

    Args:
        job: its version, its settings, its state.
        names: of the remedies.
        proposed: a value to try that depends on the job.
        current: the value that holds now, where no input prints it.
    """
    setup = judging.setup_of(job)
    advice = [_action(SHARED[name], job, setup, proposed, current, {}) for name in names]
    return tuple(action for action in advice if action is not None)


def explanation(cause: str, **fill: str) -> str:
    """What a cause does to the job, in its own words; `fill` stands for the names in braces."""
    text = CAUSES[cause].explanation
    return text.format(**fill) if fill else text


def remedies(
    cause: str,
    job: JobFacts,
    *names: str,
    proposed: Mapping[str, Value | None] | None = None,
    current: Mapping[str, Present] | None = None,
    **fill: str,
) -> tuple[Action, ...]:
    """What to do about a cause, in this job: options by its version, with the values they have now.

    Left out are remedies whose option the version does not have or that has this value already, and
    those whose conditions do not hold.

    Args:
        cause: a word of `causes.CAUSES`.
        job: its version, its settings, its state.
        names: which remedies; none: all.
        proposed: values to try, by remedy, where they depend on the job.
        current: values that hold now, by remedy, where no input prints them.
        fill: what stands for the names in braces.
    """
    table, setup = CAUSES[cause].remedies or {}, judging.setup_of(job)
    advice = [
        _action(
            table[name], job, setup, (proposed or {}).get(name), (current or {}).get(name), fill
        )
        for name in names or table
    ]
    return tuple(action for action in advice if action is not None)


def advice_for(remedy: Remedy, version: str | None, setup: Setup) -> Action | None:
    """What a remedy comes to in a version and with such a configuration; None where it is none.

    Args:
        remedy: a row of `causes`.
        version: of Flink; None: the newest.
        setup: what is known of the configuration.
    """
    unknown = fitting(remedy.needs, setup)
    if unknown is None:
        return None
    if remedy.engine == "spark":
        return None
    key = None
    if remedy.option is not None:
        # A key with dots is the same in all versions, or not Flink's own.
        key = remedy.option if "." in remedy.option else option(remedy.option, version)
        if key is None:
            return None
    value = remedy.proposed
    if value == "exponential-delay" and not judging.knows_exponential(version):
        value = "failure-rate"
    wanted = write(key, value, version_of(version)) if key and value is not None else None
    return Action(
        text=conditional(remedy.text, unknown),
        option=key,
        proposed=wanted,
        unset=remedy.unset,
        measure=None if wanted else remedy.measure,
        risk=remedy.risk,
        restart_needed=remedy.restart_needed,
        verify=remedy.verify,
        command=remedy.command,
    )


def _action(
    remedy: Remedy,
    job: JobFacts,
    setup: Setup,
    proposed: Value | None,
    current: Present | None,
    fill: Mapping[str, str],
) -> Action | None:
    """A remedy in this job; none where its option has the value that is proposed."""
    if proposed is not None:
        remedy = replace(remedy, proposed=proposed)
    action = advice_for(remedy, job.version, setup)
    if action is None:
        return None
    now = None
    if action.option is not None and remedy.shows_current and remedy.option is not None:
        own = "." in remedy.option
        names = () if own else names_of(remedy.option)
        now = judging.configured(job, action.option, *names)
        raw = judging.setting(job, action.option, *names)
        version = version_of(job.version)
        if (
            raw is not None
            and action.proposed is not None
            and not helps(remedy.only, action.option, raw.value, action.proposed, version)
        ):
            return None
    text = action.text.format(**fill) if fill else action.text
    return replace(action, text=text, current=now if now is not None else current)
