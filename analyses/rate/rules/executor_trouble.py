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
requested removal (dynamic allocation, the end of the application). `Could not compute split, block
input-... not found` (logs, or the reason of a failed batch) says that records are gone: with the
executor that was lost before, if one was, and without it where nothing tells of one.

What to do
----------
Slow: look at the machine: other work, throttled CPU, disks. Lost: 137 and memory limits want more
memory overhead; preemption another queue. With receivers: replicate their blocks (`_2`), or write-
ahead log.

False alarms
------------
An executor that is started late reads its classes first: its first stages are few among many.
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
from flowdiag.analyses.flink.judging import shorten
from flowdiag.analyses.rate import judging as j
from flowdiag.analyses.rate.causes import BLOCK, Trouble, troubles
from flowdiag.analyses.rate.facts import Executor
from flowdiag.analyses.rate.state import Assessed
from flowdiag.analyses.rule import Limits, Rule, limit

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
    "driver commanded a shutdown",
    "worker shutting down",
)


class ExecutorTroubleLimits(Limits):
    """What RT304 compares with."""

    ratio: float = limit(2.0, "ratio", "machines of one kind differ by a fifth")
    stages: float = limit(10, "stages", "fewer are chance")


def judge(assessed: Assessed, limits: ExecutorTroubleLimits) -> Iterator[Finding | Inconclusive]:
    """One finding per slow executor, one for all that were lost."""
    if assessed.app.kind == "other":
        return
    for executor in assessed.app.executors:
        if (
            executor.ratio is not None
            and executor.stages >= limits.stages
            and executor.ratio >= limits.ratio
        ):
            yield _slow(assessed, executor, limits.ratio)
    lost = [one for one in assessed.app.executors if _lost(assessed, one)]
    blocks = [one for one in troubles(assessed.app) if one.kind == BLOCK]
    if lost:
        yield _gone(assessed, lost, blocks)
    elif blocks:
        yield _blocks(assessed, blocks)


def _lost(assessed: Assessed, executor: Executor) -> bool:
    if executor.removed_us is None or executor.reason is None:
        return False
    ended = assessed.app.ended_us
    if ended is not None and executor.removed_us > ended - 2_000_000:
        return False
    text = executor.reason.lower()
    return not any(word in text for word in _BENIGN)


def _subject(assessed: Assessed, executor: Executor) -> Subject:
    app = assessed.app
    return Subject(
        kind="executor",
        job_name=app.name,
        application=app.application,
        executor=executor.executor,
        host=executor.host,
    )


def _slow(assessed: Assessed, executor: Executor, limit: float) -> Finding:
    ratio = executor.ratio or 0.0
    return Finding(
        job=assessed.key,
        severity=Severity.WARNING,
        state=State.ONGOING,
        subject=_subject(assessed, executor),
        title=(
            f"Tasks on executor {executor.executor} take {ratio:.1f} times as long as tasks of the same "
            f"stages elsewhere"
        ),
        explain="Each batch waits for its tasks there.",
        why=f"its tasks take {ratio:.1f} times as long as elsewhere, over {executor.stages} stages",
        cause="slow-executor",
        rank=Rank.ROOT_CAUSE,
        count=executor.stages,
        measurements=(
            Measurement(
                name="ratio",
                value=round(ratio, 2),
                unit="ratio",
                threshold=limit,
                population=f"{executor.tasks} tasks of {executor.stages} stages",
            ),
        ),
        evidence=cite([(executor.ref, executor.added_us)]),
        actions=(
            Action(
                text="See what else runs on that machine, and run slow tasks twice",
                option="spark.speculation",
                current=assessed.app.settings.get("spark.speculation"),
                proposed="true",
                restart_needed=True,
                verify="mean task durations by executor",
            ),
        ),
    )


def _taken(assessed: Assessed) -> list[Executor]:
    """Executors that were removed for a benign reason, with which blocks go all the same."""
    ended = assessed.app.ended_us or 2**62
    return [
        one
        for one in assessed.app.executors
        if one.removed_us is not None and one.removed_us < ended - 2_000_000
    ]


