"""Kafka or metadata writes hold batches up.

What it reports
---------------
Polls of Kafka that time out, offsets that were deleted before they were read, and checkpoints of
the driver or of its write-ahead log that are slow or fail.

Why it matters
--------------
Each is time, or data, that no core of Spark's can win back.

How it decides
--------------
Failures of tasks, batches and queries, and records of the logs of driver and executors, each counted
once: `Failed to get records for ... after polling for`, `Cannot fetch record for offset ...`, offsets
out of range or data that Kafka has no more. One poll that an exception by itself tells of is left to RT103. A partition is named where `mostly` of the failures name
it. `Checkpoint for time ... took ... ms` above `share` of the interval in the median, of `writes` at
least. `Exception thrown while writing record` of the write-ahead log, other than within `at-end` of
the application's end. Except for lost records it is over when it happened once only, or when `quiet`
has passed since.

What to do
----------
Polls: look at the brokers and the partition that is named; `spark.streaming.kafka.consumer.poll.ms`
(or `kafkaConsumer.pollTimeoutMs`) only waits longer. Out of range: keep records for longer than the
delay grows, or catch up faster. Checkpoints: a longer checkpoint interval, faster storage.

False alarms
------------
One poll that timed out while a broker was restarted: it is information.
"""

from __future__ import annotations

from collections import Counter
from statistics import median
from typing import Final

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.failures.troubles import GONE, POLL, Trouble, classify_failure, troubles
from flowdiag.analyses.rate.limits import RETENTION_MS

_FAILED: Final = {
    "graph-checkpoint-failed": ("checkpoint of the driver", "checkpoints of the driver"),
    "wal-write-failed": ("record of the write-ahead log", "records of the write-ahead log"),
}


class Outside(h.Limits):
    """What RT305 compares with."""

    share: float = h.limit(0.5, "share", "of the interval, for one checkpoint of the driver")
    writes: float = h.limit(3, "checkpoints", "fewer are chance")
    mostly: float = h.limit(0.8, "share", "of the failures, for one partition to be named for them")
    at_end: float = h.limit(60_000, "ms", "before the end of the application: it is being stopped")
    quiet: float = h.limit(600_000, "ms", "what is over for so long has recovered")


def judge(assessed: h.Assessed, limits: Outside) -> h.Iterator[h.Finding | h.Inconclusive]:
    """One finding per kind of trouble and application."""
    if assessed.app.kind == "other":
        return
    told = troubles(assessed.app)
    polls = [one for one in told if one.kind == POLL]
    gone = [one for one in told if one.kind == GONE]
    if polls and not _is_the_end(assessed.app, polls):
        yield _polls(assessed, polls, limits)
    if gone:
        yield _gone(assessed, gone, limits)
    yield from _slow_writes(assessed, limits)
    yield from _failed_writes(assessed, limits)


def _is_the_end(app: h.ApplicationFacts, polls: h.Sequence[Trouble]) -> bool:
    """Whether all that is told is one poll, by an exception that stands by itself: RT103 tells of that one."""
    return len(polls) == 1 and any(
        event.what == "terminated"
        and event.fields.get("origin") == "paste"
        and (said := classify_failure(event.cause)) is not None
        and said[0] == POLL
        for query in app.queries
        for event in query.events
    )


def _polls(assessed: h.Assessed, polls: list[Trouble], limits: Outside) -> h.Finding:
    partition, told = _mostly(polls, limits)
    return _finding(
        assessed,
        polls,
        limits,
        cause="slow-kafka",
        partition=partition,
        title=f"{h.fmt.plural(len(polls), 'poll')} of Kafka timed out{told}",
        action=h.remedies("slow-kafka", assessed.app)[0],
    )


def _gone(assessed: h.Assessed, gone: list[Trouble], limits: Outside) -> h.Finding:
    partition, told = _mostly(gone, limits)
    late = assessed.state.delay_ms if assessed.state is not None else None
    explain, proposed = h.explanation("offsets-out-of-range"), None
    if late is not None and late > 60_000:
        explain += f" Batches were {h.fmt.duration(late)} late: the delay beat the retention."
        proposed = max(float(RETENTION_MS), 2 * late)
    return _finding(
        assessed,
        gone,
        limits,
        cause="offsets-out-of-range",
        partition=partition,
        title=f"Records were deleted in Kafka before they were read{told}",
        explain=explain,
        fatal=True,
        action=h.remedies("offsets-out-of-range", assessed.app, proposed={"retention": proposed})[
            0
        ],
    )


