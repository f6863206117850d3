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
out of range or data that Kafka has no more. `Checkpoint for time ... took ... ms` above `share` of the
interval in the median. `Exception thrown while writing record` of the write-ahead log, other than
while the application stops.

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
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final

from flowdiag.analyses.finding import (
    MAX_CITED,
    Action,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    State,
    Subject,
    cite,
    grade,
    spread,
)
from flowdiag.analyses.flink.judging import count_text, duration_text
from flowdiag.analyses.rate import judging as j
from flowdiag.analyses.rate.causes import GONE, POLL, Trouble, troubles
from flowdiag.analyses.rate.facts import Record
from flowdiag.analyses.rate.limits import RETENTION_MS
from flowdiag.analyses.rate.state import Assessed
from flowdiag.analyses.rule import Limits, Rule, limit

_POLL_OPTION: Final = {
    "dstream": "spark.streaming.kafka.consumer.poll.ms",
    "structured": "kafkaConsumer.pollTimeoutMs",
}
_AT_THE_END_US: Final = 60_000_000


class SlowOutsideLimits(Limits):
    """What RT305 compares with."""

    share: float = limit(0.5, "share", "of the interval, for one checkpoint of the driver")
    writes: float = limit(3, "checkpoints", "fewer are chance")


def judge(assessed: Assessed, limits: SlowOutsideLimits) -> Iterator[Finding | Inconclusive]:
    """One finding per kind of trouble and application."""
    if assessed.app.kind == "other":
        return
    all_of_them = troubles(assessed.app)
    polls = [one for one in all_of_them if one.kind == POLL]
    gone = [one for one in all_of_them if one.kind == GONE]
    if polls:
        yield _polls(assessed, polls)
    if gone:
        yield _gone(assessed, gone)
    yield from _writes(assessed, limits)


def _polls(assessed: Assessed, polls: list[Trouble]) -> Finding:
    partition, told = _mostly(polls)
    option = _POLL_OPTION.get(assessed.app.kind)
    return _finding(
        assessed,
        polls,
        cause=POLL,
        partition=partition,
        title=f"{count_text(len(polls), 'poll')} of Kafka timed out{told}",
        explain="The task waits for the time-out, fails, and is tried again.",
        action=Action(
            text="See what the brokers are busy with; a longer time-out only waits longer",
            option=option,
            current=j.setting(assessed.app, option) if option else None,
            verify="no poll that times out",
        ),
    )


def _gone(assessed: Assessed, gone: list[Trouble]) -> Finding:
    partition, told = _mostly(gone)
    state = assessed.state
    late = state.delay_ms if state is not None else None
    explain = "What is deleted before it is read is lost, or the query stops because of it."
    proposed = None
    if late is not None and late > 60_000:
        explain += f" Batches were {duration_text(late)} late: the delay beat the retention."
        proposed = duration_text(max(float(RETENTION_MS), 2 * late))
    return _finding(
        assessed,
        gone,
        cause=GONE,
        partition=partition,
        title=f"Records were deleted in Kafka before they were read{told}",
        explain=explain,
        fatal=True,
        action=Action(
            text="Keep the topic's records for longer than the delay grows",
            option="retention.ms",
            proposed=proposed,
            risk="more disk on the brokers",
            verify="no offset out of range",
        ),
    )


def _mostly(of: Sequence[Trouble]) -> tuple[str | None, str]:
    """The partition that most of the failures name, and the words for it."""
    named = Counter(one.what for one in of if one.what)
    if not named:
        return None, ""
    name, times = named.most_common(1)[0]
    if len(named) == 1:
        return name, f", all of partition {name}" if len(of) > 1 else f": partition {name}"
    told = f", {times} of them of partition {name}"
    return (name, told) if times >= 0.8 * len(of) else (None, f", of {len(named)} partitions")


def _writes(assessed: Assessed, limits: SlowOutsideLimits) -> Iterator[Finding]:
    app = assessed.app
    by: dict[str, list[Record]] = {}
    for record in app.incidents:
        by.setdefault(record.template or "", []).append(record)
    writes = by.get("graph-checkpoint", [])
    took = [r.duration_ms for r in writes if r.duration_ms is not None]
    enough = len(took) >= limits.writes
    if app.interval_ms and enough and median(took) >= limits.share * app.interval_ms:
        yield _finding(
            assessed,
            [_as_trouble(r) for r in writes],
            cause="slow-metadata-writes",
            title=f"The driver's checkpoints take {duration_text(median(took))} to write, "
            f"of an interval of {duration_text(app.interval_ms)}",
            measured=Measurement(
                name="median-write",
                value=round(median(took)),
                unit="ms",
                threshold=round(limits.share * app.interval_ms),
                population=f"{len(took)} checkpoints",
            ),
            action=Action(
                text="Checkpoint less often (DStream.checkpoint), or to faster storage",
                verify="time of 'Checkpoint for time' records",
            ),
        )
    for template, what in (
        ("graph-checkpoint-failed", "checkpoint of the driver"),
        ("wal-write-failed", "record of the write-ahead log"),
    ):
        failed = [r for r in by.get(template, []) if not _stopping(assessed, r)]
        if failed:
            count = count_text(len(failed), what, what.replace(" of", "s of", 1))
            yield _finding(
                assessed,
                [_as_trouble(r) for r in failed],
                cause="slow-metadata-writes",
                title=f"{count} could not be written",
                explain=next((r.cause for r in failed if r.cause), "") or "",
                action=Action(
                    text="See the error of the storage",
                    verify="no record of that kind",
                ),
            )


def _stopping(assessed: Assessed, record: Record) -> bool:
    """Whether it failed since the application was being stopped."""
    if "close() was called" in (record.cause or ""):
        return True
    ended = assessed.app.ended_us
    return ended is not None and (record.time_us or 0) > ended - _AT_THE_END_US


def _as_trouble(record: Record) -> Trouble:
    return Trouble(
        kind=record.template or "", what=None, key="", time_us=record.time_us, ref=record.ref
    )


def _finding(
    assessed: Assessed,
    told: Sequence[Trouble],
    *,
    cause: str,
    title: str,
    action: Action,
    explain: str = "",
    partition: str | None = None,
    measured: Measurement | None = None,
    fatal: bool = False,
) -> Finding:
    app = assessed.app
    last = max((r.time_us or 0 for r in told), default=0)
    recent = (app.last_us or 0) - last < 600_000_000 and len(told) > 1
    state = State.ONGOING if recent or fatal else State.RECOVERED
    units = len(app.batches) + sum(len(query.triggers) for query in app.queries)
    subject = (
        Subject(
            kind="partition",
            job_name=app.name,
            application=app.application,
            partition=partition,
        )
        if partition
        else j.application_subject(app)
    )
    count = Measurement(
        name="records", value=len(told), unit="records", population=f"{units} batches"
    )
    return Finding(
        job=assessed.key,
        severity=grade(state=state, share=len(told) / max(1, units), fatal=fatal),
        state=state,
        subject=subject,
        title=title,
        explain=explain,
        why=title[:1].lower() + title[1:],
        cause=cause,
        rank=Rank.ROOT_CAUSE,
        option=action.option,
        first_us=min((r.time_us for r in told if r.time_us), default=None),
        last_us=last or None,
        count=len(told),
        measurements=(count,) if measured is None else (measured, count),
        evidence=spread(cite((r.ref, r.time_us) for r in told), MAX_CITED),
        evidence_total=len(told),
        actions=(action,),
    )


RULE: Final = Rule("RT305", judge, SlowOutsideLimits)
