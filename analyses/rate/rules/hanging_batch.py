"""A batch does not end.

What it reports
---------------
A batch or trigger that has been running for many intervals while no other batch or trigger runs. The finding shows
its start time, and the task that has not ended, with its stage and executor. If no Spark job runs, the driver
waits in the sink.

Why it matters
--------------
The batches of an application, and the triggers of a query, run one after the other. If one hangs,
all later ones wait.

How it decides
--------------
Batches: the oldest unfinished batch began more than `intervals` before the last record of the input. It has taken
`ratio` times as long as any earlier batch, not counting the first batches. If only one earlier batch was slow,
twice its duration is enough, provided that this is also `median-ratio` times the median. If it is the first batch, it
has taken at least `first-batch`. RT101 covers batches that only wait, and RT107 covers batches that later ones overtook.

Triggers: the offsets of the last trigger were written, or its first job began, but no commit, progress report or
exception followed. Its running time ends with the input, or when the application or query stops. The running time must
be at least `running-time`, and `ratio` times that of any earlier trigger. If the trigger interval is known, it must
also be at least `missed-intervals` intervals. After a long trigger, many rows are waiting. Therefore, the running time
must also be at least `backlog` times the expected time for these rows, at the cost per row of the last trigger. A
trigger without running tasks is inconclusive if a trigger of another query has been running for at least half as long,
because the other trigger may use all cores. The first trigger of a run is slow because it is cold, so it does not count
if there are others. Without an earlier trigger, the running time must be at least `first-batch`. If it is shorter, and
no other data shows the progress of the query, the rule is inconclusive. Queries in real-time mode are left out.

Offsets: no trigger has begun for as long, and in all thread dumps, at least two, the thread of the query requests
offsets from its source.

If there is an event log, the rule compares the tasks that have not ended with the ended tasks of the same stage.

What to do
----------
Take a thread dump of the process named in the finding, and look for a call without a timeout. Speculation helps if
a host is slow, but not if a task waits for a lock.

False alarms
------------
A first batch that reads the whole backlog takes long without hanging (see RT207). Hours without any batch do not
count, because they are a gap in the input or a stalled driver.
"""

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.detect.hanging import (
    expected_ms,
    find_hanging_batch,
    longest_ms,
    offset_requests,
    running_clause,
    user_of_cores,
)


class Limits(h.Limits):
    intervals: float = h.limit(
        10.0, "intervals", "minimum running time in batch intervals; most stalls end sooner"
    )
    ratio: float = h.limit(
        3.0, "ratio", "minimum running time as a multiple of the longest earlier batch"
    )
    median_ratio: float = h.limit(
        10.0, "ratio", "minimum ratio of the running time to the median batch; most take less"
    )
    missed_intervals: float = h.limit(
        5.0, "intervals", "minimum running time of a trigger; an overload misses a few intervals"
    )
    backlog: float = h.limit(
        2.0, "ratio", "minimum running time as a multiple of the expected time for the waiting rows"
    )
    first_batch: float = h.limit(
        180_000, "ms", "minimum running time of a first batch, which may read a backlog"
    )
    running_time: float = h.running_time_limit()


def judge(assessed: h.AssessedApplication, limits: Limits) -> h.Results:
    """Yield one finding per application or query with a batch that hangs at the end."""
    app = assessed.app
    hanging = find_hanging_batch(
        app,
        intervals=limits.intervals,
        ratio=limits.ratio,
        typical=limits.median_ratio,
        alone=limits.first_batch,
    )
    if hanging is not None:
        yield hanging_batch(assessed, *hanging)
    for query, state in assessed.queries:
        if not query.real_time and not h.parts.exception_records(query):
            yield from _hanging_query(assessed, query, state, limits)


def _hanging_query(
    assessed: h.AssessedApplication, query: h.QueryFacts, state: h.StreamState, limits: Limits
) -> h.Results:
    """Yield a finding if the last trigger of a query hangs, or if no trigger begins."""
    app, last, longest = assessed.app, query.unfinished, longest_ms(query.triggers)
    if last is None:
        yield from _waiting_for_source(assessed, query, longest, limits)
        return
    least = max(
        limits.running_time,
        limits.ratio * longest if longest else limits.first_batch,
        limits.missed_intervals * (query.trigger_interval_ms or 0),
        limits.backlog * expected_ms(query),
    )
    user = user_of_cores(app, query)
    if last.duration_ms >= least and user is not None:
        yield h.Inconclusive(
            reason=f"batch {last.batch} of {query.label} may be waiting for cores that "
            f"{user.label} uses",
            remedy="a later copy of the logs",
            job=assessed.key,
        )
    elif last.duration_ms >= least:
        yield hanging_trigger(assessed, query, last, longest)
    elif state.stability is h.Stability.INCONCLUSIVE and app.stopped_us is None:
        yield h.Inconclusive(
            reason=f"batch {last.batch} of {query.label} was still running when the input ended, "
            f"{h.fmt.duration(last.duration_ms)} after its start",
            remedy="a later copy of the logs",
            job=assessed.key,
        )


