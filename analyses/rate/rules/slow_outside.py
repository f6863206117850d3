"""Kafka deleted unread records, or batches wait for Kafka or for metadata writes.

What it reports
---------------
Kafka polls that time out, and a query that waits for offsets or records from Kafka. It also reports offsets that were deleted
before they were read, and slow or failed checkpoints of the driver or of its write-ahead log.

Why it matters
--------------
Each of these problems costs time or data, and more cores do not help.

How it decides
--------------
The rule counts each failure of a task, batch or query once, and each log record of the driver or an executor once.
It looks for the messages `Failed to get records for ... after polling for`, `Cannot fetch record for offset ...`,
offsets out of range, and for messages about data that Kafka no longer has. If a pasted exception shows a single
poll, RT103 reports it. The finding names a partition if `partition-share` of the failures name it.

A query waits for offsets if `Error in attempt ... getting Kafka offsets` reports a timeout and no trigger has
completed since. A batch of a query waits for Kafka if it has been running for at least `running-time` and `ratio` times
as long as any earlier batch. At least `requests` requests of Kafka's client have timed out or could not connect since
it began, the last of them within the last `silence`. If the batch has ended since, the finding is recovered. The batch
must then have taken `ratio` times as long as the median batch.

Checkpoints are slow if the median of `Checkpoint for time ... took ... ms` is above `share` of the interval, over
at least `writes` checkpoints. `Exception thrown while writing record` of the write-ahead log counts unless it is
within `shutdown` of the application's end. A problem that occurred only once, or not within the last `recovery-time`, is
recovered, unless records were lost.

What to do
----------
Polls: check the brokers and the named partition. With a higher `spark.streaming.kafka.consumer.poll.ms` (or
`kafkaConsumer.pollTimeoutMs`), tasks only wait longer. Offsets out of range: make the retention longer than the
delay, or speed up the job. Checkpoints: use a longer checkpoint interval or faster storage.

False alarms
------------
A single poll may time out while a broker restarts. The finding is then only a note.
"""

from statistics import median
from typing import Final, Unpack

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.detect.hanging import longest_ms
from flowdiag.analyses.rate.failures.troubles import (
    GONE,
    POLL,
    Trouble,
    failed_writes,
    is_poll_pasted,
    main_partition,
    troubles,
)
from flowdiag.analyses.rate.limits import RETENTION_MS

_FAILED: Final = {
    "graph-checkpoint-failed": ("checkpoint of the driver", "checkpoints of the driver"),
    "wal-write-failed": ("record of the write-ahead log", "records of the write-ahead log"),
}


class Limits(h.Limits):
    share: float = h.limit(0.5, "share", "minimum share of the interval that a checkpoint takes")
    writes: float = h.limit(3, "checkpoints", "minimum number of checkpoints; fewer prove nothing")
    partition_share: float = h.limit(
        0.8, "share", "minimum share of failures that name the same partition"
    )
    shutdown: float = h.limit(
        60_000, "ms", "time before the end of the application that counts as its shutdown"
    )
    recovery_time: float = h.limit(600_000, "ms", "minimum time without a failure for a recovery")
    requests: float = h.limit(
        2,
        "requests",
        "minimum number of requests without a response; one may meet a broker's restart",
    )
    ratio: float = h.limit(
        3.0, "ratio", "minimum running time as a multiple of the longest earlier batch"
    )
    silence: float = h.limit(
        60_000, "ms", "maximum time since the last request; the client repeats them after 30 s"
    )
    running_time: float = h.running_time_limit()


def judge(assessed: h.AssessedApplication, limits: Limits) -> h.Results:
    """Yield one finding per kind of failure and application."""
    if assessed.app.kind != "other":
        yield from _kafka(assessed, limits)
        yield from _offsets(assessed, limits)
        yield from _records(assessed, limits)
        yield from _storage(assessed, limits)


