"""A TaskManager has fewer network buffers than its tasks require.

What it reports
---------------
TaskManagers on which the pools of the placed tasks require more segments than exist: the number of missing
segments, the tasks that require most, and the smallest sufficient setting. Also `Insufficient number of
network buffers` if the job's plan is unknown.

Why it matters
--------------
The task that is deployed last fails, whichever it is. The job restarts, Flink places the tasks again, and
another task fails. More heap or more slots make it worse.

How it decides
--------------
By the arithmetic of the version (see `flowdiag.analyses.flink.tasks.buffers`). An input gate requires its exclusive
buffers for every channel from another TaskManager and one floating buffer. A result partition requires one
buffer per subpartition and one more. Placement comes from the deployments, the graph from the plan (REST or
archive), the segments from the pool's own log line. Flink's error is the proof. Without the plan only a lower
bound is known.

What to do
----------
Raise the network memory to the proposed size. It is sufficient for every placement of the same job with the
same parallelism on TaskManagers with the same number of slots. A new parallelism needs a new size.

False alarms
------------
A job that was rescaled between the saved plan and the log. Blocking (batch) exchanges need other numbers.
"""

from __future__ import annotations

from flowdiag.analyses.flink.failures.crises import classify_incident
from flowdiag.analyses.flink.failures.exception_texts import exception_measurements
from flowdiag.analyses.memory import helpers as h
from flowdiag.analyses.memory.advice import network_memory_actions, size_option
from flowdiag.analyses.memory.shortage import (
    BufferShortage,
    affected_job,
    has_recovered,
    shortages_in,
)


def judge(facts: h.MemoryFacts, limits: h.Limits) -> h.Iterator[h.Finding]:
    """One finding for all TaskManagers that are short, which names the worst."""
    errors, short = shortages_in(facts), [needs for needs in facts.buffers if needs.missing]
    if errors or short:
        worst = max(short or facts.buffers, key=lambda needs: needs.required, default=None)
        yield _finding(affected_job(facts, errors, short), worst, errors, short)


def _finding(
    job: h.JobFacts | None,
    worst: h.BufferNeeds | None,
    errors: list[BufferShortage],
    short: list[h.BufferNeeds],
) -> h.Finding:
    last, proof = errors[-1] if errors else None, worst if short else None
    votes = h.votes_for(
        {
            "error": h.fmt.shorten(last.text or "the error", 90) if last else None,
            "arithmetic": f"{proof.required} required on {proof.taskmanager}, {proof.segments} exist"
            if proof
            else None,
        },
        RULE.signals,
    )
    over = has_recovered(job, last)
    failed = [(e.incident.ref, e.incident.time_us) for e in errors]
    times = [time_us for _, time_us in failed if time_us is not None]
    pools = [(needs.process.refs.get("segments"), None) for needs in short if needs.process]
    actions = tuple(network_memory_actions(worst, last))
    place = (worst.taskmanager, worst.host) if worst else (None, None)
    title, why = _texts(proof, last)
    return h.place_finding(
        job,
        *place,
        otherwise="taskmanager" if worst else "job",
        severity=h.Severity.WARNING if over else h.Severity.CRITICAL,
        state=h.State.RECOVERED if over else h.State.ONGOING,
        title=title,
        why=why,
        cause="insufficient-network-buffers",
        confidence=h.weigh(votes),
        rank=h.Rank.ROOT_CAUSE,
        option=size_option(actions[0], worst, job),
        first_us=min(times, default=None),
        last_us=max(times, default=None),
        count=max(1, len(errors)),
        explain="Every gate and every result partition takes its required buffers when its task is "
        "deployed. The task that is deployed last fails, so the failed task is not the cause.",
        measurements=tuple(_measurements(worst, last)),
        # Evidence of both kinds: the errors first, then the pools.
        evidence=h.cite([*failed[:8], *pools[:2]]),
        evidence_total=len(h.cite([*failed, *pools])),
        actions=actions,
        votes=votes,
    )


def _texts(worst: h.BufferNeeds | None, last: BufferShortage | None) -> tuple[str, str]:
    """Return the title and the reason."""
    if worst is not None:
        return (
            f"{worst.taskmanager} has {worst.segments} network buffers, its tasks require {worst.required}",
            f"{worst.missing} segments of {h.fmt.size(worst.segment_bytes)} are missing",
        )
    title = "Too few network buffers"
    if last is not None and last.text:
        title += f": {last.required} more required, {last.available} left of {last.total or '?'}"
    cause = last.incident.cause or "" if last is not None else "the pools do not fit"
    return title, h.fmt.shorten(cause, 140)


def _measurements(
    worst: h.BufferNeeds | None, last: BufferShortage | None
) -> h.Iterator[h.Measurement]:
    if worst is None:
        if last is not None:
            yield from exception_measurements(classify_incident(last.incident))
        return
    tasks = f"{len(worst.tasks)} subtasks on {worst.taskmanager}"
    yield h.measurement("required-buffers", worst.required, "segments", worst.segments, over=tasks)
    yield h.measurement("enough-for-any-placement", worst.any_placement, "segments")
    yield h.measurement("desired-buffers", worst.desired, "segments")
    if worst.tasks:
        most = max(worst.tasks, key=lambda need: need.required)
        subtask = f"{most.task} ({most.subtask_index + 1})"
        yield h.measurement("most-by-one-subtask", most.required, "segments", over=subtask)


RULE = h.Rule(
    "MM201",
    judge,
    signals=(
        h.Signal("error", 3, "a task failed with Insufficient number of network buffers"),
        h.Signal(
            "arithmetic", 3, "the pools placed on a TaskManager require more segments than exist"
        ),
    ),
    whole=True,
    causes=("insufficient-network-buffers",),
)