def _waiting_for_source(
    assessed: h.AssessedApplication, query: h.QueryFacts, longest: int, limits: Limits
) -> h.Iterator[h.Finding]:
    """Yield a finding if a query starts no trigger because its source does not return offsets."""
    since_us = max((t.time_us + (t.duration_ms or 0) * 1000 for t in query.triggers), default=None)
    stacks = offset_requests(assessed.app, query)
    interval = query.trigger_interval_ms
    if since_us is None or query.run_end_us is None or interval is None or not stacks:
        return
    waits = (query.run_end_us - since_us) // 1000
    if waits < max(limits.running_time, limits.ratio * longest, limits.missed_intervals * interval):
        return
    of_kafka = any("kafka" in frame for frame in stacks[0].path)
    what = f"{query.label} has been waiting for offsets from its source for {h.fmt.duration(waits)}"
    common = _common_fields(assessed, query, (), None, waits, longest)
    fields: h.SubjectFields = {
        "title": what[:1].upper() + what[1:],
        "why": f"{what}, {h.fmt.plural(len(stacks), 'stack sample')}",
        "first_us": since_us,
    }
    if of_kafka:
        fields |= {
            "cause": "kafka-timeout",
            "actions": h.remedies("kafka-timeout", assessed.app, "reach"),
        }
    yield h.query_finding(assessed, query, **(common | fields))


def hanging_batch(
    assessed: h.AssessedApplication, batch: h.Batch, ran: int, longest: int
) -> h.Finding:
    """Return the finding about a batch of an application."""
    what = running_clause(batch.open_tasks, batch.work)
    fields: h.SubjectFields = {
        "title": f"A batch has been running for {h.fmt.duration(ran)}{what}; "
        f"the longest earlier batch took {h.fmt.duration(longest)}",
        "why": f"one batch has been running for {h.fmt.duration(ran)}{what}",
    }
    common = _common_fields(assessed, None, batch.open_tasks, batch.work, ran, longest)
    return h.batch_finding(assessed, [batch], **(common | fields))


def hanging_trigger(
    assessed: h.AssessedApplication, query: h.QueryFacts, last: h.OpenTrigger, longest: int
) -> h.Finding:
    """Return the finding about the last trigger of a query."""
    lasted, what = h.fmt.duration(last.duration_ms), running_clause(last.tasks, last.work)
    than = f"; the longest earlier batch took {h.fmt.duration(longest)}" if longest else ""
    running = f"of {query.label} has been running for {lasted}{what}"
    records = [(last.ref, last.since_us), *((task.ref, task.since_us) for task in last.tasks)]
    fields: h.SubjectFields = {
        "title": f"Batch {last.batch} {running}{than}",
        "why": f"batch {last.batch} {running}",
        "first_us": last.since_us,
        "evidence": h.cite(records),
    }
    common = _common_fields(assessed, query, last.tasks, last.work, last.duration_ms, longest)
    return h.query_finding(assessed, query, **(common | fields))


def _common_fields(
    assessed: h.AssessedApplication,
    query: h.QueryFacts | None,
    tasks: h.Sequence[h.OpenTask],
    work: h.Work | None,
    ran: int,
    longest: int,
) -> h.SubjectFields:
    """Return the fields that batches and triggers share."""
    app = assessed.app
    subject = h.query_subject(app, query) if query else h.application_subject(app)
    remedy = "thread-dumps"
    if tasks:
        subject = h.Subject(
            kind="task",
            job_name=app.name,
            application=app.application,
            query=subject.query,
            stage=tasks[0].stage,
            subtask_index=tasks[0].index,
            executor=tasks[0].executor,
            host=tasks[0].host,
        )
    elif work is not None and work.busy_ms is not None:
        remedy = "driver"
    siblings = max((task.longest_ms or 0 for task in tasks), default=0)
    return {
        "subject": subject,
        "severity": h.Severity.CRITICAL,
        "cause": "hanging-batch",
        "rank": h.Rank.ROOT_CAUSE,
        "last_us": app.last_us,
        "measurements": (
            h.measurement(
                "running-for", ran, "ms", longest or None, over="the longest earlier batch"
            ),
            *(
                [h.measurement("longest-ended-task", siblings, "ms", over="of the same stage")]
                if siblings
                else []
            ),
        ),
        "actions": h.remedies("hanging-batch", app, remedy),
    }


RULE = h.Rule(
    "RT104", judge, Limits, causes=("hanging-batch",), needs="work", severity=h.Severity.CRITICAL
)
