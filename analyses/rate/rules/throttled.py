"""Back pressure holds the source back.

What it reports
---------------
An application that processes all it lets in, but lets in less than the source has: batches filled
up to the rate that the estimator permits.

Why it matters
--------------
The job is stable and too slow: what is not taken waits in the source, or is lost there.

How it decides
--------------
At least `share` of the latest batches hold `full` of what the estimator permitted during their
interval, or more, and batches do not take longer than the interval and wait longer each time: then
the rate is still too high, or was when they were filled (the first half of spark/4.0.1/failing-batches). The words say which term holds the rate: the processing rate itself, the delay
(integral) term, the floor or the ceiling.

What to do
----------
Make the job faster: more cores, RT301 to RT304 for what is slow. Where the delay term holds the
rate although processing is short, look for single long batches.

False alarms
------------
A source that happens to bring what is permitted.
"""

from __future__ import annotations

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.advice import poor, predict, what_if
from flowdiag.analyses.rate.cores import free_cores
from flowdiag.analyses.rate.holding import term


class Throttled(h.Limits):
    """What RT203 compares with."""

    share: float = h.limit(h.defaults.MOSTLY, "share", "of the latest batches, filled up")
    full: float = h.limit(
        h.defaults.AT_LIMIT, "share", "of what is permitted: rates change meanwhile"
    )


def judge(assessed: h.Assessed, limits: Throttled) -> h.Iterator[h.Finding | h.Inconclusive]:
    """One finding per application whose estimators hold the source back."""
    late = h.late_window(assessed.app.completed)
    for state in assessed.dstreams:
        if state.stability not in (
            h.Stability.THROTTLED,
            h.Stability.STABLE,
            h.Stability.BORDERLINE,
        ):
            continue
        caps = h.caps.dstream_caps(
            assessed.app, late, assessed.estimators, full=limits.full, permitted=limits.share
        )
        permitted = [cap for cap in caps if cap.kind == "pid"]
        if permitted:
            yield _finding(assessed, state, permitted, limits)


def _finding(
    assessed: h.Assessed, state: h.StreamState, caps: list[h.defaults.Cap], limits: Throttled
) -> h.Finding:
    late = h.late_window(assessed.app.completed)
    reached = [one for one in assessed.estimators if one.updates]
    rate = sum(cap.per_s for cap in caps)
    # The largest stream is the one that matters.
    most = max(caps, key=lambda cap: cap.per_s)
    mine = next((one for one in reached if one.stream == most.stream), reached[0])
    held, words = term(mine, several=len(reached) > 1)
    return h.application_finding(
        assessed,
        title=f"Back pressure lets in {h.fmt.rate(rate)}, and {h.fmt.percent(caps[0].share)} of the latest batches "
        "are filled up to that",
        explain=h.explanation("throttled", held=words),
        why=f"takes no more than {h.fmt.rate(state.records_per_s)} of what the source has",
        cause="throttled",
        rank=h.Rank.MECHANISM,
        count=round(caps[0].share * len(late)),
        measurements=(
            h.measurement("permitted-rate", round(rate, 1), "records/s"),
            h.measurement(
                "batches-at-limit",
                round(caps[0].share, 3),
                "share",
                limits.share,
                over="of the last third of the batches",
            ),
            h.measurement(
                "sustainable-rate",
                h.round_or_none(state.headroom_per_s, 1),
                "records/s",
                over="by the fitted cost of batches and records",
            ),
        ),
        evidence=h.evidence_of(late),
        actions=tuple(_actions(assessed, state, held)),
    )


def _actions(assessed: h.Assessed, state: h.StreamState, held: str) -> h.Iterator[h.Action]:
    app, line, able = assessed.app, state.line, state.headroom_per_s or 0.0
    if held in ("delay", "floor") and line is not None and able:
        # A first batch without a limit is what leaves a delay behind.
        initial = max(1.0, 0.9 * able)
        if app.settings.get(h.pid.INITIAL_RATE) is None:
            yield from h.remedies(
                "throttled",
                app,
                "initial-rate",
                proposed={"initial-rate": initial},
                model=what_if(assessed, state, initial_rate=initial),
            )
    yield from _longer(assessed, state)
    cores = free_cores(app)
    now = f"; now {h.fmt.plural(cores, 'core is', 'cores are')} free for batches" if cores else ""
    reason = poor(line, state.interval_ms)
    more = (
        f". No setting is recommended by the model: {reason}"
        if reason
        else f". The estimator lets in what is processed; only a faster job makes it more than "
        f"{able:.0f} records/s"
    )
    yield from h.remedies("throttled", app, "cores", now=now + more)


def _longer(assessed: h.Assessed, state: h.StreamState) -> h.Iterator[h.Action]:
    """A longer interval, where the model says that more comes through."""
    line, interval = state.line, state.interval_ms or 1000
    if line is None or line.base < 0.15 * interval:
        return
    longer = round(2 * interval)
    found = predict(assessed, state, interval_ms=longer)
    if (
        found is not None
        and found.after.steady_per_s >= 1.1 * found.before.steady_per_s
        and found.after.queued <= max(1, found.before.queued)
    ):
        yield h.longer_interval(
            h.BATCH_INTERVAL,
            interval,
            longer,
            f"A batch costs {h.fmt.duration(line.base)} by itself: make the interval longer. "
            f"{found.text}",
            verify="records per second of the batches",
        )


RULE = h.Rule("RT203", judge, Throttled, causes=("throttled",))
