"""Finds oversized RPC messages, which are logged by the process that drops them or by the sender's exception."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.startup.facts import StartupFacts, Trouble
from flowdiag.analyses.startup.failures import failure_text

_KINDS: Final = ("rpc-oversized", "rpc-frame-exceeded", "rpc-result-too-large")
_IN_CAUSE: Final = re.compile(
    r"The rpc invocation size (?:(?P<bytes>[0-9]{1,18}) )?exceeds the maximum akka framesize"
    r"|result size (?P<result>[0-9]{1,18}) exceeds the maximum size (?P<allowed>[0-9]{1,18})"
    r"|max allowed size (?P<max>[0-9]{1,18}) bytes, actual size of [^\n]{1,400}? was (?P<actual>[0-9]{1,18})"
)


def oversized_messages(facts: StartupFacts) -> tuple[Trouble, ...]:
    """Return all records of oversized messages."""
    return (*facts.of_kind(*_KINDS), *_troubles_in_causes(facts))


def _troubles_in_causes(facts: StartupFacts) -> Iterator[Trouble]:
    """Yield oversized messages that failed a task or the job, according to the sender's exception."""
    for job in facts.jobs:
        for incident in job.job.incidents:
            found = _IN_CAUSE.search((failure_text(incident) or "")[:16_384])
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
