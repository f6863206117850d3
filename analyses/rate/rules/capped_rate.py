"""A fixed limit is lower than the input rate.

What it reports
---------------
Streams that reach `spark.streaming.receiver.maxRate` or `spark.streaming.kafka.maxRatePerPartition` in
most batches, and queries whose triggers read as much as their limit allows, although the job could
process more.

Why it matters
--------------
The limit, not the job, determines the throughput. Data queues in the source although the cluster has
spare capacity.

How it decides
--------------
Batches: In at least `share` of the recent batches, a stream delivers at least `full` of the records that
its limit allows per interval. The rule ignores overloaded applications.

Triggers with a file limit: The source logs `maxFilesPerTrigger` and the number of new files in each
trigger. At least `share` of the recent triggers read the maximum number of files.

Other triggers: At least `behind` of the recent triggers leave a backlog. In addition, at least `share` of
the recent triggers leave a backlog and read at least `same` of the rows of the largest trigger.

The rule only covers queries that keep up and have a known trigger interval.

What to do
----------
Raise the limit to a rate that the job can sustain, so that triggers take about half of their interval.
For receivers, you can also enable back pressure and keep the limit as an upper bound.

False alarms
------------
A limit that protects the sink, or one that only slows down the start. Row limits of queries count only
while a backlog remains.
"""

from __future__ import annotations

from typing import Final, Unpack

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.advice import (
    LIMITS_OF_KIND,
    catch_up_limit,
    raise_rate,
    unread_per_s,
)

_IN_TIME: Final = (h.Stability.THROTTLED, h.Stability.STABLE, h.Stability.BORDERLINE)


class Limits(h.Limits):
    share: float = h.limit(
        h.defaults.NARROW,
        "share",
        "minimum share of recent batches or triggers that reach the limit",
    )
    full: float = h.limit(
        h.defaults.AT_LIMIT,
        "share",
        "minimum share of the records that the limit allows per interval",
    )
    behind: float = h.limit(
        h.defaults.MOSTLY, "share", "minimum share of recent triggers that leave a backlog"
    )
    same: float = h.limit(
        h.defaults.SAME, "share", "minimum share of the rows of the largest trigger"
    )


def judge(assessed: h.AssessedApplication, limits: Limits) -> h.Results:
    """Yield one finding per option that limits an application, and one per limited query."""
    late = h.late_window(assessed.app.completed)
    for state in assessed.dstreams:
        if state.stability is h.Stability.INCONCLUSIVE or h.batches.overloaded(state):
            continue
        caps = h.caps.dstream_caps(
            assessed.app, late, assessed.estimators, full=limits.full, fixed=limits.share
        )
        # A limit of several streams is reported once.
        for kind, cap in {
            cap.kind: cap for cap in reversed(caps) if cap.kind in LIMITS_OF_KIND
        }.items():
            yield h.option_finding(
                assessed,
                LIMITS_OF_KIND[kind],
                **_fields(
                    f"{LIMITS_OF_KIND[kind]} = {cap.per_s:g}",
                    "batches",
                    state.use,
                    cap,
                    limits,
                    count=round(cap.share * len(late)),
                    evidence=h.evidence_of(late),
                    actions=(raise_rate(assessed, state, cap),),
                ),
            )
    for query, state in assessed.queries:
        if query.real_time or state.stability not in _IN_TIME:
            continue
        found = h.triggers.query_caps(
            query,
            h.triggers.timed_triggers(query),
            overcounted=state.rows_overcounted,
            filled=limits.share,
            behind=limits.behind,
            same=limits.same,
        )
        for cap in found:
            yield _query_finding(assessed, query, state, cap, limits)


def _fields(
    setting: str,
    units: str,
    share: float | None,
    cap: h.defaults.Cap,
    limits: Limits,
    **more: Unpack[h.SubjectFields],
) -> h.SubjectFields:
    use = h.fmt.percent(share) if share is not None else "an unknown share"
    fields: h.SubjectFields = {
        "title": f"{h.fmt.percent(cap.share)} of the recent {units} reach {setting}, although "
        f"processing takes only {use} of the interval",
        "why": f"{setting} is lower than the input rate",
        "cause": "max-rate",
        "rank": h.Rank.ROOT_CAUSE,
        "measurements": (
            h.measurement(f"{units}-at-limit", round(cap.share, 3), "share", limits.share),
            h.measurement("use", h.round_or_none(share), "share"),
        ),
    }
    fields.update(more)
    return fields


def _query_finding(
    assessed: h.AssessedApplication,
    query: h.QueryFacts,
    state: h.StreamState,
    cap: h.defaults.Cap,
    limits: Limits,
) -> h.Finding:
    late, option, files = h.late_triggers(query.triggers), None, query.file_limit or 0
    current = more = None
    names = " ".join(source.get("name", "") for t in query.triggers[-1:] for source in t.sources)
    if cap.kind == "files":
        option, current = "maxFilesPerTrigger", str(files)
        more = max(files + 1, int(files * 0.6 / state.use)) if state.use else None
    elif "Kafka" in names:
        option = "maxOffsetsPerTrigger"
        more = catch_up_limit(late, state, cap)
    setting = (option or "a limit per trigger") + (f" = {current}" if current else "")
    action = h.Action(
        text="Raise the limit until triggers take about half of their interval",
        option=option,
        current=h.Present(current) if current else None,
        proposed=h.write(option, more) if option and more else None,
        measure=None
        if more
        else "the highest rate at which triggers can process rows; use half of it",
        restart_needed=True,
        verify="rows per trigger, and triggerExecution against the interval",
    )
    fields = _fields(
        setting,
        "triggers",
        state.use,
        cap,
        limits,
        explain="More data is available than the limit permits, and the triggers have time left.",
        option=option,
        count=round(cap.share * len(late)),
        actions=(action,),
    )
    _add_unread(fields, late, cap)
    if option:
        fields["subject"] = h.option_subject(assessed.app, option)
    return h.trigger_finding(assessed, query, late, **fields)


def _add_unread(fields: h.SubjectFields, late: h.Sequence[h.Trigger], cap: h.defaults.Cap) -> None:
    """Add how many records arrive, are read and stay unread."""
    growth = unread_per_s(late)
    if growth is None:
        return
    unread = late[-1].backlog
    fields["explain"] += (
        f" {h.fmt.rate(cap.per_s + growth)} arrive, and {h.fmt.rate(cap.per_s)} are read: "
        f"{h.fmt.thousands(unread or 0)} are unread (latest minus committed offsets)."
    )
    over = f"grows by {h.fmt.rate(growth)}"
    measured = h.measurement("unread", unread, "records", over=over)
    fields["measurements"] = (*fields["measurements"], measured)


RULE = h.Rule("RT204", judge, Limits, causes=("max-rate",))