def _mostly(of: h.Sequence[Trouble], limits: Outside) -> tuple[str | None, str]:
    """The partition that most of the failures name, and the words for it."""
    named = Counter(one.what for one in of if one.what)
    if not named:
        return None, ""
    name, times = named.most_common(1)[0]
    if len(named) == 1:
        return name, f", all of partition {name}" if len(of) > 1 else f": partition {name}"
    told = f", {times} of them of partition {name}"
    mostly = times >= limits.mostly * len(of)
    return (name, told) if mostly else (None, f", of {len(named)} partitions")


def _slow_writes(assessed: h.Assessed, limits: Outside) -> h.Iterator[h.Finding]:
    app = assessed.app
    writes = [one for one in app.incidents if one.template == "graph-checkpoint"]
    took = [r.duration_ms for r in writes if r.duration_ms is not None]
    if not app.interval_ms or len(took) < max(1, limits.writes):
        return
    least = limits.share * app.interval_ms
    if median(took) >= least:
        yield _finding(
            assessed,
            writes,
            limits,
            cause="slow-metadata-writes",
            title=f"The driver's checkpoints take {h.fmt.duration(median(took))} to write, of an "
            f"interval of {h.fmt.duration(app.interval_ms)}",
            explain="",
            more=h.measurement(
                "median-write",
                round(median(took)),
                "ms",
                round(least),
                over=h.fmt.plural(len(took), "checkpoint"),
            ),
            action=h.Action(
                text="Checkpoint less often (DStream.checkpoint), or to faster storage",
                verify="time of 'Checkpoint for time' records",
            ),
        )


def _failed_writes(assessed: h.Assessed, limits: Outside) -> h.Iterator[h.Finding]:
    for template, (one, several) in _FAILED.items():
        failed = [
            record
            for record in assessed.app.incidents
            if record.template == template and not _stopping(assessed, record, limits)
        ]
        if failed:
            yield _finding(
                assessed,
                failed,
                limits,
                cause="slow-metadata-writes",
                title=f"{h.fmt.plural(len(failed), one, several)} could not be written",
                explain=next((r.cause for r in failed if r.cause), ""),
                action=h.Action(
                    text="See the error of the storage", verify="no record of that kind"
                ),
            )


def _stopping(assessed: h.Assessed, record: h.Record, limits: Outside) -> bool:
    """Whether it failed since the application was being stopped."""
    if "close() was called" in (record.cause or ""):
        return True
    ended = assessed.app.ended_us
    return ended is not None and (record.time_us or 0) > ended - limits.at_end * 1000


def _finding(
    assessed: h.Assessed,
    told: h.Sequence[Trouble | h.Record],
    limits: Outside,
    *,
    cause: str,
    title: str,
    action: h.Action,
    explain: str | None = None,
    partition: str | None = None,
    more: h.Measurement | None = None,
    fatal: bool = False,
) -> h.Finding:
    app = assessed.app
    last = max((r.time_us or 0 for r in told), default=0)
    recent = (app.last_us or 0) - last < limits.quiet * 1000 and len(told) > 1
    state = h.State.ONGOING if recent or fatal else h.State.RECOVERED
    units = len(app.batches) + sum(len(query.triggers) for query in app.queries)
    count = h.measurement(
        "records", len(told), "records", over=h.fmt.plural(units, "batch", "batches")
    )
    return h.application_finding(
        assessed,
        subject=h.partition_subject(app, partition) if partition else h.application_subject(app),
        severity=h.grade(state=state, share=len(told) / max(1, units), fatal=fatal),
        state=state,
        title=title,
        explain=h.explanation(cause) if explain is None else explain,
        why=title[:1].lower() + title[1:],
        cause=cause,
        rank=h.Rank.ROOT_CAUSE,
        option=action.option,
        first_us=min((r.time_us for r in told if r.time_us), default=None),
        last_us=last or None,
        count=len(told),
        measurements=(count,) if more is None else (more, count),
        evidence=h.cite((r.ref, r.time_us) for r in told),
        actions=(action,),
    )


RULE = h.Rule(
    "RT305",
    judge,
    Outside,
    causes=("slow-kafka", "offsets-out-of-range", "slow-metadata-writes"),
)
