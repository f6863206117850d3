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
Batches: In at least `share` of the recent batches, a stream delivers at least `at-limit` of the records that
its limit allows per interval. The rule ignores overloaded applications.

Triggers with a file limit: The source logs `maxFilesPerTrigger` and the number of new files in each
trigger. At least `share` of the recent triggers read the maximum number of files.

Other triggers: At least `backlog-share` of the recent triggers leave a backlog. In addition, at least `share` of
the recent triggers leave a backlog and read at least `full-trigger` of the rows of the largest trigger.

The rule only covers queries that keep up and have a known trigger interval.

What to do
----------
Raise the limit to a rate that the job can sustain, so that triggers take about half of their interval.
For receivers, you can also enable back pressure and keep the limit as an upper bound.

False alarms
------------
The limit may protect the sink on purpose, or may only slow down the start. Row limits of queries count only while
a backlog remains.
"""

from typing import Final, Unpack

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.advice import (
    LIMITS_OF_KIND,
    raise_rate,
    raise_trigger_limit,
    unread_per_s,
)

_IN_TIME: Final = (h.Stability.THROTTLED, h.Stability.STABLE, h.Stability.BORDERLINE)


class Limits(h.Limits):
    share: float = h.limit(h.defaults.NARROW, "share", "minimum share of batches at the limit")
    backlog_share: float = h.limit(
        h.defaults.MOSTLY, "share", "minimum share of triggers with a backlog"
    )
    full_trigger: float = h.limit(
        h.defaults.SAME, "share", "share of the largest trigger's rows that a full trigger reads"
    )
    at_limit: float = h.permitted_share_limit()


def judge(assessed: h.AssessedApplication, limits: Limits) -> h.Results:
    """Yield one finding per option that limits an application, and one per limited query."""
    late = h.late_window(assessed.app.completed)
    for state in assessed.dstreams:
        if state.stability is h.Stability.INCONCLUSIVE or h.batches.is_overloaded(state):
            continue
        caps = h.caps.dstream_caps(
            assessed.app, late, assessed.estimators, full=limits.at_limit, fixed=limits.share
        )
        # A limit that applies to several streams is reported once.
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
            behind=limits.backlog_share,
            same=limits.full_trigger,
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
            h.measurement("utilization", h.round_or_none(share), "share"),
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
    late = h.late_triggers(query.triggers)
    setting, action = raise_trigger_limit(query, state, cap)
    option = action.option
    fields = _fields(
        setting,
        "triggers",
        state.use,
        cap,
        limits,
        explain=h.text("RT204.more-data"),
        option=option,
        count=round(cap.share * len(late)),
        actions=(action,),
    )
    if (growth := unread_per_s(late)) is not None:
        unread, arrive = late[-1].backlog, h.fmt.rate(cap.per_s + growth)
        fields["explain"] += h.text(
            "RT204.unread",
            arrive=arrive,
            read=h.fmt.rate(cap.per_s),
            unread=h.fmt.thousands(unread or 0),
        )
        over = f"grows by {h.fmt.rate(growth)}"
        measured = h.measurement("unread-records", unread, "records", over=over)
        fields["measurements"] = (*fields["measurements"], measured)
    if option:
        fields["subject"] = h.option_subject(assessed.app, option)
    return h.trigger_finding(assessed, query, late, **fields)


RULE = h.Rule("RT204", judge, Limits, causes=("max-rate",), needs="work")
