"""Pools would like more network memory than there is.

What it reports
---------------
TaskManagers that warn that the pools together would like more memory than there is.

Why it matters
--------------
Pools then share what is left: fewer floating buffers, lower throughput, back pressure that comes and goes.

How it decides
--------------
By Flink's own warning `Memory usage [N%] is too high` (1.15 and later), as long as it is not taken back. Below
`usage` it is an information only.

What to do
----------
Raise the network memory to what is wanted, or let buffer debloating make buffers smaller.

False alarms
------------
A low load needs no more than the required buffers; then the warning costs nothing.
"""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.flink.options import option
from flowdiag.analyses.memory import helpers as h
from flowdiag.analyses.memory.advice import enough_network, network_keys, setting_of

_FLINK_WARNS: Final = 100  # %


class Tight(h.Limits):
    """Thresholds of MM202."""

    usage: float = h.limit(150, "%", "Flink warns at 100; half as much again costs throughput")


def judge(facts: h.MemoryFacts, limits: Tight) -> h.Iterator[h.Finding]:
    """One finding per job, with the worst TaskManager."""
    if any(needs.missing for needs in facts.buffers):
        return  # what is required does not fit either: that is another rule's
    for job in facts.jobs:
        warned = [incident for incident in job.incidents if incident.kind == "network-memory"]
        if warned:
            yield _finding(facts, job, warned, limits.usage)


def _usage(incident: h.Incident) -> int:
    return int(incident.text.get("usage") or 0)


def _finding(
    facts: h.MemoryFacts, job: h.JobFacts, warned: list[h.Incident], serious: float
) -> h.Finding:
    worst = max(warned, key=_usage)
    usage = _usage(worst)
    wanted = worst.text.get("requested", "")
    size = wanted.rpartition("(")[2].removesuffix(" bytes)") if "(" in wanted else ""
    key = option("network-max", job.version) or h.model.NETWORK_MAX
    return h.of_place(
        job,
        worst.taskmanager,
        worst.host,
        otherwise="taskmanager",
        severity=h.Severity.WARNING if usage >= serious else h.Severity.INFO,
        title=f"Network pools would use {usage}% of the network memory on "
        f"{h.fmt.place(worst.taskmanager, worst.host)}",
        option=key,
        rank=h.Rank.SYMPTOM,
        first_us=warned[0].time_us,
        last_us=warned[-1].time_us,
        count=len(warned),
        explain="Each pool gets its required buffers and a share of the rest.",
        measurements=(h.measurement("network-usage", usage, "%", _FLINK_WARNS),),
        evidence=h.cite((i.ref, i.time_us) for i in sorted(warned, key=_usage, reverse=True)),
        actions=(_raise(facts, worst, job, key, int(size) if size.isdecimal() else None),),
    )


def _raise(
    facts: h.MemoryFacts, worst: h.Incident, job: h.JobFacts, key: str, size: int | None
) -> h.Action:
    """Room for what the pools want: checked by the model where the process is known."""
    text = "Raise the network memory to what the pools want"
    process = next((p for p in facts.processes if p.taskmanager == worst.taskmanager), None)
    found = enough_network(process, size) if process is not None and size else None
    if process is None or found is None:
        low, high = network_keys(job.version)
        return h.Action(
            text=text,
            option=high,
            proposed=h.write(high, size, h.version_of(job.version)) if size else None,
            measure=None if size else "RequestedMemoryUsage of the TaskManager",
            # A bound that is not known may lie beside it: both together are always accepted.
            together=h.changes({low: size}, {}, job.version) if size else (),
            restart_needed=True,
        )
    return setting_of(process, found, text)


RULE: Final = h.Rule("MM202", judge, Tight, whole=True)
