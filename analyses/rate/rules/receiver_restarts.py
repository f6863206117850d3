"""A receiver stops and is started again.

What it reports
---------------
Receivers that stopped and were started again while the application ran.

Why it matters
--------------
Nothing is received in between, and what was in flight may be lost without a write-ahead log.

How it decides
--------------
Two or more starts of the same stream, from the listener or the driver's log, that a stop precedes;
a stop at the end of the application is none. `onReceiverError` need not come, so that starts count,
not errors.

What to do
----------
See why it stops: the message below. A source that hangs up needs a receiver that reconnects by
itself.

False alarms
------------
An executor that was taken away by dynamic allocation takes its receiver along; RT304 names it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.finding import (
    Action,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    State,
    grade,
)
from flowdiag.analyses.flink.judging import shorten
from flowdiag.analyses.rate import judging as j
from flowdiag.analyses.rate.facts import Record
from flowdiag.analyses.rate.state import Assessed
from flowdiag.analyses.rule import Limits, Rule, limit

AT_THE_END_US: Final = 10 * 60 * 1_000_000  # what is over for so long has recovered


class ReceiverRestartsLimits(Limits):
    """What RT302 compares with."""

    restarts: float = limit(1, "restarts", "a receiver that works is started once")


def judge(assessed: Assessed, limits: ReceiverRestartsLimits) -> Iterator[Finding | Inconclusive]:
    """One finding per stream whose receiver was started more than once."""
    streams: dict[str, list[Record]] = defaultdict(list)
    for record in assessed.app.receivers:
        if record.what in ("started", "stopped", "error"):
            streams[record.fields.get("stream", "")].append(record)
    for stream in sorted(streams):
        starts = started(streams[stream])
        if len(starts) - 1 >= limits.restarts:
            yield _finding(assessed, stream, starts, streams[stream])


def started(records: list[Record]) -> list[Record]:
    """The starts of one stream, each once although listener and log both tell of it."""
    by_origin: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        if record.what == "started":
            by_origin[record.fields.get("origin", "log")].append(record)
    return max(by_origin.values(), key=len, default=[])


def _finding(
    assessed: Assessed, stream: str, starts: list[Record], records: list[Record]
) -> Finding:
    app = assessed.app
    restarts = len(starts) - 1
    number = int(stream) if stream.isdecimal() else None
    causes = [record.cause for record in records if record.cause and record.what != "started"]
    cause = shorten(causes[-1].splitlines()[0], 160) if causes else None
    last = starts[-1].time_us
    over = last is not None and app.last_us is not None and app.last_us - last > AT_THE_END_US
    state = State.RECOVERED if over else State.ONGOING
    subject = j.receiver_subject(app, number)
    return Finding(
        job=assessed.key,
        severity=grade(state=state, share=restarts / max(1, len(app.completed))),
        state=state,
        subject=subject,
        title=(
            f"{subject.receiver or f'The receiver of stream {stream}'} was started again "
            f"{'once' if restarts == 1 else f'{restarts} times'}" + (f": {cause}" if cause else "")
        ),
        explain="Nothing is received between a stop and the next start.",
        why="was started again " + ("once" if restarts == 1 else f"{restarts} times"),
        cause="receiver-restarts",
        rank=Rank.ROOT_CAUSE,
        first_us=starts[1].time_us,
        last_us=last,
        count=restarts,
        measurements=(
            Measurement(
                name="restarts",
                value=restarts,
                unit="restarts",
                population=f"{len(app.completed)} batches",
            ),
        ),
        evidence=j.of_records([r for r in records if r.what != "error"][1:]),
        actions=(
            Action(
                text="See why it stops, and reconnect inside the receiver",
                option="spark.streaming.receiverRestartDelay",
                current=j.setting(app, "spark.streaming.receiverRestartDelay"),
                verify="one start per stream",
            ),
        ),
    )


RULE: Final = Rule("RT302", judge, ReceiverRestartsLimits)
