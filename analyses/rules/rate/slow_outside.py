"""Kafka or metadata writes hold batches up.

What it reports
---------------
Polls of Kafka that time out, offsets that were deleted before they were read, and checkpoints of
the driver that take most of an interval to write.

Why it matters
--------------
Each is time, or data, that no core of Spark's can win back.

How it decides
--------------
Records of the logs: `Failed to get records for ... after polling for`, `Offsets out of range`, and
`Checkpoint for time ... took ... ms` above half of the interval in the median.

What to do
----------
Polls: look at the brokers; `spark.streaming.kafka.consumer.poll.ms` (or
`kafkaConsumer.pollTimeoutMs`) only waits longer. Out of range: longer retention, or catch up
faster. Checkpoints: a longer checkpoint interval, faster storage.

False alarms
------------
One poll that timed out while a broker was restarted: it is information.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Final

from flowdiag.analyses.findings import (
    Action,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    State,
    grade,
)
from flowdiag.analyses.judging import count_text, duration_text
from flowdiag.analyses.rate import judging as j
from flowdiag.analyses.rate.facts import Record
from flowdiag.analyses.rate.state import Assessed, Assessment
from flowdiag.analyses.rules.base import Signal, Threshold, Thresholds


class SlowOutside:
    """RT305."""

    code: Final = "RT305"
    name: Final = "slow-outside"
    title: Final = "Kafka or metadata writes hold batches up"
    core: Final = False
    thresholds: Final = (
        Threshold("share", 0.5, "share", "of the interval, for one checkpoint of the driver"),
    )
    signals: Final[tuple[Signal, ...]] = ()

    def judge(self, facts: Assessment, thresholds: Thresholds) -> Iterator[Finding | Inconclusive]:
        """One finding per kind of trouble and application."""
        for assessed in facts.applications:
            by_template: dict[str, list[Record]] = {}
            for record in assessed.app.incidents:
                by_template.setdefault(record.template or "", []).append(record)
            if polls := by_template.get("kafka-poll"):
                yield _finding(
                    assessed,
                    polls,
                    "slow-kafka",
                    f"{count_text(len(polls), 'poll')} of Kafka timed out",
                    "See what the brokers are busy with",
                    "spark.streaming.kafka.consumer.poll.ms",
                )
            if gone := by_template.get("offsets-out-of-range"):
                yield _finding(
                    assessed,
                    gone,
                    "offsets-out-of-range",
                    "Records were deleted in Kafka before they were read",
                    "Keep the topic's records for longer than the delay grows",
                    None,
                    fatal=True,
                )
            interval = assessed.app.interval_ms
            writes = by_template.get("graph-checkpoint", [])
            took = [r.duration_ms for r in writes if r.duration_ms is not None]
            if interval and len(took) >= 3 and median(took) >= thresholds["share"] * interval:
                yield _finding(
                    assessed,
                    writes,
                    "slow-metadata-writes",
                    f"The driver's checkpoints take {duration_text(median(took))} to write",
                    "Checkpoint less often, or to faster storage",
                    None,
                )
            if failed := by_template.get("graph-checkpoint-failed"):
                yield _finding(
                    assessed,
                    failed,
                    "slow-metadata-writes",
                    f"{count_text(len(failed), 'checkpoint')} of the driver could not be written",
                    "See the error of the storage",
                    None,
                )


def _finding(
    assessed: Assessed,
    records: list[Record],
    cause: str,
    title: str,
    text: str,
    option: str | None,
    *,
    fatal: bool = False,
) -> Finding:
    app = assessed.app
    last = max((r.time_us or 0 for r in records), default=0)
    recent = (app.last_us or 0) - last < 600_000_000 and len(records) > 1
    state = State.ONGOING if recent or fatal else State.RECOVERED
    share = len(records) / max(1, len(app.batches))
    return Finding(
        job=assessed.key,
        severity=grade(state=state, share=share, fatal=fatal),
        state=state,
        subject=j.application_subject(app),
        title=title,
        explain=next((r.cause for r in records if r.cause), "") or "",
        why=title[:1].lower() + title[1:],
        cause=cause,
        rank=Rank.ROOT_CAUSE,
        option=option,
        first_us=min((r.time_us for r in records if r.time_us), default=None),
        last_us=last or None,
        count=len(records),
        measurements=(Measurement(name="records", value=len(records), unit="records"),),
        evidence=j.of_records(records),
        evidence_total=len(records),
        actions=(
            Action(
                text=text,
                option=option,
                current=app.settings.get(option) if option else None,
                verify="no such record",
            ),
        ),
    )


RULE: Final = SlowOutside()
