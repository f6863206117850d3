"""A receiver stops and restarts.

What it reports
---------------
Receivers that stopped and started again while the application was running.

Why it matters
--------------
Between the stop and the start, the application receives nothing. Without a write-ahead log, data in flight
may be lost.

How it decides
--------------
The receiver of a stream restarted at least `restarts` times, according to the listener or the driver's log.
The first recorded start counts as well if a stop precedes it, because the logs may begin while the receiver
is running. A stop at the end of the application does not count. The rule counts starts rather than errors,
because Spark does not always call `onReceiverError`. The finding is recovered when `recovery-time` has passed since
the last start.

False alarms
------------
If dynamic allocation removes an executor, its receiver restarts elsewhere. RT304 names the executor.
"""

from collections import defaultdict

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.detect.receivers import is_stopped_again, restarts


class Limits(h.Limits):
    restarts: float = h.limit(
        1, "restarts", "minimum number of restarts; a healthy receiver has none"
    )
    recovery_time: float = h.limit(600_000, "ms", "minimum time without a start for a recovery")


def judge(assessed: h.AssessedApplication, limits: Limits) -> h.Results:
    """Yield one finding per stream whose receiver restarted."""
    streams: dict[str, list[h.Record]] = defaultdict(list)
    for record in assessed.app.receivers:
        if record.what in ("started", "stopped", "error"):
            streams[record.fields.get("stream", "")].append(record)
    for stream in sorted(streams):
        again = restarts(streams[stream])
        if again and len(again) >= limits.restarts:
            yield _finding(assessed, stream, again, streams[stream], limits)


def _times(assessed: h.AssessedApplication, again: list[h.Record], records: list[h.Record]) -> str:
    times = "once" if len(again) == 1 else f"{len(again)} times"
    stopped = again[-1].what == "started" and is_stopped_again(assessed, records)
    return f"{times}, and stopped once more" if stopped else times


def _finding(
    assessed: h.AssessedApplication,
    stream: str,
    again: list[h.Record],
    records: list[h.Record],
    limits: Limits,
) -> h.Finding:
    app, last, count = assessed.app, again[-1].time_us, len(again)
    times = _times(assessed, again, records)
    number = int(stream) if stream.isdecimal() else None
    name = h.receiver_name(app, number) or f"The receiver of stream {stream}"
    # The last stop may belong to the stop of the application.
    own = [record for record in records if not (record.cause or "").startswith("Stopped by driver")]
    changes = [record for record in own if record.what != "error"]
    end = app.last_us or 0
    recovered = end - (last or end) > limits.recovery_time * 1000
    state = h.State.RECOVERED if recovered else h.State.ONGOING
    over = h.fmt.plural(len(app.completed), "batch", "batches")
    return h.stream_finding(
        assessed,
        number,
        severity=h.grade(state=state, share=count / max(1, len(app.completed))),
        state=state,
        title=f"{name} restarted {times}{_reason(own)}",
        why=f"restarted {times}",
        cause="receiver-restarts",
        rank=h.Rank.ROOT_CAUSE,
        first_us=again[0].time_us,
        last_us=last,
        count=count,
        measurements=(h.measurement("restarts", count, "restarts", over=over),),
        evidence=h.evidence_of(changes if changes[0].what == "stopped" else changes[1:]),
        actions=h.remedies("receiver-restarts", app),
    )


def _reason(records: list[h.Record]) -> str:
    """Return the reason for the last stop as a clause."""
    causes = [record.cause for record in records if record.cause and record.what != "started"]
    return f": {h.fmt.shorten(causes[-1].splitlines()[0], 160)}" if causes else ""


RULE = h.Rule("RT302", judge, Limits, causes=("receiver-restarts",), needs="receivers")
