"""A receiver stops and is started again.

What it reports
---------------
Receivers that stopped and were started again while the application ran.

Why it matters
--------------
Nothing is received in between, and what was in flight may be lost without a write-ahead log.

How it decides
--------------
A stream that was started again `restarts` times or more, from the listener or the driver's log, where
a stop precedes, also one with which the log begins; a stop at the end of the application is none. `onReceiverError` need not come, so
that starts count, not errors. It is over when `quiet` has passed since the last start.

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

from flowdiag.analyses.rate import helpers as h


class Restarts(h.Limits):
    """What RT302 compares with."""

    restarts: float = h.limit(1, "restarts", "a receiver that works is started once")
    quiet: float = h.limit(600_000, "ms", "what is over for so long has recovered")


def judge(assessed: h.Assessed, limits: Restarts) -> h.Iterator[h.Finding | h.Inconclusive]:
    """One finding per stream whose receiver was started more than once."""
    streams: dict[str, list[h.Record]] = defaultdict(list)
    for record in assessed.app.receivers:
        if record.what in ("started", "stopped", "error"):
            streams[record.fields.get("stream", "")].append(record)
    for stream in sorted(streams):
        starts = started(streams[stream])
        again = starts if _begins_with_a_stop(streams[stream], starts) else starts[1:]
        if again and len(again) >= limits.restarts:
            yield _finding(assessed, stream, again, streams[stream], limits)


def started(records: list[h.Record]) -> list[h.Record]:
    """The starts of one stream, each once although listener and log both tell of it."""
    by_origin: dict[str, list[h.Record]] = defaultdict(list)
    for record in records:
        if record.what == "started":
            by_origin[record.fields.get("origin", "log")].append(record)
    return max(by_origin.values(), key=len, default=[])


def _begins_with_a_stop(records: list[h.Record], starts: list[h.Record]) -> bool:
    """Whether the first start that is told follows a stop: the input begins while the receiver ran."""
    first = starts[0] if starts else None
    return first is not None and any(
        record.what == "stopped"
        and (record.time_us or 0) < (first.time_us or 0)
        and "Stopped by driver" not in (record.cause or "")
        for record in records
    )


def _stopped_since(assessed: h.Assessed, records: list[h.Record]) -> bool:
    """Whether a stop after which Spark meant to start it again is the last that is told."""
    of_log = [record for record in records if record.fields.get("origin", "log") == "log"]
    last = next((record for record in reversed(of_log) if record.what != "error"), None)
    return (
        last is not None
        and last.what == "stopped"
        and "Restarting receiver" in (last.cause or "")
        and assessed.app.ended_us is None
    )


def _finding(
    assessed: h.Assessed,
    stream: str,
    starts: list[h.Record],
    records: list[h.Record],
    limits: Restarts,
) -> h.Finding:
    """The finding of one stream; `starts` without the first, which is no restart."""
    app, last = assessed.app, starts[-1].time_us
    restarts = len(starts)
    again = "once" if restarts == 1 else f"{restarts} times"
    if _stopped_since(assessed, records):
        again += ", and stopped once more"
    number = int(stream) if stream.isdecimal() else None
    name = h.receiver_name(app, number) or f"The receiver of stream {stream}"
    causes = [record.cause for record in records if record.cause and record.what != "started"]
    cause = f": {h.fmt.shorten(causes[-1].splitlines()[0], 160)}" if causes else ""
    told = [record for record in records if record.what != "error"]
    since = told if told[0].what == "stopped" else told[1:]
    ended = app.last_us
    over = last is not None and ended is not None and ended - last > limits.quiet * 1000
    state = h.State.RECOVERED if over else h.State.ONGOING
    return h.stream_finding(
        assessed,
        number,
        severity=h.grade(state=state, share=restarts / max(1, len(app.completed))),
        state=state,
        title=f"{name} was started again {again}{cause}",
        why=f"was started again {again}",
        cause="receiver-restarts",
        rank=h.Rank.ROOT_CAUSE,
        first_us=starts[0].time_us,
        last_us=last,
        count=restarts,
        measurements=(
            h.measurement(
                "restarts",
                restarts,
                "restarts",
                over=h.fmt.plural(len(app.completed), "batch", "batches"),
            ),
        ),
        evidence=h.evidence_of(since),
        actions=h.remedies("receiver-restarts", app),
    )


RULE = h.Rule("RT302", judge, Restarts, causes=("receiver-restarts",))
