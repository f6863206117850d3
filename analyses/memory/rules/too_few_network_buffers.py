"""A TaskManager has fewer network buffers than its tasks require.

What it reports
---------------
TaskManagers whose tasks require more network buffers (memory segments) than the TaskManager has. The report
shows how many are missing, which tasks require the most, and the smallest sufficient setting. If the job's plan is
unknown, the rule reports Flink's error `Insufficient number of network buffers`.

Why it matters
--------------
The task that Flink deploys last fails, so the failed task is arbitrary. The job restarts, Flink places the tasks
again, and another task may fail. More heap or more slots per TaskManager make the shortage worse.

How it decides
--------------
The rule calculates the required buffers in the same way as the job's Flink version (see
`flowdiag.analyses.flink.tasks.buffers`). An input gate requires its exclusive buffers for each channel from
another TaskManager, and one floating buffer. A result partition requires one buffer per subpartition, plus one.

The rule takes the placement of tasks from the deployments, the graph from the job's plan (REST or archive), and the
number of buffers from the TaskManager's log. Flink's error proves the shortage. Without the plan, only a lower bound
of the required number is known.

What to do
----------
Increase the network memory to the proposed size. It is sufficient for any placement of this job, provided that the
parallelism and the number of slots per TaskManager stay the same. If you change the parallelism, calculate
the size again.

False alarms
------------
The calculation is wrong if the job was rescaled between the saved plan and the log. Blocking (batch) exchanges
require a different number of buffers.
"""

from flowdiag.analyses.memory import helpers as h
from flowdiag.analyses.memory.advice import network_memory_actions, size_option
from flowdiag.analyses.memory.detect.buffers import measurements_of, texts_of
from flowdiag.analyses.memory.shortage import (
    BufferShortage,
    affected_job,
    has_recovered,
    shortages_in,
)


def judge(facts: h.MemoryFacts, limits: h.Limits) -> h.Iterator[h.Finding]:
    """Report all TaskManagers with too few buffers in one finding about the worst of them."""
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
            "arithmetic": f"{proof.required} required on {proof.taskmanager}, {proof.segments} available"
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
    title, why = texts_of(proof, last)
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
        explain="Each input gate and result partition takes its required buffers when its task is "
        "deployed. The task that is deployed last fails, so the failed task is not the cause.",
        measurements=tuple(measurements_of(worst, last)),
        # Cite evidence of both kinds, errors first.
        evidence=h.cite([*failed[:8], *pools[:2]]),
        evidence_total=len(h.cite([*failed, *pools])),
        actions=actions,
        votes=votes,
    )


RULE = h.Rule(
    "MM201",
    judge,
    whole=True,
    causes=("insufficient-network-buffers",),
    needs="buffers",
    severity=h.Severity.CRITICAL,
)
