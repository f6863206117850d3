"""Back pressure limits the source.

What it reports
---------------
An application that processes everything it reads, but reads less than the source provides. Its batches
reach the rate that the estimator permits.

Why it matters
--------------
The job is stable but too slow. The remaining data waits in the source, or is lost there.

How it decides
--------------
At least `share` of the recent batches contain `at-limit` of the records that the estimator permitted during their
interval. If batches overrun and wait longer each time, the rule does not apply, because the rate is still too
high. An example is the first half of spark/4.0.1/failing-batches. The finding shows which term limits the rate:
the processing rate itself, the delay (integral) term, the floor, or the ceiling.

What to do
----------
Make the job faster: add cores, and check RT301 to RT304 for slow parts. If the delay term limits the rate
although processing times are short, check for single long batches.

False alarms
------------
A source may happen to deliver exactly the permitted rate.
"""

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.advice import longer_batches, reason_for_poor_fit, what_if
from flowdiag.analyses.rate.cores import free_cores
from flowdiag.analyses.rate.holding import deciding_term

_STATES = (h.Stability.THROTTLED, h.Stability.STABLE, h.Stability.BORDERLINE)


class Limits(h.Limits):
    share: float = h.limit(h.defaults.MOSTLY, "share", "minimum share of batches at the limit")
    at_limit: float = h.permitted_share_limit()


def judge(assessed: h.AssessedApplication, limits: Limits) -> h.Results:
    """Yield one finding per application whose estimators limit the source."""
    late = h.late_window(assessed.app.completed)
    for state in assessed.dstreams:
        found = h.caps.dstream_caps(
            assessed.app, late, assessed.estimators, full=limits.at_limit, permitted=limits.share
        )
        caps = [cap for cap in found if cap.kind == "pid"]
        if state.stability not in _STATES or not caps:
            continue
        reached = [estimator for estimator in assessed.estimators if estimator.updates]
        rate, share = sum(cap.per_s for cap in caps), caps[0].share
        # The largest stream matters most.
        largest = max(caps, key=lambda cap: cap.per_s)
        mine = next((one for one in reached if one.stream == largest.stream), reached[0])
        held, words = deciding_term(mine, several=len(reached) > 1)
        yield h.application_finding(
            assessed,
            title=f"Back pressure limits the source to {h.fmt.rate(rate)}, and "
            f"{h.fmt.percent(share)} of the recent batches reach that limit",
            explain=h.explanation("throttled", held=words),
            why=f"takes no more than {h.fmt.rate(state.records_per_s)} from the source",
            cause="throttled",
            rank=h.Rank.MECHANISM,
            count=round(share * len(late)),
            measurements=(
                h.measurement("permitted-rate", round(rate, 1), "records/s"),
                h.measurement(
                    "batches-at-limit",
                    round(share, 3),
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


def _actions(
    assessed: h.AssessedApplication, state: h.StreamState, held: str
) -> h.Iterator[h.Action]:
    app, line, able = assessed.app, state.line, state.headroom_per_s or 0.0
    unset = app.settings.get(h.pid.INITIAL_RATE) is None
    if held in ("delay", "floor") and line is not None and able and unset:
        # A first batch without a limit causes a delay.
        initial = max(1.0, 0.9 * able)
        yield from h.remedies(
            "throttled",
            app,
            "initial-rate",
            proposed={"initial-rate": initial},
            model=what_if(assessed, state, initial_rate=initial),
        )
    yield from longer_batches(assessed, state)
    cores = free_cores(app)
    now = f"; now {h.fmt.plural(cores, 'core is', 'cores are')} free for batches" if cores else ""
    reason = reason_for_poor_fit(line, state.interval_ms)
    more = (
        f". The estimator adapts to the job: only a faster job gets more than {able:.0f} records/s"
    )
    if reason:
        more = f". The model recommends no setting: {reason}"
    yield from h.remedies("throttled", app, "cores", now=now + more)


RULE = h.Rule("RT203", judge, Limits, causes=("throttled",), needs="batches")
