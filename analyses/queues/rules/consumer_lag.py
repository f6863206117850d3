"""The job falls behind its source: the lag grows.

What it reports
---------------
The number of records that wait in the source, how fast this number grows, and whether the job or the source limits
the reading rate.

Why it matters
--------------
Results are late by as much as the job is behind. Kafka deletes records when the retention time is over, even if
the job has not read them.

How it decides
--------------
flowdiag adds up `pendingRecords` over the subtasks of each source (Flink 1.14 and later). Without this metric, it uses
the lag in the output of `kafka-consumer-groups --describe`, of a lag exporter, or of Burrow. Over the whole input, the
lag must grow by at least 3% of the records read. The job's delay must be at least `delay`. If a task downstream is the
root of back pressure, the growing lag is a consequence. If all subtasks of the source are busy for at least `busy`, the
source and the operators chained to it are the culprit. If its subtasks are busy for less than `idle` and no task
downstream waits, the source waits for Kafka, and Kafka is the culprit. If Kafka's client reports a throttle time, a
quota on the brokers is the cause. If each fetch returns at most 64 KiB while at least 20 times as many records wait,
the limits of the fetches are too small. An open transaction hides records from the client if the lag of its group grows
while the client reports almost no waiting records, and its last fetches took 450 to 550 ms. A fetch without records
takes `fetch.max.wait.ms`, which is 500 ms by default.

A single output of `kafka-consumer-groups` is enough if it contradicts the client. The source has read nothing for
at least `silence`, and for twice as long as in any earlier pause. A checkpoint has completed since, so the offsets of
the group are current. The waiting records take at least `delay` to read at the normal rate, while the client reports
almost none and its fetches are empty.

A lag that grew in the same way and was read before the end of the input is recovered. This requires
`pendingRecords` in at least three windows, and no start of the job in the two minutes before the rise or during it.

Flink commits offsets only when checkpoints complete. The lag of the consumer group therefore grows
until the next checkpoint, and grows forever if no checkpoint completes. `pendingRecords` does not have this problem.
During back pressure, it is only a lower bound: a source that waits does not fetch, so its client does not learn about
newer records.

What to do
----------
Speed up the task that limits the job. If the source is the limit, chain fewer operators to it, or add partitions
and subtasks.

False alarms
------------
The rule may report a daily peak. If the job has recovered from it, the finding shows its time. Records of aborted
transactions at the end of a topic look like records behind an open transaction until a newer record arrives.
"""

from itertools import chain

from flowdiag.analyses.queues import helpers as h


class Limits(h.SourceLimits):
    idle: float = h.limit(
        0.5, "share", "maximum share of time that a source is busy while it waits for Kafka"
    )
    silence: float = h.limit(
        60, "s", "minimum time without a record; commits with checkpoints cause shorter gaps"
    )


_BEHIND = "Records arrive faster than the job reads them. Results are as late as the job is behind."
_TOO_LOW = (
    "While a source waits for other tasks, its client does not fetch, and pendingRecords stays too low. "
    "kafka-consumer-groups --describe shows the whole lag."
)
_PAST = (
    "Records arrived faster than the job read them, and results were late. Compare the arrival rate of that time with the "
    "normal rate. If it was not higher, check which task was slow."
)
_IDLE = (
    "The source is idle most of the time but still falls behind: it waits for the system that "
    "it reads from. Check the brokers, their quotas, and the network to them."
)


