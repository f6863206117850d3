"""The driver disappeared without ending the application.

What it reports
---------------
An application whose event log does not contain its end, or whose executors lost their driver.

Why it matters
--------------
Without its driver, the application ends. It processes nothing until it is restarted, and any earlier slowness is
secondary.

How it decides
--------------
The logs do not contain the end of the application. The event log of a running application looks the same,
so the rule weighs four signals.

Two of them are only hints: the log breaks off in the middle of a record (`cut-off`), or other inputs continue for at
least `silence` longer (`others-go-on`), in which a running driver would have written something. The rule ignores
`others-go-on` if it is the only signal.

The other two are stronger: an application of the same name started later (`started-again`), or an
executor lost its driver (`driver-lost`).

A single hint gives low confidence. With low confidence, the finding is a note if the application keeps up, and
otherwise a warning. With more evidence, the finding is critical, or a recovered warning if the application
restarted.

What to do
----------
Find out how the driver ended. Check its exit code (137: killed, usually because of memory; 143: stopped)
and the last lines of its log. Check the YARN diagnostics, `kubectl describe pod`, and the kernel log of
the host. If the driver is still running, the log was copied while it ran, and nothing is wrong.

False alarms
------------
A log that was copied while the application ran looks the same. So do inputs that were copied at different times.
"""

from typing import Final

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.detect.successors import successor_of

DISASSOCIATED: Final = "driver-disassociated"
_WELL: Final = (
    h.Stability.STABLE,
    h.Stability.IDLE,
    h.Stability.THROTTLED,
    h.Stability.INCONCLUSIVE,
)


class Limits(h.Limits):
    silence: float = h.limit(
        600_000, "ms", "minimum time without driver records; a running driver logs more often"
    )


def judge(assessed: h.AssessedApplication, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield one finding per application whose driver disappeared."""
    app = assessed.app
    lost = app.incidents_of(DISASSOCIATED)
    votes = _votes(assessed, lost, limits) if app.ended_us is None else ()
    if all(vote.signal == "others-go-on" for vote in votes):
        return
    confidence, restarted = h.weigh(votes), any(vote.signal == "started-again" for vote in votes)
    severity, state, title = h.Severity.CRITICAL, h.State.ONGOING, "The driver was killed"
    if restarted:
        severity, state = h.Severity.WARNING, h.State.RECOVERED
        title += ", and the application restarted"
    if confidence is h.Confidence.LOW:
        well = all(state.stability in _WELL for state in assessed.states)
        severity = h.Severity.INFO if well else h.Severity.WARNING
        title = (
            "The logs do not contain the end of the application: its driver was killed, or its "
            "event log was copied while the application was running"
        )
    running = h.batches.unfinished_batches(app)
    unfinished = ""
    if running:
        unfinished = f"; {h.fmt.plural(len(running), 'batch', 'batches')} had not ended"
    series: tuple[tuple[h.Batch | h.Trigger, ...], ...] = (
        app.completed,
        *(query.triggers for query in app.queries),
    )
    yield h.application_finding(
        assessed,
        severity=severity,
        state=state,
        title=title + unfinished,
        why="; ".join(vote.text for vote in votes) + unfinished,
        cause="driver-killed",
        confidence=confidence,
        rank=h.Rank.FATAL,
        first_us=app.last_us,
        measurements=(h.measurement("unfinished-batches", len(running), "batches"),),
        evidence=(
            *h.evidence_of(units[-1] for units in series if units),
            *h.cite((record.ref, record.time_us) for record in lost),
            *h.evidence_of(running),
        ),
        ranked=True,
        actions=h.remedies("driver-killed", app),
        votes=votes,
    )


def _votes(
    assessed: h.AssessedApplication, lost: h.Sequence[h.Record], limits: Limits
) -> tuple[h.Vote, ...]:
    app, last = assessed.app, assessed.app.last_us
    texts: dict[str, str] = {}
    if "event-log" in app.origins:
        if app.damaged:
            texts["cut-off"] = "its event log breaks off in the middle of a record"
        if (later := successor_of(assessed)) is not None:
            after = h.fmt.duration(((later.started_us or 0) - (last or 0)) / 1000)
            texts["started-again"] = (
                f"{later.application or later.name} started under the same name {after} later"
            )
    beyond = max((other.last_us or 0 for other in assessed.others), default=0) - (last or 0)
    if last is not None and beyond >= limits.silence * 1000:
        texts["others-go-on"] = f"other inputs continue for {h.fmt.duration(beyond / 1000)} longer"
    if lost:
        texts["driver-lost"] = (
            f"{h.fmt.plural(len(lost), 'executor')} lost the connection to the driver"
        )
    return tuple(
        h.Vote(signal=signal.name, text=texts[signal.name], weight=signal.weight)
        for signal in RULE.signals
        if signal.name in texts
    )


RULE: Final = h.Rule(
    "RT311", judge, Limits, causes=("driver-killed",), needs="work", severity=h.Severity.CRITICAL
)
