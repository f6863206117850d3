"""Buffer pools request more network memory than is available.

What it reports
---------------
TaskManagers that log Flink's warning that their buffer pools request more network memory than they have in total.

Why it matters
--------------
Each pool then gets fewer floating buffers than it requests. This reduces throughput and occasionally causes back
pressure.

How it decides
--------------
The rule looks for Flink's own warning `Memory usage [N%] is too high` (1.15 and later). It ignores the warning if
Flink later logs that the usage is back to normal. If the usage is below `usage`, the severity is info.

What to do
----------
Increase the network memory to the requested size, or enable buffer debloating so that the job uses less of it.

False alarms
------------
Under low load, the minimum number of buffers is enough for the tasks, and the warning is harmless.
"""

from flowdiag.analyses.flink.options import option
from flowdiag.analyses.memory import helpers as h
from flowdiag.analyses.memory.advice import enough_network, network_keys, proposal_action


class Limits(h.Limits):
    usage: float = h.limit(
        150, "%", "minimum requested share; Flink warns above 100%, and 150% costs throughput"
    )


def judge(facts: h.MemoryFacts, limits: Limits) -> h.Iterator[h.Finding]:
    """Report the worst TaskManager of each job."""
    if any(needs.missing for needs in facts.buffers):
        return  # MM201 reports that even the required buffers do not fit
    for job in facts.jobs:
        warnings = [
            (int(incident.text.get("usage") or 0), incident)
            for incident in job.incidents
            if incident.kind == "network-memory"
        ]
        if not warnings:
            continue
        ranked = sorted(warnings, key=lambda warning: warning[0], reverse=True)
        usage, worst = ranked[0]
        yield h.place_finding(
            job,
            worst.taskmanager,
            worst.host,
            otherwise="taskmanager",
            severity=h.Severity.WARNING if usage >= limits.usage else h.Severity.INFO,
            title=f"Network pools request {usage}% of the network memory on "
            f"{h.fmt.place(worst.taskmanager, worst.host)}",
            option=option("network-max", job.version) or h.model.NETWORK_MAX,
            rank=h.Rank.SYMPTOM,
            first_us=warnings[0][1].time_us,
            last_us=warnings[-1][1].time_us,
            count=len(warnings),
            explain="Each pool gets its required buffers and a share of the remaining buffers.",
            measurements=(h.measurement("network-usage", usage, "%", 100),),
            evidence=h.cite((i.ref, i.time_us) for _, i in ranked),
            actions=(_more_memory(facts, worst, job),),
        )


def _more_memory(facts: h.MemoryFacts, worst: h.Incident, job: h.JobFacts) -> h.Action:
    """Propose the requested memory, checked by the model if the process is known."""
    text = "Increase the network memory to the size that the pools request"
    _, _, printed = worst.text.get("requested", "").rpartition("(")
    number = printed.removesuffix(" bytes)")
    size = int(number) if number != printed and number.isdecimal() else None
    process = next((p for p in facts.processes if p.taskmanager == worst.taskmanager), None)
    proposal = enough_network(process, size) if process is not None and size else None
    if process is not None and proposal is not None:
        return proposal_action(process, proposal, text)
    low, high = network_keys(job.version)
    return h.Action(
        text=text,
        option=high,
        proposed=h.write(high, size, h.version_of(job.version)) if size else None,
        measure=None if size else "RequestedMemoryUsage of the TaskManager",
        # The other bound is unknown and may conflict, but Flink always accepts both together.
        together=h.changes({low: size}, {}, job.version) if size else (),
        restart_needed=True,
    )


RULE = h.Rule("MM202", judge, Limits, whole=True, needs="dated-records")
