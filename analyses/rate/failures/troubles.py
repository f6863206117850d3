"""Finds the origin of a failure in its text: Kafka, or lost blocks.

A failure appears in the output of the listener (`failureReason`), in REST (`firstFailureReason`), and in the logs of
the driver (`Lost task …`) and the executor (`Exception in task …`). The messages come from `KafkaDataConsumer` in the
connectors for DStreams and SQL (2.0 to 4.3), from Kafka's own client, and from `BlockRDD`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from flowdiag.analyses.model.finding import Rank
from flowdiag.analyses.model.keys import Ref
from flowdiag.analyses.rate.facts import ApplicationFacts, Record
from flowdiag.parsers.spark.causes import decisive_exception, python_error

POLL: Final = "slow-kafka"
GONE: Final = "offsets-out-of-range"
BLOCK: Final = "block-not-found"

_WORDS: Final = (
    (
        POLL,
        re.compile(
            r"Failed to get records for (?:compacted )?(?P<what>[^\n]{1,300}?) after polling for"
            r"|Cannot fetch record for offset (?P<offset>\d{1,19}) in \d{1,15} milliseconds"
        ),
    ),
    # Patterns with the partition come first, because the exception class also precedes the partition.
    (
        GONE,
        re.compile(
            r"is out of range for partition (?P<what>[^\s,]{1,300})"
            r"|Offsets out of range with no configured reset policy for partitions:?"
            r" (?P<partitions>[^\n]{1,300})"
            r"|Partition (?P<changed>\S{1,300})'s offset was changed from (?P<before>\d{1,19})"
            r" to (?P<after>\d{1,19})"
        ),
    ),
    (
        GONE,
        re.compile(
            r"OffsetOutOfRangeException|KAFKA_DATA_LOSS"
            r"|ome data may have been lost because|are gone\. Some data may have been missed|[Ss]ome data may be lost"
        ),
    ),
    (
        BLOCK,
        re.compile(r"Could not compute split, block (?P<what>[\w-]{1,200})[^\n]{0,40} not found"),
    ),
)
_TEMPLATES: Final = {
    "kafka-poll": POLL,
    "offsets-out-of-range": GONE,
    "kafka-position-gone": GONE,
    "kafka-recovering": GONE,
    "kafka-offset-changed": GONE,
    "block-not-found": BLOCK,
}
_FAILED_TASK: Final = re.compile(
    r"Lost task [0-9.]{1,20} in stage [0-9.]{1,20} \(TID (?P<id>[0-9]{1,12})\b"
)
_PARTITION: Final = re.compile(r"(?P<topic>[\w.-]{1,249})[- ](?P<number>\d{1,6})(?=[\s=,}]|\Z)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """One failure with a known origin.

    Args:
        kind: `POLL`, `GONE` or `BLOCK`.
        what: the topic partition (`orders-3`) or the block; None if the text contains none.
        key: identifies the same failure in different inputs.
    """

    kind: str
    what: str | None
    key: str
    time_us: int | None
    host: str | None = None
    executor: str | None = None
    ref: Ref | None = None


def classify_failure(text: str | None) -> tuple[str, str | None] | None:
    """Return the kind of a failure, and the partition or block in its text, or None if its origin is unknown.

    >>> classify_failure("requirement failed: Failed to get records for g orders-3 12 after polling for 512")
    ('slow-kafka', 'orders-3')
    >>> classify_failure("java.lang.Exception: Could not compute split, block input-0-1 of RDD 3 not found")
    ('block-not-found', 'input-0-1')
    >>> classify_failure("java.lang.NullPointerException") is None
    True
    """
    for kind, words in _WORDS:
        found = words.search(text or "")
        if found is not None:
            groups = found.groupdict()
            before, after = groups.pop("before", None), groups.pop("after", None)
            if offset_went_back(before, after):
                return None  # the topic was recreated, so no record was deleted too early
            named = next((value for value in groups.values() if value), None)
            return kind, named if kind == BLOCK else partition_in(named)
    return None


def offset_went_back(before: str | None, after: str | None) -> bool:
    """Return whether a partition's offset decreased, which happens if the topic was recreated.

    >>> offset_went_back("8812", "14"), offset_went_back("14", "8812"), offset_went_back(None, None)
    (True, False, False)
    """
    return before is not None and after is not None and int(after) < int(before)


def partition_in(text: str | None) -> str | None:
    """Return the topic partition in a text.

    >>> partition_in("{orders-3=1234}"), partition_in("spark-executor-g orders 3 1234")
    ('orders-3', 'orders-3')
    """
    words = [word for word in re.split(r"[{}\s=,]+", text or "") if word]
    for word in words:
        if not word.startswith("spark-executor-") and _PARTITION.fullmatch(word):
            return word
    # Up to Kafka 0.10, topic and partition are printed separately.
    for topic, number in pairwise(words):
        if number.isdecimal() and not topic.isdecimal():
            return f"{topic}-{number}"
    return None


_IN_TASK: Final = re.compile(
    r"(?:[\w.]{1,200}: )?Job aborted due to stage failure: [^\n]{1,200}?\(TID [0-9]{1,19}\) \([^()\n]{1,300}\): "
)


def error_line(text: str | None) -> str:
    """Return the line of a failure that contains the error, which is the last line of a Python traceback.

    >>> error_line("o.a.s.SparkException: Job aborted\\nTraceback (most recent call last):\\n  File x"
    ...          "\\nValueError: no number")
    'ValueError: no number'
    """
    printed = _IN_TASK.sub("", text or "").splitlines()
    lines = [line.strip() for line in printed if line.strip()]
    errors = [
        line
        for line in lines
        if line.split(":")[0].split(".")[-1].endswith(("Error", "Exception"))
        and not line.startswith("at ")
    ]
    if (of_python := python_error(printed)) is not None:
        return of_python
    causes = [line for line in lines if line.startswith("Caused by:")]
    if causes:
        below = [cause.removeprefix("Caused by:").strip() for cause in causes]
        return decisive_exception([lines[0], *below]) or below[-1]
    return errors[-1] if errors else (lines[0] if lines else "an unknown error")


def failure_rank(reasons: Iterable[str | None]) -> Rank:
    """Return the rank of a failure: a symptom if Kafka or a lost executor caused it, otherwise the root cause."""
    texts = list(reasons)
    from_outside = sum(classify_failure(reason) is not None for reason in texts)
    return Rank.SYMPTOM if texts and from_outside > len(texts) / 2 else Rank.ROOT_CAUSE


def troubles(app: ApplicationFacts, kind: str | None = None) -> tuple[Trouble, ...]:
    """Return the failures of known origin, each once, optionally only those of one kind."""
    found: dict[str, Trouble] = {}
    for one in _all_troubles(app):
        known = found.get(one.key)
        if known is None or (known.ref is None and one.ref is not None):
            found[one.key] = one
    some = (one for one in found.values() if kind in (None, one.kind))
    return tuple(sorted(some, key=lambda one: (one.time_us or 0, one.key)))


def _all_troubles(app: ApplicationFacts) -> Iterator[Trouble]:
    for record in app.incidents:
        yield from _troubles_of_record(record)
    for output in app.outputs:
        if (origin := classify_failure(output.failure)) is not None:
            yield Trouble(
                kind=origin[0],
                what=origin[1],
                key=f"{origin[0]} batch {output.batch_ms} {origin[1]}",
                time_us=output.batch_ms * 1000,
                ref=output.ref,
            )
    for query in app.queries:
        for event in query.events:
            if event.what == "terminated" and (origin := classify_failure(event.cause)) is not None:
                run = event.fields.get("run_id")
                # The failed task that ended the run also has its own line.
                text = f"{event.fields.get('exception', '')} {event.cause}"
                task = _FAILED_TASK.search(text)
                yield Trouble(
                    kind=origin[0],
                    what=origin[1],
                    key=f"{origin[0]} task {task['id']}" if task else f"{origin[0]} run {run}",
                    time_us=event.time_us,
                    ref=event.ref,
                )


def _troubles_of_record(record: Record) -> Iterator[Trouble]:
    template = record.template or ""
    fields = record.fields
    if template in _TEMPLATES:
        if offset_went_back(fields.get("before"), fields.get("after")):
            return
        kind = _TEMPLATES[template]
        named = fields.get("partition")
        what = fields.get("block") if kind == BLOCK else partition_in(named)
        key = f"{kind} {named or fields.get('block')} {record.time_us}"
    elif template in ("task-lost", "task-exception"):
        origin = classify_failure(record.cause)
        if origin is None:
            return
        kind, what = origin
        key = f"{kind} task {fields.get('task_id')}"  # driver and executor both log it
    else:
        return
    yield Trouble(
        kind=kind,
        what=what,
        key=key,
        time_us=record.time_us,
        host=record.host,
        executor=fields.get("executor"),
        ref=record.ref,
    )


def is_poll_pasted(app: ApplicationFacts) -> bool:
    """Return whether a failed poll was pasted as an exception, which RT103 reports."""
    return any(
        event.what == "terminated"
        and event.fields.get("origin") == "paste"
        and (classify_failure(event.cause) or ("",))[0] == POLL
        for query in app.queries
        for event in query.events
    )


def main_partition(of: Sequence[Trouble], mostly: float) -> tuple[str | None, str]:
    """Return the partition that most of the failures name, or None, with a clause for the title."""
    named = Counter(trouble.what for trouble in of if trouble.what)
    if not named:
        return None, ""
    name, times = named.most_common(1)[0]
    if len(named) == 1:
        return name, f", all of partition {name}" if len(of) > 1 else f": partition {name}"
    if times >= mostly * len(of):
        return name, f", {times} of them of partition {name}"
    return None, f", of {len(named)} partitions"


def failed_writes(app: ApplicationFacts, template: str, at_end_ms: float) -> list[Record]:
    """Return the failed writes of the driver before the application stops.

    Args:
        app: the application.
        template: template name of the log records.
        at_end_ms: time before the end in which the application is stopping.
    """
    stopping_us = float("inf") if app.ended_us is None else app.ended_us - at_end_ms * 1000
    return [
        record
        for record in app.incidents_of(template)
        if "close() was called" not in (record.cause or "") and (record.time_us or 0) <= stopping_us
    ]