def _kafka(assessed: h.AssessedApplication, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield findings about polls that timed out, and about records that Kafka no longer has."""
    app = assessed.app
    polls, gone = troubles(app, POLL), troubles(app, GONE)
    if polls and not (len(polls) == 1 and is_poll_pasted(app)):
        partition, where = main_partition(polls, limits.partition_share)
        yield _finding(
            assessed,
            polls,
            limits,
            partition=partition,
            cause="slow-kafka",
            title=f"{h.fmt.plural(len(polls), 'poll')} of Kafka timed out{where}",
            actions=h.remedies("slow-kafka", app)[:1],
        )
    if not gone:
        return
    partition, where = main_partition(gone, limits.partition_share)
    late = (assessed.state.delay_ms if assessed.state is not None else None) or 0.0
    explain, retention = h.explanation("offsets-out-of-range"), None
    if late > 60_000:
        explain += h.text("RT305.later-than-retention", late=h.fmt.duration(late))
        retention = max(float(RETENTION_MS), 2 * late)
    yield _finding(
        assessed,
        gone,
        limits,
        partition=partition,
        fatal=True,
        cause="offsets-out-of-range",
        title=f"Records were deleted in Kafka before they were read{where}",
        explain=explain,
        actions=h.remedies("offsets-out-of-range", app, proposed={"retention": retention})[:1],
    )


def _offsets(assessed: h.AssessedApplication, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield a finding about a query that waits for offsets from Kafka."""
    app = assessed.app
    waiting = _waiting_for_offsets(app)
    if not waiting:
        return
    since_us = max(_ends_us(app), default=waiting[0].time_us or 0)
    lasted = h.fmt.duration(((app.last_us or 0) - since_us) / 1000)
    yield _finding(
        assessed,
        waiting,
        limits,
        fatal=True,
        cause="kafka-timeout",
        title=f"The latest offsets of Kafka have not arrived for {lasted}",
        actions=h.remedies("kafka-timeout", app, "reach"),
    )


def _records(assessed: h.AssessedApplication, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield a finding about the first query with batches that waited while Kafka did not respond."""
    for query, _ in assessed.queries:
        delayed = _delayed_triggers(assessed.app, query, limits)
        finding = _waiting_batch(assessed, query, limits)
        if finding is None and delayed:
            finding = _recovered(assessed, query, delayed, limits)
        if finding is not None:
            yield finding
            return


def _waiting_batch(
    assessed: h.AssessedApplication, query: h.QueryFacts, limits: Limits
) -> h.Finding | None:
    """Return the finding about a batch that has been waiting since Kafka stopped responding."""
    last = query.unfinished
    least = max(limits.running_time, limits.ratio * longest_ms(query.triggers))
    if last is None or last.duration_ms < least:
        return None
    requests = _requests_without_response(assessed.app, last.since_us)
    newest_us = max((record.time_us or 0 for record in requests), default=0)
    if len(requests) < limits.requests or last.until_us - newest_us > limits.silence * 1000:
        return None
    return _finding(
        assessed,
        requests,
        limits,
        fatal=True,
        cause="kafka-timeout",
        title=f"{_silent_brokers(requests)}, so batch {last.batch} of {query.label} has been waiting for "
        f"{h.fmt.duration(last.duration_ms)}",
        actions=h.remedies("kafka-timeout", assessed.app, "reach"),
    )


def _delayed_triggers(
    app: h.ApplicationFacts, query: h.QueryFacts, limits: Limits
) -> list[h.Trigger]:
    """Return the triggers that have ended and took long because Kafka did not respond."""
    # The longest trigger may itself have waited.
    others = sorted(t.duration_ms for t in query.triggers if t.duration_ms is not None)[:-1]
    least = max(limits.running_time, limits.ratio * median(others) if others else 0)
    long = [t for t in query.triggers if (t.duration_ms or 0) >= least]
    return [t for t in long if len(_requests_of(app, t)) >= limits.requests]


def _requests_of(app: h.ApplicationFacts, trigger: h.Trigger) -> list[h.Record]:
    """Return the requests to Kafka without a response while a trigger ran."""
    end_us = trigger.time_us + (trigger.duration_ms or 0) * 1000
    requests = _requests_without_response(app, trigger.time_us)
    return [record for record in requests if (record.time_us or 0) <= end_us]


def _recovered(
    assessed: h.AssessedApplication,
    query: h.QueryFacts,
    delayed: h.Sequence[h.Trigger],
    limits: Limits,
) -> h.Finding:
    """Return the finding about triggers that waited for Kafka and have ended."""
    requests = [record for t in delayed for record in _requests_of(assessed.app, t)]
    longest = h.fmt.duration(max(t.duration_ms or 0 for t in delayed))
    number = len(delayed)
    which = f"{number} triggers" if number > 1 else "a trigger"
    brokers = _silent_brokers(requests).replace("does not", "did not").replace("do not", "did not")
    return _finding(
        assessed,
        requests,
        limits,
        state=h.State.RECOVERED,
        severity=h.Severity.WARNING,
        cause="kafka-timeout",
        title=f"{brokers} for a while: {which} of {query.label} took {'up to ' * (number > 1)}{longest}",
        first_us=delayed[0].time_us,
        actions=h.remedies("kafka-timeout", assessed.app, "reach"),
    )


def _silent_brokers(requests: h.Sequence[h.Record]) -> str:
    """Return a clause about the brokers that do not respond or do not accept connections."""
    refused = [r for r in requests if r.template == "kafka-connection-failed"]
    # Until a client knows the brokers, it numbers the bootstrap servers from -1 downwards.
    nodes = sorted({f"broker {r.fields['node']}" for r in requests if r.fields["node"][0] != "-"})
    hosts = sorted({r.fields["address"] for r in refused if r.fields.get("address")})
    who = h.fmt.listed(nodes) or "Bootstrap server"
    where = f" at {h.fmt.listed(hosts)}" if hosts else ""
    verb = "does" if len(nodes) < 2 else "do"
    what = "not accept connections" if refused else "not respond to requests"
    return f"{who[:1].upper()}{who[1:]} of Kafka{where} {verb} {what}"


def _requests_without_response(app: h.ApplicationFacts, since_us: int) -> list[h.Record]:
    """Return the requests to Kafka that timed out or met no broker, in order."""
    records = (record for template in _NO_RESPONSE for record in app.incidents_of(template))
    return sorted(
        (record for record in records if (record.time_us or 0) > since_us),
        key=lambda record: record.time_us or 0,
    )


_NO_RESPONSE: Final = ("kafka-request-timeout", "kafka-connection-failed")


def _waiting_for_offsets(app: h.ApplicationFacts) -> list[h.Record]:
    """Return the requests for offsets that timed out after the end of the last trigger."""
    end_us = max(_ends_us(app), default=0)
    return [
        record
        for record in app.incidents_of("kafka-offsets-failed")
        if "Timeout" in (record.cause or "") and (record.time_us or 0) > end_us
    ]


def _ends_us(app: h.ApplicationFacts) -> list[int]:
    return [
        trigger.time_us + (trigger.duration_ms or 0) * 1000
        for query in app.queries
        for trigger in query.triggers
    ]


def _storage(assessed: h.AssessedApplication, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield findings about the driver's slow checkpoints, and about failed writes."""
    app = assessed.app
    writes = app.incidents_of("graph-checkpoint")
    times = [record.duration_ms for record in writes if record.duration_ms is not None]
    least, over = limits.share * (app.interval_ms or 0), h.fmt.plural(len(times), "checkpoint")
    if app.interval_ms and len(times) >= max(1, limits.writes) and (took := median(times)) >= least:
        yield _finding(
            assessed,
            writes,
            limits,
            cause="slow-metadata-writes",
            title=f"The driver's checkpoints take {h.fmt.duration(took)} to write, with an "
            f"interval of {h.fmt.duration(app.interval_ms)}",
            explain="",
            measurements=(
                h.measurement("median-write", round(took), "ms", round(least), over=over),
            ),
            actions=h.remedies("slow-metadata-writes", app, "less-often"),
        )
    for template, (noun, several) in _FAILED.items():
        if failed := failed_writes(app, template, limits.shutdown):
            yield _finding(
                assessed,
                failed,
                limits,
                cause="slow-metadata-writes",
                title=f"{h.fmt.plural(len(failed), noun, several)} could not be written",
                explain=next(filter(None, (r.cause for r in failed)), ""),
                actions=h.remedies("slow-metadata-writes", app, "storage-error"),
            )


def _finding(
    assessed: h.AssessedApplication,
    records: h.Sequence[Trouble | h.Record],
    limits: Limits,
    *,
    partition: str | None = None,
    fatal: bool = False,
    **overrides: Unpack[h.SubjectFields],
) -> h.Finding:
    app, number, title = assessed.app, len(records), overrides["title"]
    last = max((r.time_us or 0 for r in records), default=0)
    recent = (app.last_us or 0) - last < limits.recovery_time * 1000 and number > 1
    state = h.State.ONGOING if recent or fatal else h.State.RECOVERED
    units = len(app.batches) + sum(len(query.triggers) for query in app.queries)
    over = h.fmt.plural(units, "batch", "batches")
    count = h.measurement("records", number, "records", over=over)
    fields: h.SubjectFields = {
        "subject": h.partition_subject(app, partition) if partition else h.application_subject(app),
        "severity": h.grade(state=state, share=number / max(1, units), fatal=fatal),
        "state": state,
        "why": title[:1].lower() + title[1:],
        "rank": h.Rank.ROOT_CAUSE,
        "option": overrides["actions"][0].option,
        "first_us": min((r.time_us for r in records if r.time_us), default=None),
        "last_us": last or None,
        "count": number,
        "evidence": h.cite((r.ref, r.time_us) for r in records),
    }
    overrides["measurements"] = (*overrides.get("measurements", ()), count)
    return h.application_finding(assessed, **(fields | overrides))


RULE = h.Rule(
    "RT305",
    judge,
    Limits,
    causes=("slow-kafka", "kafka-timeout", "offsets-out-of-range", "slow-metadata-writes"),
    needs="work",
    severity=h.Severity.CRITICAL,
)
