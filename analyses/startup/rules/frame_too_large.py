"""An RPC message exceeded the maximum frame size.

What it reports
---------------
The rule reports messages that were dropped because of their size. It shows the size, the limit, and the
option with a sufficient value.

Why it matters
--------------
The sender gets no response, because the message is lost. The visible symptom is a timeout elsewhere: a task
is never deployed, or a checkpoint is never acknowledged.

How it decides
--------------
The rule reads the RPC layer's own log lines, which contain the size of the message and the limit.

False alarms
------------
None are known. The log line proves that the message was dropped.
"""

from typing import Final

from flowdiag.analyses.startup import helpers as h
from flowdiag.parsers.units import version_of

# The proposed value is Flink's default, doubled until it is large enough, at most the largest frame.
_DEFAULT: Final = 10 * 1024 * 1024
_LARGEST: Final = 1 << 30


def judge(facts: h.StartupFacts, limits: h.Limits) -> h.Iterator[h.Finding]:
    """Report all oversized messages of the cluster in one finding."""
    troubles = h.oversized_messages(facts)
    if not troubles:
        return
    worst = max(troubles, key=lambda trouble: trouble.size or 0)
    allowed = worst.values.get("allowed", "")
    most = int(allowed) if allowed.isdecimal() and len(allowed) < 19 else None
    option = _option(facts, troubles)
    proposed = _proposed_size(worst.size)
    title = _title(worst, most)
    yield h.trouble_finding(
        facts,
        troubles,
        ongoing=not facts.running,
        subject=h.Subject(kind="process", host=worst.peer if worst.peer != worst.host else None),
        title=title,
        why=title,
        cause="frame-too-large",
        rank=h.Rank.FATAL,
        option=option,
        measurements=(h.measurement("message-size", worst.size, "bytes", most),),
        actions=(
            h.Action(
                text="Raise the frame size to the same value on all processes and clients",
                option=option,
                current=h.CurrentValue(h.fmt.size(most)) if most is not None else None,
                proposed=h.write(option, proposed) if proposed is not None else None,
                measure=None if proposed is not None else "the size of the largest message",
                restart_needed=True,
            ),
            *h.remedies("frame-too-large", h.UNKNOWN_JOB, "smaller"),
        ),
    )


def _title(worst: h.Trouble, most: int | None) -> str:
    what = worst.values.get("method") or worst.values.get("message", "").rpartition(".")[2]
    title = f"An RPC message{f' ({what})' if what else ''} exceeds the maximum frame size"
    if worst.size is None:
        return title
    title += f": {h.fmt.size(worst.size)}"
    return title if most is None else f"{title}, the limit is {h.fmt.size(most)}"


def _option(facts: h.StartupFacts, troubles: tuple[h.Trouble, ...]) -> str:
    """Return the option's name, which changed in 1.18 when Pekko replaced Akka."""
    texts = (*(job.job.version for job in facts.jobs), *(p.version for p in facts.processes))
    versions = [version for text in texts if (version := version_of(text)) is not None]
    if versions:
        return "pekko.framesize" if min(versions) >= (1, 18) else "akka.framesize"
    pekko = any("pekko" in str(value) for t in troubles for value in t.values.values())
    return "pekko.framesize" if pekko else "akka.framesize"


def _proposed_size(size: int | None) -> int | None:
    """Return Flink's default doubled until it is at least twice the message size, or None if that exceeds 1 GiB."""
    if size is None or size > _LARGEST:
        return None
    enough = _DEFAULT
    while enough < 2 * size:
        enough *= 2
    return min(enough, _LARGEST)


RULE: Final = h.Rule(
    "ST307",
    judge,
    whole=True,
    causes=("frame-too-large",),
    needs="dated-records",
    severity=h.Severity.CRITICAL,
)