def _blocks(assessed: Assessed, blocks: list[Trouble]) -> Finding:
    """Blocks that are gone although no executor failed: taken away when idle, or out of memory."""
    app = assessed.app
    names = sorted({one.what for one in blocks if one.what})
    last = max(one.time_us or 0 for one in blocks)
    recent = (app.last_us or 0) - last < 600_000_000
    taken = _taken(assessed)
    streams = {name.split("-")[1] for name in names if name.count("-") >= 2}
    stream = int(next(iter(streams))) if len(streams) == 1 else None
    subject = (
        _subject(assessed, taken[-1])
        if taken
        else j.receiver_subject(app, stream)
        if stream is not None
        else j.application_subject(app)
    )
    why = (
        f"after executor {taken[-1].executor} was taken away ({shorten(taken[-1].reason or '', 80)})"
        if taken
        else "and no executor was lost: they were dropped from memory"
    )
    return Finding(
        job=assessed.key,
        severity=Severity.CRITICAL if recent else Severity.WARNING,
        state=State.ONGOING if recent else State.RECOVERED,
        subject=subject,
        title=f"{len(names) or len(blocks)} blocks of receivers are gone, {why}",
        explain="Batches that need these blocks fail: the records are gone.",
        why=f"{len(names) or len(blocks)} blocks of receivers are gone",
        cause="blocks-lost",
        rank=Rank.ROOT_CAUSE,
        first_us=min((one.time_us for one in blocks if one.time_us), default=None),
        last_us=last or None,
        count=len(blocks),
        measurements=(
            Measurement(name="lost-blocks", value=len(names) or len(blocks), unit="blocks"),
        ),
        evidence=cite((one.ref, one.time_us) for one in blocks[:10]),
        actions=(
            Action(
                text="Write what comes in to a log before it is processed",
                option="spark.streaming.receiver.writeAheadLog.enable",
                current=app.settings.get("spark.streaming.receiver.writeAheadLog.enable"),
                proposed="true",
                risk="each block is written once more",
                restart_needed=True,
                verify="no block that is not found",
            ),
        ),
    )


def _named(blocks: list[Trouble]) -> str:
    names = sorted({one.what for one in blocks if one.what})
    if not names:
        return "blocks of receivers"
    more = f" and {len(names) - 1} more blocks" if len(names) > 1 else ""
    return f"block {names[0]}{more}"


def _gone(assessed: Assessed, lost: list[Executor], gone: list[Trouble]) -> Finding:
    app = assessed.app
    last = max(lost, key=lambda one: one.removed_us or 0)
    first = min(one.removed_us or 0 for one in lost)
    # The log's clock has seconds only.
    blocks = [one for one in gone if one.time_us is None or one.time_us >= first - 1_000_000]
    recent = (app.last_us or 0) - (last.removed_us or 0) < 600_000_000
    reason = shorten((last.reason or "").splitlines()[0] if last.reason else "", 160)
    memory = "137" in reason or "memory" in reason.lower()
    return Finding(
        job=assessed.key,
        severity=Severity.CRITICAL if blocks and recent else Severity.WARNING,
        state=State.ONGOING if recent else State.RECOVERED,
        subject=_subject(assessed, last),
        title=(
            f"{len(lost)} executor{'s were' if len(lost) > 1 else ' was'} lost: {reason}"
            + (f", and {_named(blocks)} with them" if blocks else "")
        ),
        explain=(
            "Batches that need these blocks fail: the records are gone."
            if blocks
            else "Its tasks run again elsewhere; until then batches take longer."
        ),
        why=f"lost: {reason}",
        cause="out-of-memory" if memory else "executor-lost",
        rank=Rank.ROOT_CAUSE,
        first_us=min(one.removed_us or 0 for one in lost),
        last_us=last.removed_us,
        count=len(lost),
        measurements=(
            Measurement(name="lost-executors", value=len(lost), unit="executors"),
            Measurement(name="lost-blocks", value=len(blocks), unit="blocks"),
        ),
        evidence=(
            *cite((one.ref, one.removed_us) for one in lost[-6:]),
            *cite((one.ref, one.time_us) for one in blocks[:4]),
        ),
        actions=(
            Action(
                text="Give executors more memory beside the heap"
                if memory
                else "See why it was taken away",
                option="spark.executor.memoryOverhead" if memory else None,
                current=app.settings.get("spark.executor.memoryOverhead") if memory else None,
                restart_needed=True,
                verify="no executor removed",
            ),
        ),
    )


RULE: Final = Rule("RT304", judge, ExecutorTroubleLimits)
