"""Executors are slow, or were lost.

What it reports
---------------
An executor on which tasks of the same stages take longer than elsewhere; executors that were lost,
with the reason, and blocks of receivers that were lost with them.

Why it matters
--------------
A slow machine makes every batch as long as it takes there. An executor that is lost takes the
blocks with it which its receiver had stored: their batches cannot be computed.

How it decides
--------------
Slow: over at least `stages` stages, the mean task on this executor takes `ratio` times the mean of
the same stages on the others, in the median. Lost: removed with a reason other than an idle or
requested removal (dynamic allocation, the end of the application), not after the
application began to stop, and not within `at-end` of its end. `Could not compute split, block input-... not found` (logs, or the reason of a
failed batch) says that records are gone: with the executor that was lost before, if one was, and
without it where nothing tells of one. It is over when `quiet` has passed since.

What to do
----------
Slow: look at the machine: other work, throttled CPU, disks. Lost: memory limits want more memory
overhead, 137 alone is a SIGKILL whose sender the node knows; preemption wants another queue. With receivers: replicate their blocks (`_2`), or write-
ahead log.

False alarms
------------
An executor that is started late reads its classes first: its first stages are few among many.
"""

from __future__ import annotations

import re
from typing import Final

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.facts import Executor
from flowdiag.analyses.rate.failures.troubles import BLOCK, Trouble, troubles
from flowdiag.analyses.rate.present import stop_us

_BENIGN: Final = (
    "idle",
    "killed by driver",
    "decommission",
    "kill request",
    "removed by request",
    "application finished",
    "sparkcontext",
    "shutdown",
    "shutting down",
    "command exited with code 0",
    "exited with exit code 0(",
    "driver commanded a shutdown",
    "worker shutting down",
)


class Lost(h.Limits):
    """What RT304 compares with."""

    ratio: float = h.limit(2.0, "ratio", "machines of one kind differ by a fifth")
    stages: float = h.limit(10, "stages", "fewer are chance")
    at_end: float = h.limit(2000, "ms", "before the end of the application: it is being stopped")
    quiet: float = h.limit(600_000, "ms", "what is over for so long has recovered")


def judge(assessed: h.Assessed, limits: Lost) -> h.Iterator[h.Finding | h.Inconclusive]:
    """One finding per slow executor, one for all that were lost."""
    app = assessed.app
    if app.kind == "other" and app.application:
        return  # of a fragment nobody knows what it was
    for one in app.executors:
        if one.ratio is not None and one.stages >= limits.stages and one.ratio >= limits.ratio:
            yield _slow(assessed, one, one.ratio, limits)
    # Removed for a benign reason or none: blocks go all the same.
    removed = [one for one in app.executors if _removed(assessed, one, limits)]
    lost = [one for one in removed if _failed(one)]
    blocks = [one for one in troubles(app) if one.kind == BLOCK]
    if lost:
        yield _gone(assessed, lost, blocks, limits)
    elif blocks:
        yield _blocks(assessed, removed, blocks, limits)


def _removed(assessed: h.Assessed, executor: Executor, limits: Lost) -> bool:
    """Whether it was removed before the application began to stop."""
    removed, ended, stopped = executor.removed_us, assessed.app.ended_us, stop_us(assessed.app)
    if removed is None:
        return False
    if stopped is not None and removed >= stopped:
        return False
    return ended is None or removed <= ended - limits.at_end * 1000


def _failed(executor: Executor) -> bool:
    text = (executor.reason or "").lower()
    return executor.reason is not None and not any(word in text for word in _BENIGN)


def _subject(assessed: h.Assessed, executor: Executor) -> h.Subject:
    return h.Subject(
        kind="executor",
        job_name=assessed.app.name,
        application=assessed.app.application,
        executor=executor.executor,
        host=executor.host,
    )


def _slow(assessed: h.Assessed, executor: Executor, ratio: float, limits: Lost) -> h.Finding:
    return h.application_finding(
        assessed,
        subject=_subject(assessed, executor),
        title=f"Tasks on executor {executor.executor} take {ratio:.1f} times as long as tasks of the "
        "same stages elsewhere",
        why=f"its tasks take {ratio:.1f} times as long as elsewhere, over {executor.stages} stages",
        cause="slow-executor",
        rank=h.Rank.ROOT_CAUSE,
        last_us=None,
        count=executor.stages,
        measurements=(
            h.measurement(
                "ratio",
                round(ratio, 2),
                "ratio",
                limits.ratio,
                over=f"{executor.tasks} tasks of {executor.stages} stages",
            ),
        ),
        evidence=h.cite([(executor.ref, executor.added_us)]),
        actions=h.remedies("slow-executor", assessed.app),
    )