def judge(job: h.JobQueues, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield at most one finding per job."""
    trend = h.job_trend(job)
    if trend is None or not h.is_falling_behind(trend, limits.delay):
        rise = h.past_rise(job, limits.delay)
        hidden = h.hidden_records(job, limits.delay, limits.silence)
        if hidden is not None:
            yield _hidden_records(job, hidden)
        elif trend is not None and rise is not None:
            yield _past_lag(job, trend, rise, limits)
        return
    if h.uneven_sources(job, limits.delay, limits.busy):
        return  # reported with the partition, or with the idle subtasks
    downstream = bool(h.serious_spells(job) or h.has_back_pressured_sources(job))
    source = _source(job, trend)
    busy = None if downstream else _least_busy(job, source)
    fields = _fields(job, trend, limits, downstream=downstream)
    if busy is None:
        yield h.job_finding(job, **fields)
    elif busy < limits.idle and (fetch := h.small_fetches(job, source)) is not None:
        yield h.task_finding(job, source, **(fields | _small_fetches(job, *fetch)))
    elif busy < limits.idle:
        yield h.job_finding(
            job,
            subject=h.service_subject(job, h.source_system(job, source)),
            **(fields | _slow_kafka(job, source, busy, trend)),
        )
    elif busy >= limits.busy:
        yield h.task_finding(job, source, **(fields | _slow_source(job, busy)))
    else:
        yield h.job_finding(job, **fields)


def _past_lag(job: h.JobQueues, trend: h.Trend, rise: h.Trend, limits: Limits) -> h.Finding:
    """Return the finding about a lag that the job has read since."""
    waited = any(
        (spell.first_us or 0) <= rise.last_us and rise.first_us <= (spell.last_us or 0)
        for spell in h.find_spells(job)
    )
    late = "" if rise.behind_s is None else f", {h.fmt.duration(rise.behind_s * 1000)} behind"
    return h.job_finding(
        job,
        title=f"The lag of {h.fmt.shorten(rise.of)} grew to {h.fmt.number(round(rise.last))} records{late}, "
        f"until {h.fmt.clock(rise.last_us)} UTC. The job has read them since",
        severity=h.grade(state=h.State.RECOVERED, share=rise.duration_s / trend.duration_s),
        state=h.State.RECOVERED,
        rank=h.Rank.CONSEQUENCE if waited else h.Rank.SYMPTOM,
        confidence=h.Confidence.HIGH,
        first_us=rise.first_us,
        last_us=rise.last_us,
        measurements=h.lag_measurements(rise, limits.delay, "at the peak"),
        evidence=rise.evidence,
        explain=_PAST,
    )


def _least_busy(job: h.JobQueues, source: str) -> float | None:
    return min((load.busy or 0.0 for load in h.active_loads(job, source)), default=None)


def _fields(
    job: h.JobQueues, trend: h.Trend, limits: Limits, *, downstream: bool
) -> h.FindingFields:
    exact = trend.of in job.topology.sources
    too_low = exact and h.has_back_pressured_sources(job)
    return {
        "title": _title(trend, "at least " if too_low else ""),
        "severity": h.Severity.WARNING,
        "rank": h.Rank.CONSEQUENCE if downstream else h.Rank.SYMPTOM,
        "confidence": h.Confidence.HIGH if exact else h.Confidence.MEDIUM,
        "first_us": trend.first_us,
        "last_us": trend.last_us,
        "measurements": h.lag_measurements(trend, limits.delay),
        "evidence": trend.evidence,
        "explain": f"{_BEHIND} {_TOO_LOW}" if too_low else _BEHIND,
    }


def _slow_source(job: h.JobQueues, busy: float) -> h.FindingFields:
    return {
        "cause": "slow-operator",
        "rank": h.Rank.BOTTLENECK,
        "why": f"its subtasks are busy at least {h.fmt.percent(busy)} of the time, and its lag grows",
        "actions": h.remedies("slow-operator", job.job, "flame-graph", "chain"),
    }


def _small_fetches(job: h.JobQueues, size: float, records: float) -> h.FindingFields:
    return {
        "cause": "small-fetches",
        "rank": h.Rank.ROOT_CAUSE,
        "explain": h.explanation("small-fetches"),
        "why": f"each fetch returns only {h.fmt.number(round(records))} records "
        f"({h.fmt.size(round(size))}) although many more are waiting",
        "actions": h.remedies("small-fetches", job.job),
    }


def _slow_kafka(job: h.JobQueues, source: str, busy: float, trend: h.Trend) -> h.FindingFields:
    throttled = h.fetch_throttle_delay(job, source)
    if throttled is not None:
        return {
            "cause": "kafka-quota",
            "rank": h.Rank.ROOT_CAUSE,
            "explain": h.explanation("kafka-quota"),
            "why": f"{h.throttle_clause(throttled)}, and the lag grows",
            "actions": h.remedies("kafka-quota", job.job),
        }
    if h.sees_no_lag(job, source, trend):
        return _open_transaction(job, source, trend.last)
    return {
        "cause": "slow-kafka",
        "explain": _IDLE,
        "rank": h.Rank.BOTTLENECK,
        "why": f"the source is busy {h.fmt.percent(busy)} of the time, no task downstream waits, and the lag grows",
        "confidence": h.Confidence.MEDIUM,
        "actions": h.remedies("slow-kafka", job.job, "fetches"),
    }


def _open_transaction(job: h.JobQueues, source: str, records: float) -> h.FindingFields:
    return {
        "cause": "open-transaction",
        "rank": h.Rank.ROOT_CAUSE,
        "explain": h.explanation("open-transaction"),
        "why": f"the client of {h.fmt.shorten(source)} has read all committed records, "
        f"but {h.fmt.number(round(records))} records wait in the topic",
        "actions": h.remedies("open-transaction", job.job),
    }


def _hidden_records(job: h.JobQueues, hidden: h.HiddenRecords) -> h.Finding:
    """Return the finding about records that the broker counts and that the client does not see."""
    silent_ms = (hidden.until_us - hidden.since_us) / 1000
    last = {key: each[-1] for key, each in job.samples.items() if key.task == hidden.source}
    client = [h.records_of([sample], "pending", key=key) for key, sample in sorted(last.items())]
    fields: h.FindingFields = {
        "title": f"{h.fmt.shorten(hidden.source)} has read nothing for {h.fmt.duration(silent_ms)} "
        f"although {h.fmt.number(hidden.records)} records wait in its topic",
        "severity": h.Severity.WARNING,
        "confidence": h.Confidence.MEDIUM,
        "first_us": hidden.since_us,
        "last_us": hidden.until_us,
        "measurements": (
            h.measurement("lag", hidden.records, "records", over="of the consumer group"),
            h.measurement("read-rate", 0, "records/s"),
        ),
        "evidence": (
            *h.cite((lag.ref, lag.row.time_us) for lag in hidden.lags),
            *chain.from_iterable(client),
        ),
    }
    return h.job_finding(
        job,
        subject=h.service_subject(job, h.source_system(job, hidden.source)),
        **(fields | _open_transaction(job, hidden.source, hidden.records)),
    )


def _source(job: h.JobQueues, trend: h.Trend) -> str:
    """Return the source task of a trend. The trend of a consumer group belongs to the job's only source."""
    sources = job.topology.sources
    return next(iter(sources)) if trend.of not in sources and len(sources) == 1 else trend.of


def _title(trend: h.Trend, bound: str) -> str:
    behind = "" if trend.behind_s is None else f", {h.fmt.duration(trend.behind_s * 1000)} behind"
    return (
        f"The lag of {h.fmt.shorten(trend.of)} grows by {bound}{h.fmt.rate(trend.per_s)}"
        f" to {bound}{h.fmt.number(round(trend.last))} records{behind}"
    )


RULE = h.Rule(
    "IO101",
    judge,
    Limits,
    causes=("slow-operator", "slow-kafka", "small-fetches", "kafka-quota", "open-transaction"),
    needs="lags",
)
