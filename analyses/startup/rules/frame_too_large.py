"""An RPC message was larger than allowed.

What it reports
---------------
Messages that were dropped for their size: how large, how large they may be, and the option with a value that is
enough.

Why it matters
--------------
The message is gone without an answer. What shows is a timeout somewhere else: a task that is never deployed, a
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

from typing import Final

from flowdiag.analyses.flink.options import version_of
from flowdiag.analyses.startup import helpers as h

# What is proposed: Flink's default, doubled until it is enough, up to what fits a frame.
_DEFAULT: Final = 10 * 1024 * 1024
_MOST: Final = 1 << 30


def judge(facts: h.StartupFacts, limits: h.Limits) -> h.Iterator[h.Finding]:
    """One finding for the cluster."""
    troubles = h.oversized(facts)
    if not troubles:
        return
    worst = max(troubles, key=lambda trouble: trouble.size or 0)
    allowed = worst.values.get("allowed", "")
    most = int(allowed) if allowed.isdecimal() and len(allowed) < 19 else None
    option = _option(facts, troubles)
    proposed = _enough(worst.size)
    told = _told(worst, most)
    yield h.of_troubles(
        facts,
        troubles,
        ongoing=not facts.running,
        subject=h.Subject(kind="process", host=worst.peer if worst.peer != worst.host else None),
        title=told,
        why=told,
        cause="frame-too-large",
        rank=h.Rank.FATAL,
        option=option,
        measurements=(h.measurement("message", worst.size, "bytes", most),),
        actions=(
            h.Action(
                text="Raise the frame size, the same on all processes and on clients",
                option=option,
                current=h.Present(h.fmt.size(most)) if most is not None else None,
                proposed=h.write(option, proposed) if proposed is not None else None,
                measure=None if proposed is not None else "the size of the largest message",
                restart_needed=True,
            ),
            *h.remedies("frame-too-large", h.UNKNOWN_JOB, "smaller"),
        ),
    )


def _told(worst: h.Trouble, most: int | None) -> str:
    what = worst.values.get("method") or worst.values.get("message", "").rpartition(".")[2]
    told = f"An RPC message{f' ({what})' if what else ''} is larger than allowed"
    if worst.size is None:
        return told
    told += f": {h.fmt.size(worst.size)}"
    return told if most is None else f"{told}, the limit is {h.fmt.size(most)}"


def _option(facts: h.StartupFacts, troubles: tuple[h.Trouble, ...]) -> str:
    """The option's name: Akka was left for Pekko in 1.18."""
    written = (*(job.job.version for job in facts.jobs), *(p.version for p in facts.processes))
    versions = [version for text in written if (version := version_of(text)) is not None]
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


RULE: Final = h.Rule("ST307", judge, whole=True, causes=("frame-too-large",))
