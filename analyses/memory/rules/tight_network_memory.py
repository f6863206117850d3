"""Pools would like more network memory than there is.

What it reports
---------------
TaskManagers that warn that the pools together would like more memory than there is.

Why it matters
--------------
Pools then share what is left: fewer floating buffers, lower throughput, back pressure that comes and goes.

How it decides
--------------
By Flink's own warning `Memory usage [N%] is too high` (1.15 and later), as long as it is not taken back.

What to do
----------
Raise the network memory to what is wanted, or let buffer debloating make buffers smaller.

False alarms
------------
A low load needs no more than the required buffers; then the warning costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.finding import (
    Action,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    Severity,
    State,
    Subject,
    cite,
)
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.flink.options import option
from flowdiag.analyses.memory import model as m
from flowdiag.analyses.memory.facts import MemoryFacts
from flowdiag.analyses.rule import Limits, Rule, limit


class TightNetworkMemoryLimits(Limits):
    """What MM202 compares with."""

    usage: float = limit(150, "%", "Flink warns at 100; half as much again costs throughput")


def judge(facts: MemoryFacts, limits: TightNetworkMemoryLimits) -> Iterator[Finding | Inconclusive]:
    """One finding per job, with the worst TaskManager."""
    if any(needs.missing for needs in facts.buffers):
        return  # what is required does not fit either: that is another rule's
    for job in facts.jobs:
        warned = [i for i in job.incidents if i.kind == "network-memory"]
        worst = max(warned, key=lambda i: int(i.text.get("usage") or 0), default=None)
        if worst is None:
            continue
        usage = int(worst.text.get("usage") or 0)
        wanted = worst.text.get("requested", "")
        size = wanted.rpartition("(")[2].removesuffix(" bytes)") if "(" in wanted else ""
        key = option("network-max", job.version) or m.NETWORK_MAX
        yield Finding(
            job=job.key,
            severity=Severity.WARNING if usage >= limits.usage else Severity.INFO,
            state=State.ONGOING,
            subject=Subject(
                kind="taskmanager",
                job_id=job.key.job_id or None,
                job_name=job.name,
                taskmanager=worst.taskmanager,
                host=worst.host,
            ),
            title=f"Network pools would use {usage} % of the network memory on "
            f"{j.place_text(worst.taskmanager, worst.host)}",
            rank=Rank.SYMPTOM,
            option=key,
            first_us=warned[0].time_us,
            last_us=warned[-1].time_us,
            count=len(warned),
            explain="Each pool gets its required buffers and a share of the rest.",
            measurements=(Measurement(name="network-usage", value=usage, unit="%", threshold=100),),
            evidence=cite((i.ref, i.time_us) for i in warned[:8]),
            actions=(
                Action(
                    text="Raise the network memory to what the pools want",
                    option=key,
                    proposed=m.as_option(int(size)) if size.isdecimal() else None,
                    restart_needed=True,
                ),
            ),
        )


RULE: Final = Rule("MM202", judge, TightNetworkMemoryLimits, whole=True)
