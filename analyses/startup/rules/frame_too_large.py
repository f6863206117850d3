"""An RPC message was larger than allowed.

What it reports
---------------
Messages that were dropped for their size: how large, how large they may be, and the option with a value that is
enough.

Why it matters
--------------
The message is gone without an answer. What shows is a time-out somewhere else: a task that is never deployed, a
checkpoint that is never acknowledged.

How it decides
--------------
By the words of the RPC layer, which name both sizes.

What to do
----------
Raise the frame size on all processes; better still, make the message small: large fields of user functions go
into every deployment of every subtask.

False alarms
------------
None known: what is dropped is dropped.
"""

from __future__ import annotations

import re
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
from flowdiag.analyses.flink.options import version_of
from flowdiag.analyses.rule import Limits, Rule
from flowdiag.analyses.startup.facts import StartupFacts, Trouble

_KINDS: Final = ("rpc-oversized", "rpc-frame-exceeded", "rpc-result-too-large")

_DEFAULT: Final = 10 * 1024 * 1024
_MOST: Final = 1 << 30


def judge(facts: StartupFacts, limits: Limits) -> Iterator[Finding | Inconclusive]:
    """One finding for the cluster."""
    troubles = oversized(facts)
    if troubles:
        yield _finding(facts, troubles)


_IN_CAUSE: Final = re.compile(
    r"The rpc invocation size (?:(?P<bytes>[0-9]{1,18}) )?exceeds the maximum akka framesize"
    r"|result size (?P<result>[0-9]{1,18}) exceeds the maximum size (?P<allowed>[0-9]{1,18})"
    r"|max allowed size (?P<max>[0-9]{1,18}) bytes, actual size of [^\n]{1,400}? was (?P<actual>[0-9]{1,18})"
)


def _in_causes(facts: StartupFacts) -> Iterator[Trouble]:
    """Messages that failed a task or the job: the sender is told in an exception."""
    for job in facts.jobs:
        for incident in job.job.incidents:
            if incident.kind not in ("task-failure", "job-failing", "job-failure"):
                continue
            text = "\n".join(filter(None, [incident.cause, incident.text.get("exception")]))
            found = _IN_CAUSE.search(text[:16_384])
            if found is None:
                continue
            size = found["bytes"] or found["result"] or found["actual"]
            allowed = found["allowed"] or found["max"]
            yield Trouble(
                kind="rpc-frame-exceeded",
                count=1,
                first_us=incident.time_us,
                last_us=incident.time_us,
                size=int(size) if size else None,
                values={"allowed": allowed} if allowed else {},
                ref=incident.ref,
            )


def oversized(facts: StartupFacts) -> tuple[Trouble, ...]:
    """Everything that says that a message was too large."""
    return (*facts.of_kind(*_KINDS), *_in_causes(facts))


def frame_option(facts: StartupFacts, troubles: tuple[Trouble, ...]) -> str:
    """The option's name: Akka was left for Pekko in 1.18."""
    versions = [
        version for job in facts.jobs if (version := version_of(job.job.version)) is not None
    ] + [v for p in facts.processes if (v := version_of(p.version)) is not None]
    if versions:
        return "pekko.framesize" if min(versions) >= (1, 18) else "akka.framesize"
    pekko = any("pekko" in str(value) for t in troubles for value in t.values.values())
    return "pekko.framesize" if pekko else "akka.framesize"


def _enough(size: int | None) -> int | None:
    """The next power of two above twice the size, so that it is enough for a while."""
    if size is None or size > _MOST:
        return None
    enough = _DEFAULT
    while enough < 2 * size:
        enough *= 2
    return min(enough, _MOST)


def _finding(facts: StartupFacts, troubles: tuple[Trouble, ...]) -> Finding:
    worst = max(troubles, key=lambda trouble: trouble.size or 0)
    allowed = worst.values.get("allowed", "")
    limit = int(allowed) if allowed.isdecimal() and len(allowed) < 19 else None
    option = frame_option(facts, troubles)
    proposed = _enough(worst.size)
    what = worst.values.get("method") or worst.values.get("message", "").rpartition(".")[2]
    held = not facts.running
    size = j.bytes_text(worst.size) if worst.size is not None else None
    told = f"An RPC message{f' ({what})' if what else ''} is larger than allowed"
    if size is not None and limit is not None:
        told += f": {size}, the limit is {j.bytes_text(limit)}"
    elif size is not None:
        told += f": {size}"
    times = [t.first_us for t in troubles if t.first_us is not None]
    return Finding(
        job=facts.jobs[0].job.key if len(facts.jobs) == 1 else None,
        severity=Severity.CRITICAL if held else Severity.WARNING,
        state=State.ONGOING if held else State.RECOVERED,
        subject=Subject(kind="process", host=worst.peer if worst.peer != worst.host else None),
        title=told,
        why=told,
        cause="frame-too-large",
        rank=Rank.FATAL,
        option=option,
        first_us=min(times, default=None),
        last_us=max((t.last_us for t in troubles if t.last_us is not None), default=None),
        count=sum(trouble.count for trouble in troubles),
        explain="It is dropped without an answer; whoever waits for one runs into a time-out.",
        measurements=(
            Measurement(name="message", value=worst.size, unit="bytes", threshold=limit),
        ),
        evidence=cite((t.ref, t.first_us) for t in troubles),
        ranked=True,
        actions=(
            Action(
                text="Raise the frame size, the same on all processes and on clients",
                option=option,
                current=f"{limit}b" if limit is not None else None,
                proposed=f"{proposed}b" if proposed is not None else None,
                restart_needed=True,
            ),
            Action(
                text="Keep large objects out of user functions (load them in open()), and unite list state "
                "of many parts: both travel with every deployment"
            ),
        ),
    )


RULE: Final = Rule("ST307", judge, whole=True)
