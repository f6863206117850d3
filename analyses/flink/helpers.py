"""The helpers for rules about Flink jobs, available through one import.

One constructor per kind of subject derives the fields of a finding from the facts: job, severity, state,
times, count and evidence. Rules may override any of these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Unpack

from flowdiag.analyses.flink import judging, settings
from flowdiag.analyses.flink.failures.crises import Crisis, Failure, crises, keeps_failing
from flowdiag.analyses.flink.failures.episodes import (
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
    keeps_coming_back,
    subtask_name,
    unsuccessful_at_end,
)
from flowdiag.analyses.flink.options import names_of, option
from flowdiag.analyses.knowledge.causes import CAUSES, SHARED, Remedy
from flowdiag.analyses.knowledge.conditions import Setup, unknown_conditions, with_conditions
from flowdiag.analyses.knowledge.explanations import text
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.derived import once
from flowdiag.analyses.model.finding import (
    Action,
    Confidence,
    CurrentValue,
    Evidence,
    Finding,
    FindingFields,
    Inconclusive,
    Measurement,
    Origin,
    Rank,
    Severity,
    State,
    Subject,
    Vote,
    cite,
    grade,
    measurement,
    weigh,
)
from flowdiag.analyses.model.option_types import Value, is_improvement, write
from flowdiag.analyses.model.rule import Limits, Results, Rule, limit
from flowdiag.analyses.model.signals import Signal
from flowdiag.parsers.units import version_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(JobFacts):
    """The facts of a job, along with its cluster."""

    cluster: ClusterFacts

    @classmethod
    def of(cls, job: JobFacts, cluster: ClusterFacts) -> Job:
        """Combine a job with its cluster. The new object caches derived values."""
        known = {f.name: getattr(job, f.name) for f in fields(JobFacts) if f.init}
        return cls(**known, cluster=cluster)

    @property
    def in_order(self) -> list[Checkpoint]:
        """The checkpoints in trigger order."""
        return in_order(self.checkpoints)

    @property
    def completed(self) -> list[Checkpoint]:
        """The completed checkpoints in trigger order."""
        return [c for c in self.in_order if c.status is Status.COMPLETED]

    @property
    def concluded(self) -> tuple[Checkpoint, ...]:
        """The completed or failed checkpoints, on which shares are based."""
        return concluded(self)

    @property
    def interval_ms(self) -> float | None:
        """The configured checkpoint interval or, failing that, the observed interval."""
        return settings.interval_ms(self)

    @property
    def interval_from(self) -> str:
        """The origin of the interval: `configured` or `observed`."""
        return settings.interval_from(self)

    @property
    def timeout_ms(self) -> float | None:
        """The configured checkpoint timeout or, failing that, the observed timeout."""
        return settings.timeout_ms(self)

    @property
    def crises(self) -> tuple[Crisis, ...]:
        """The job's crises, each from the first failure to the recovery."""
        return crises(self, self.cluster)

    def completed_after(self, time_us: int | None) -> bool:
        """Return whether a checkpoint completed after a time, which means that the job has recovered."""
        return any(
            c.status is Status.COMPLETED and (c.ended_us or 0) > (time_us or 0)
            for c in self.checkpoints
        )


@once
def jobs_of(cluster: ClusterFacts) -> tuple[Job, ...]:
    return tuple(Job.of(job, cluster) for job in cluster.jobs)


def at_the_end_limit() -> Any:
    """Declare the limit `at_the_end`: how many failed checkpoints at the end make a finding critical."""
    return limit(
        UNSUCCESSFUL_AT_END,
        "checkpoints",
        "minimum number of failed checkpoints at the end for a critical finding; one failure only costs an interval",
    )


def votes_for(signals: Mapping[str, str | None], weights: Sequence[Signal]) -> tuple[Vote, ...]:
    """Return the votes of the signals that apply, with the weights of the voting table.

    Args:
        signals: the text of each signal, in order; None if it does not apply.
        weights: the rule's voting table.
    """
    table = {signal.name: signal.weight for signal in weights}
    return tuple(
        Vote(signal=name, text=clause, weight=table[name])
        for name, clause in signals.items()
        if clause is not None
    )


def subtask_subject(job: JobFacts, who: Attempt | Incident) -> Subject:
    """Return the most specific subject that an attempt or record identifies, at least the job."""
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
    """Return a TaskManager by resource ID or, without an ID, by host. If both are None, return the job."""
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
    """Return a finding about a job or a part of it.

    Args:
        job: the job whose verdict includes the finding.
        subject: None: the job itself.
        overrides: other fields of `Finding`.
    """
    return Finding(job=job.key, subject=subject or judging.job_subject(job), **overrides)


def subtask_finding(
    job: JobFacts, who: Attempt | Incident, **overrides: Unpack[FindingFields]
) -> Finding:
    """Return a finding about the subtask of an attempt or a record."""
    return job_finding(job, subject=subtask_subject(job, who), **overrides)