def _blocks(
    assessed: h.Assessed, taken: list[Executor], blocks: list[Trouble], limits: Lost
) -> h.Finding:
    """Blocks that are gone although no executor failed: taken away when idle, or out of memory."""
    app = assessed.app
    names = {one.what for one in blocks if one.what}
    last = max(one.time_us or 0 for one in blocks)
    recent = (app.last_us or 0) - last < limits.quiet * 1000
    streams = {name.split("-")[1] for name in names if name.count("-") >= 2}
    subject, how = (
        h.application_subject(app),
        "and no executor was lost: they were dropped from memory",
    )
    if taken:
        subject = _subject(assessed, taken[-1])
        reason = h.fmt.shorten(taken[-1].reason or "", 80)
        how = f"after executor {taken[-1].executor} was taken away ({reason})"
    elif len(streams) == 1:
        subject = h.receiver_subject(app, int(streams.pop()))
    many = len(names) or len(blocks)
    gone = h.fmt.plural(many, "block of receivers is gone", "blocks of receivers are gone")
    return h.application_finding(
        assessed,
        subject=subject,
        severity=h.Severity.CRITICAL if recent else h.Severity.WARNING,
        state=h.State.ONGOING if recent else h.State.RECOVERED,
        title=f"{gone}, {how}",
        why=gone,
        cause="blocks-lost",
        rank=h.Rank.ROOT_CAUSE,
        first_us=min((one.time_us for one in blocks if one.time_us), default=None),
        last_us=last or None,
        count=len(blocks),
        measurements=(h.measurement("lost-blocks", many, "blocks"),),
        evidence=h.cite((one.ref, one.time_us) for one in blocks),
        actions=h.remedies("blocks-lost", app),
    )


def _named(blocks: list[Trouble]) -> str:
    names = sorted({one.what for one in blocks if one.what})
    if not names:
        return "blocks of receivers"
    more = f" and {len(names) - 1} more blocks" if len(names) > 1 else ""
    return f"block {names[0]}{more}"


def _gone(
    assessed: h.Assessed, lost: list[Executor], gone: list[Trouble], limits: Lost
) -> h.Finding:
    app = assessed.app
    last = max(lost, key=lambda one: one.removed_us or 0)
    first = min(one.removed_us or 0 for one in lost)
    # The log's clock has seconds only.
    blocks = [one for one in gone if one.time_us is None or one.time_us >= first - 1_000_000]
    recent = (app.last_us or 0) - (last.removed_us or 0) < limits.quiet * 1000
    reason = h.fmt.shorten((last.reason or "").splitlines()[0] if last.reason else "", 160)
    memory = "memory" in reason.lower() or "oomkilled" in reason.lower()
    killed = not memory and _KILLED.search(reason) is not None
    were, them = ("executors were", "them") if len(lost) > 1 else ("executor was", "it")
    executors = h.cite((one.ref, one.removed_us) for one in lost)
    missing = h.cite((one.ref, one.time_us) for one in blocks)
    return h.application_finding(
        assessed,
        subject=_subject(assessed, last),
        severity=h.Severity.CRITICAL if blocks and recent else h.Severity.WARNING,
        state=h.State.ONGOING if recent else h.State.RECOVERED,
        title=f"{len(lost)} {were} lost"
        + (f", and {_named(blocks)} with {them}" if blocks else "")
        + (f": {reason}" if reason else ""),
        explain=h.explanation("blocks-lost" if blocks else "executor-lost")
        + (_BY_WHOM if killed else ""),
        why=f"lost: {reason}" if reason else "lost",
        cause="out-of-memory" if memory else "executor-lost",
        # A stop takes the executors away as well, and a log that is cut there tells no more.
        confidence=h.Confidence.LOW if _ends_with(app, last) and not memory else h.Confidence.HIGH,
        rank=h.Rank.ROOT_CAUSE,
        first_us=first,
        last_us=last.removed_us,
        count=len(lost),
        measurements=(
            h.measurement("lost-executors", len(lost), "executors"),
            h.measurement("lost-blocks", len(blocks), "blocks"),
        ),
        # Some of both kinds.
        evidence=(*executors[-6:], *missing[:4]),
        evidence_total=len({*executors, *missing}),
        actions=h.remedies("out-of-memory", app, "spark-overhead")
        if memory
        else h.remedies("executor-lost", app),
    )


def _ends_with(app: h.ApplicationFacts, lost: Executor) -> bool:
    """Whether the loss is the last that is heard of the application, and no end is told."""
    return (
        app.ended_us is None
        and lost.removed_us is not None
        and (app.last_us or 0) - lost.removed_us < 1_000_000
    )


# A signal's number above 128: 9 is SIGKILL.
_KILLED: Final = re.compile(
    r"\b(?:exit(?:ed)? ?(?:with)? ?(?:code|status)|code|status)\D{0,3}137\b", re.IGNORECASE
)
_BY_WHOM: Final = (
    " Exit code 137 is a SIGKILL: somebody or the node killed it. For want of memory only if the events of the "
    "container or the node's log (dmesg) say so."
)


RULE = h.Rule(
    "RT304",
    judge,
    Lost,
    causes=("slow-executor", "executor-lost", "out-of-memory", "blocks-lost"),
)
