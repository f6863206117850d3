"""Findings about culprits of checkpoints that have not failed, and the fields of every finding about a culprit."""

from __future__ import annotations

from typing import Final, Unpack

from msgspec import structs

from flowdiag.analyses.checkpoints import culprit, pending
from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.suspects import NamedCulprit, culprit_measurements
from flowdiag.analyses.flink.suspects.remedies import explanation, remedies_for
from flowdiag.analyses.flink.tasks.stall import job_stall
from flowdiag.analyses.model.finding import MAX_CITED

_INFO_LINES: Final = (
    "pass the JobManager's log with the INFO lines that show deployments and when "
    "checkpoints start and end"
)


def culprit_fields(
    job: h.Job, found: NamedCulprit, what: str, **overrides: Unpack[h.FindingFields]
) -> h.FindingFields:
    """Return the fields of a finding about a culprit. `what` follows the culprit's name in the title."""
    size = found.subject.parallelism
    # Subtasks that had the same problem at the same time.
    more = [h.fmt.subtask_of("", one.subtask_index, size).strip() for one in found.others[:3]]
    name = h.fmt.listed([culprit.name_of(found), *more], " and ")
    weights = [vote.weight for vote in found.votes]
    cited = h.cite((ref, None) for ref in found.refs)
    fields: h.FindingFields = {
        "title": f"{name} {what}" + (f" ({found.cause})" if found.cause else ""),
        "why": found.why,
        "cause": found.cause,
        "confidence": found.confidence,
        "rank": h.Rank.MECHANISM,
        "measurements": (
            *culprit_measurements(found),
            h.measurement("points-for", sum(w for w in weights if w > 0), "points"),
            h.measurement("points-against", -sum(w for w in weights if w < 0), "points"),
        ),
        "evidence": cited[:MAX_CITED],
        "evidence_total": len(cited),
        "actions": remedies_for(job, found),
        "votes": found.votes,
    }
    fields.update(overrides)
    return fields


def slow_taskmanager_finding(job: h.Job, late: h.Finding) -> h.Finding | None:
    """Report the TaskManager that slows down the checkpoints of a finding of CP104."""
    slow = culprit.slow_taskmanager_during(job, late.first_us, late.last_us)
    if slow is None:
        return None
    fields = culprit_fields(
        job,
        slow,
        "slows checkpoints down, although they complete",
        explain=f"{explanation(slow)} CP104 shows how slow they are.",
        severity=late.severity,
        state=late.state,
        first_us=late.first_us,
        last_us=late.last_us,
    )
    return h.job_finding(job, subject=slow.subject, **fields)


def late_alone_finding(job: h.Job, found: culprit.LateAlone) -> h.Finding:
    """Report the only late subtask, from a log that does not show when checkpoints began."""
    times, name = len(found.records), culprit.sender_name(found.attempt)
    clause = f"the only late subtask in {times} of {h.fmt.plural(found.among, 'checkpoint')} with late messages"
    received = [item.received_us for item in found.records if item.received_us is not None]
    votes = h.votes_for({culprit.LATE_ALONE.name: clause}, (culprit.LATE_ALONE,))
    return h.job_finding(
        job,
        subject=structs.replace(h.subtask_subject(job, found.attempt), kind="subtask"),
        title=f"{h.fmt.capital(name)} acknowledged {h.fmt.plural(times, 'checkpoint')} too late, and no other subtask did",
        why=f"{name}: {clause}",
        explain="Its snapshots probably take too long: no downstream task was late, so the subtask had "
        "forwarded the barrier. A source may also be late because it waits for the checkpoint "
        "lock. No line shows when these checkpoints were triggered, so flowdiag cannot narrow "
        "the cause down further.",
        severity=h.Severity.WARNING,
        state=h.State.ONGOING,
        confidence=h.weigh(votes),
        rank=h.Rank.MECHANISM,
        first_us=min(received, default=None),
        last_us=max(received, default=None),
        count=times,
        measurements=(
            h.measurement("only-late-subtask", times, "checkpoints"),
            h.measurement("checkpoints-with-late-messages", found.among, "checkpoints"),
        ),
        evidence=h.cite((item.ref, item.received_us) for item in found.records),
        actions=(
            h.Action(
                text=f"{h.fmt.capital(_INFO_LINES)}. These lines name the subtask and provide "
                "more signals"
            ),
        ),
        votes=votes,
    )


def overdue_finding(job: h.Job, found: NamedCulprit, waits: pending.Pending) -> h.Finding:
    """Report the culprit of a checkpoint that has not expired yet."""
    name, age = f"checkpoint {waits.checkpoint.id}", h.fmt.duration(waits.age_ms)
    fields = culprit_fields(
        job,
        found,
        f"blocks {name}, which has been in progress for {age}",
        explain=explanation(found),
        severity=h.Severity.CRITICAL if job_stall(job) is not None else h.Severity.WARNING,
        state=h.State.ONGOING,
        first_us=waits.checkpoint.triggered_us,
        last_us=waits.until_us,
    )
    return h.job_finding(job, subject=found.subject, **fields)


def awaited_subtask_finding(job: h.Job, slow: list[h.Checkpoint]) -> h.Finding | None:
    """Report the subtask that these slow checkpoints waited for."""
    found = culprit.find_awaited_subtask(job, slow)
    if found is None:
        return None
    longest = h.fmt.duration(max(h.elapsed_ms(c) or 0.0 for c in slow))
    fields = culprit_fields(
        job,
        found,
        f"delays checkpoints, which take up to {longest}",
        explain=explanation(found),
        severity=h.Severity.WARNING,
        state=h.State.ONGOING,
        first_us=slow[0].triggered_us,
        last_us=slow[-1].ended_us,
    )
    return h.job_finding(job, subject=found.subject, **fields)


def saturated_finding(job: h.Job, found: NamedCulprit) -> h.Finding | None:
    """Report a subtask that upstream tasks wait for although checkpoints complete, or while there are none."""
    # A whole task is also saturated while it catches up.
    whole = found.suspect.kind == "task" or found.cause == "slow-operator"
    client = None if found.code is None else found.code.client
    waits = client is not None and client.database  # the database is slow, and not the subtask
    if whole or waits or found.confidence is h.Confidence.LOW:
        return None
    what = "is saturated while upstream tasks wait, although checkpoints complete"
    effect = (
        "No checkpoint fails for this reason yet, but the subtask limits the throughput of the job."
    )
    if not job.completed:
        # The input shows which tasks wait, but not whether checkpoints are affected.
        found = h.replace(found, confidence=h.Confidence.MEDIUM)
        what = "is saturated while upstream tasks wait; the input shows no checkpoints"
        effect = (
            "The subtask limits the throughput of the job. The JobManager's log would show whether"
            " checkpoints fail for this reason."
        )
    recent = culprit.earlier_sibling_text(job, found)
    fields = culprit_fields(
        job,
        found,
        what,
        explain=" ".join(filter(None, (explanation(found), effect, recent))),
        severity=h.Severity.WARNING,
        state=h.State.ONGOING,
        first_us=None if recent else job.first_us,
        last_us=job.last_us,
    )
    return h.job_finding(job, subject=found.subject, **fields)