def taskmanager_finding(
    job: JobFacts | None,
    taskmanager: str | None,
    host: str | None = None,
    **overrides: Unpack[FindingFields],
) -> Finding:
    """Return a finding about a TaskManager, or about the job if no record names one.

    Args:
        job: the job whose verdict includes the finding; None for an unknown job.
        taskmanager, host: resource ID and host.
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
    """Return a finding about these checkpoints, from which its severity, times and evidence follow.

    Args:
        job: the job of the checkpoints.
        checkpoints: the affected checkpoints, in order; at least one.
        among: all examined checkpoints. The affected share determines the severity.
        ongoing: whether the problem persists at the end of the input.
        subject: None: the job itself.
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
    """Return a finding about episodes, which determine its state, severity and times.

    Args:
        job: the job of the episodes.
        series: the affected episodes, in order.
        affected: number of checkpoints. Their share of all concluded checkpoints determines the severity.
        fatal: whether the finding is critical; None: if no checkpoint completes at the end of the input.
        subject: None: the job itself.
        overrides: other fields of `Finding`; they replace the defaults.
    """
    fields: FindingFields = {
        "state": judging.state_of(job, series),
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
    """Return a finding about crises, which determine its state, severity, times and evidence.

    Args:
        job: the job of the crises.
        series: the affected crises, in order; at least one. The evidence starts with the last crisis.
        subject: None: the job itself.
        overrides: other fields of `Finding`; they replace the defaults.
    """
    last = series[-1]
    state = State.ONGOING if keeps_failing(job, series) else last.state
    fields: FindingFields = {
        "state": state,
        "severity": grade(
            state=state,
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
    """Return a finding about incidents, which determine its severity, times, count and evidence.

    Args:
        job: the job of the incidents.
        records: the incidents, in order of time; at least one.
        ongoing: whether the problem persists at the end of the input.
        share: affected share of the checkpoints, 0 to 1.
        subject: None: the job itself.
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
    """Return the end of a title about the job's outcome. Empty if the job recovered."""
    if crisis.final:
        return "; the job failed for good"
    return "; the job has not recovered" if crisis.state is State.ONGOING else ""


def records_of(incidents: Iterable[Incident]) -> tuple[Evidence, ...]:
    """Return the records of the incidents as evidence, in the given order."""
    return cite((incident.ref, incident.time_us) for incident in incidents)


def shared_remedies(
    job: JobFacts, *names: str, proposed: Value | None = None, current: CurrentValue | None = None
) -> tuple[Action, ...]:
    """Return remedies from `causes.SHARED`, without those that do not apply to this job.

    Args:
        job: provides the version, options and state.
        names: names of the remedies.
        proposed: a value for this job.
        current: the current value, if no input contains it.
    """
    setup = settings.setup_of(job)
    advice = [_action(SHARED[name], job, setup, proposed, current, {}) for name in names]
    return tuple(action for action in advice if action is not None)


def explanation(cause: str, **fill: str) -> str:
    """Return the explanation of a cause, with `fill` for the placeholders in braces."""
    text = CAUSES[cause].explanation
    return text.format(**fill) if fill else text


def with_version_of(job: JobFacts, text: str) -> JobFacts:
    """Complete a job of unknown version with the version that an exception shows: Flink 1.18 replaced Akka with
    Pekko.
    """
    return replace(job, version="1.17") if not job.version and "akka" in text else job


def remedies(
    cause: str,
    job: JobFacts,
    *names: str,
    proposed: Mapping[str, Value | None] | None = None,
    current: Mapping[str, CurrentValue] | None = None,
    **fill: str,
) -> tuple[Action, ...]:
    """Return the remedies of a cause for this job, with the options of its version and their current values.

    A remedy is left out if the version lacks its option, if the option already has the value, or if its
    conditions do not hold.

    Args:
        cause: a key of `causes.CAUSES`.
        job: provides the version, options and state.
        names: names of the remedies; all if empty.
        proposed: values for this job, by remedy.
        current: current values by remedy, if no input contains them.
        fill: values for the placeholders in braces.
    """
    table, setup = CAUSES[cause].remedies or {}, settings.setup_of(job)
    advice = [
        _action(
            table[name], job, setup, (proposed or {}).get(name), (current or {}).get(name), fill
        )
        for name in names or table
    ]
    return tuple(action for action in advice if action is not None)


def _key_of(remedy: Remedy, version: str | None, setup: Setup) -> str | None:
    """Return the key of a remedy's option, or None if the remedy has none, or the version or the store lacks it."""
    if remedy.option is None:
        return None
    # A key with dots is the same in all versions, or not a Flink option.
    key = remedy.option if "." in remedy.option else option(remedy.option, version)
    return None if key is None else settings.key_in_store(key, setup)


def advice_for(remedy: Remedy, version: str | None, setup: Setup) -> Action | None:
    """Return a remedy as an action for a version and a setup, or None if it does not apply.

    Args:
        remedy: a row of `causes`.
        version: the Flink version; None for the newest.
        setup: the known configuration.
    """
    unknown = unknown_conditions(remedy.needs, setup)
    if unknown is None:
        return None
    if remedy.engine == "spark":
        return None
    key = _key_of(remedy, version, setup)
    if key is None and remedy.option is not None:
        return None
    value = remedy.proposed
    if value == "exponential-delay" and not settings.has_exponential_delay(version):
        value = "failure-rate"
    proposed = write(key, value, version_of(version)) if key and value is not None else None
    return Action(
        text=settings.named_store(with_conditions(remedy.text, unknown), setup),
        option=key,
        proposed=proposed,
        unset=remedy.unset,
        measure=None if proposed else remedy.measure,
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
    current: CurrentValue | None,
    fill: Mapping[str, str],
) -> Action | None:
    """Return a remedy as an action for this job, or None if its option already has the proposed value."""
    if proposed is not None:
        remedy = replace(remedy, proposed=proposed)
    action = advice_for(remedy, job.version, setup)
    if action is None:
        return None
    now = None
    if action.option is not None and remedy.shows_current and remedy.option is not None:
        own = "." in remedy.option
        names = () if own else names_of(remedy.option)
        now = settings.configured(job, action.option, *names)
        raw = settings.setting(job, action.option, *names)
        version = version_of(job.version)
        if (
            raw is not None
            and action.proposed is not None
            and not is_improvement(remedy.only, action.option, raw.value, action.proposed, version)
        ):
            return None
    text = action.text.format(**fill) if fill else action.text
    return replace(action, text=text, current=now if now is not None else current)
