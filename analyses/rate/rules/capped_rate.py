"""A fixed limit lets through less than comes in.

What it reports
---------------
Streams that are filled up to `spark.streaming.receiver.maxRate` or
`spark.streaming.kafka.maxRatePerPartition` in most batches, while the job has time left.

Why it matters
--------------
The limit, not the job, decides the throughput: the source piles up behind it although the cluster
could take more.

How it decides
--------------
At least `share` of the latest batches hold `full` of limit times interval or more, and the delay does
not grow.

What to do
----------
Raise the limit to what the job sustains, or turn back pressure on and keep the limit as a ceiling.

False alarms
------------
A limit that protects what the job writes to.
"""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.advice import what_if

_OPTIONS: Final = {"max-rate": h.pid.MAX_RATE, "max-per-partition": h.pid.MAX_PER_PARTITION}


class Capped(h.Limits):
    """What RT204 compares with."""

    share: float = h.limit(h.defaults.NARROW, "share", "of the latest batches, filled up")
    full: float = h.limit(
        h.defaults.AT_LIMIT, "share", "of limit times interval: blocks are not exact"
    )


def judge(assessed: h.Assessed, limits: Capped) -> h.Iterator[h.Finding | h.Inconclusive]:
    """One finding per option that limits an application."""
    late = h.late_window(assessed.app.completed)
    for state in assessed.dstreams:
        if state.stability is h.Stability.INCONCLUSIVE or h.batches.overloaded(state):
            continue
        caps = h.caps.dstream_caps(
            assessed.app, late, assessed.estimators, full=limits.full, fixed=limits.share
        )
        # One that binds several streams is told once.
        by_kind = {cap.kind: cap for cap in reversed(caps)}
        for cap in caps:
            if cap.kind in _OPTIONS and by_kind[cap.kind] is cap:
                yield _finding(assessed, state, cap, limits)


def _finding(
    assessed: h.Assessed, state: h.StreamState, cap: h.defaults.Cap, limits: Capped
) -> h.Finding:
    app, option = assessed.app, _OPTIONS[cap.kind]
    late = h.late_window(app.completed)
    use = h.fmt.percent(state.use) if state.use is not None else "an unknown part"
    return h.option_finding(
        assessed,
        option,
        title=f"{h.fmt.percent(cap.share)} of the latest batches are filled up to {option} = {cap.per_s:g}, while "
        f"processing takes {use} of the interval",
        why=f"{option} = {cap.per_s:g} lets through less than comes in",
        cause="max-rate",
        rank=h.Rank.ROOT_CAUSE,
        count=round(cap.share * len(late)),
        measurements=(
            h.measurement("batches-at-limit", round(cap.share, 3), "share", limits.share),
            h.measurement("use", h.round_or_none(state.use), "share"),
        ),
        evidence=h.evidence_of(late),
        actions=(_raise(assessed, state, cap),),
    )


def _raise(assessed: h.Assessed, state: h.StreamState, cap: h.defaults.Cap) -> h.Action:
    app, option, line = assessed.app, _OPTIONS[cap.kind], state.line
    streams = max(1, len({s.stream for b in app.batches for s in b.streams}))
    wanted = None
    if state.headroom_per_s is not None and line is not None and line.spread > 0.2:
        # The headroom is that of all streams together, the limit one stream's.
        wanted = 0.8 * state.headroom_per_s / streams
    elif state.use is not None and 0 < state.use < 0.5:
        # A batch of so many times the records takes so many times as long at most.
        wanted = cap.per_s * 0.6 / state.use
    if wanted is not None and wanted < cap.per_s + 1:
        wanted = None  # there is nothing to be had
    model = ""
    if wanted and cap.kind == "max-rate" and line is not None:
        model = " " + what_if(assessed, state, max_rate=round(wanted) * streams)
    return h.Action(
        text=f"Raise the limit, or leave it to back pressure{'.' if model else ''}{model}",
        option=option,
        current=h.current_value(app, option),
        proposed=h.write(option, wanted) if wanted else None,
        measure=None if wanted else "processing time of batches of different sizes",
        risk="more load on what the job writes to",
        restart_needed=True,
        verify="records per batch, and processing time over interval",
    )


RULE = h.Rule("RT204", judge, Capped, causes=("max-rate",))
