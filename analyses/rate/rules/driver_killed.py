"""The driver is gone, and never said that it ended.

What it reports
---------------
An application whose event log breaks off without the end of the application, or whose executors lost
their driver.

Why it matters
--------------
A driver that was killed takes the application along: nothing is processed until somebody starts it
again. Whatever was slow before comes second.

How it decides
--------------
No input tells that the application ended, and it did not say so itself. The event log of one that runs
looks the same, so that the signals decide: a log that breaks off is a hint (`cut-off`); an application of
the same name that started after the last sign of life (`started-again`) and an executor that lost its
driver (`driver-lost`) are indications; so is it a hint that another input goes on for `beyond` longer
(`others-go-on`), since a driver that runs writes something every few batches. With a hint alone it is
a remark where the application keeps up, a warning where it does not, and of low confidence in both;
otherwise it is critical, or over where the application was started again.

What to do
----------
See how it ended: its exit status (137: killed, mostly for memory; 143: stopped), the last lines of its
log, the diagnostics of YARN, `kubectl describe pod`, the kernel's log of its host. If it still runs, the
log was copied meanwhile: all is well.

False alarms
------------
A log that was copied while the application ran, and inputs that were copied at different times.
"""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.model.rule import Signal
from flowdiag.analyses.rate import helpers as h

DISASSOCIATED: Final = "driver-disassociated"
_SIGNALS: Final = (
    Signal("cut-off", 1, "the event log breaks off in the middle of a record"),
    Signal(
        "others-go-on", 1, "another application's inputs go on for longer, and tell no more of it"
    ),
    Signal(
        "started-again", 2, "an application of the same name started after its last sign of life"
    ),
    Signal("driver-lost", 2, "an executor's log says that the driver disassociated"),
)
_WELL: Final = (
    h.Stability.STABLE,
    h.Stability.IDLE,
    h.Stability.THROTTLED,
    h.Stability.INCONCLUSIVE,
)


class Killed(h.Limits):
    """What RT311 compares with."""

    beyond: float = h.limit(
        600_000, "ms", "a driver that runs writes more often, and copies are made in less"
    )


def judge(assessed: h.Assessed, limits: Killed) -> h.Iterator[h.Finding]:
    """One finding per application without an end."""
    app = assessed.app
    votes = _votes(assessed, limits) if app.ended_us is None else ()
    if any(vote.signal != "others-go-on" for vote in votes):
        yield _finding(assessed, votes)


def _votes(assessed: h.Assessed, limits: Killed) -> tuple[h.Vote, ...]:
    app = assessed.app
    last = app.last_us
    later = _later(assessed)
    beyond = max((one.last_us or 0 for one in assessed.others), default=0) - (last or 0)
    lost = [one for one in app.incidents if one.template == DISASSOCIATED]
    logged = "event-log" in app.origins
    said = {
        "cut-off": "its event log breaks off in the middle of a record"
        if app.damaged and logged
        else None,
        "others-go-on": f"other inputs go on for {h.fmt.duration(beyond / 1000)} without it"
        if last is not None and beyond >= limits.beyond * 1000
        else None,
        "started-again": f"{later.application or later.name} was started under its name"
        f" {h.fmt.duration(((later.started_us or 0) - (last or 0)) / 1000)} later"
        if later is not None and logged
        else None,
        "driver-lost": f"{h.fmt.plural(len(lost), 'executor')} lost the driver" if lost else None,
    }
    return tuple(
        h.Vote(signal=signal.name, text=says, weight=signal.weight)
        for signal in _SIGNALS
        if (says := said[signal.name]) is not None
    )


def _later(assessed: h.Assessed) -> h.ApplicationFacts | None:
    """The application that took its place."""
    app = assessed.app
    found = [
        one
        for one in assessed.others
        if one.name is not None
        and one.name == app.name
        and app.last_us is not None
        and (one.started_us or 0) > app.last_us
    ]
    return min(found, key=lambda one: one.started_us or 0, default=None)


def _before(app: h.ApplicationFacts) -> list[h.Batch | h.Trigger]:
    """What ended last: the batch, and the trigger of each query."""
    batches: list[h.Batch | h.Trigger] = [*app.completed[-1:]]
    return batches + [query.triggers[-1] for query in app.queries if query.triggers]


def _finding(assessed: h.Assessed, votes: tuple[h.Vote, ...]) -> h.Finding:
    app, sure = assessed.app, h.weigh(votes)
    again = any(vote.signal == "started-again" for vote in votes)
    flying = h.batches.unfinished_batches(app)
    known = [*assessed.dstreams, *(state for _, state in assessed.queries)]
    well = all(state.stability in _WELL for state in known)
    if sure is h.Confidence.LOW:
        severity = h.Severity.INFO if well else h.Severity.WARNING
        title = "The application ends without saying so: its driver was killed, or its event log was copied while it ran"
    else:
        severity = h.Severity.WARNING if again else h.Severity.CRITICAL
        title = "The driver was killed" + (", and the application started again" if again else "")
    lost = [one for one in app.incidents if one.template == DISASSOCIATED]
    flight = f"{h.fmt.plural(len(flying), 'batch', 'batches')} had not ended" if flying else None
    return h.application_finding(
        assessed,
        severity=severity,
        state=h.State.RECOVERED if again else h.State.ONGOING,
        title=title + (f"; {flight}" if flight else ""),
        why="; ".join(vote.text for vote in votes) + (f"; {flight}" if flight else ""),
        cause="driver-killed",
        confidence=sure,
        rank=h.Rank.FATAL,
        first_us=app.last_us,
        measurements=(h.measurement("unfinished-batches", len(flying), "batches"),),
        evidence=(
            *h.evidence_of(_before(app)),
            *h.cite((one.ref, one.time_us) for one in lost),
            *h.evidence_of(flying),
        ),
        ranked=True,
        actions=h.remedies("driver-killed", app),
        votes=votes,
    )


RULE: Final = h.Rule("RT311", judge, Killed, signals=_SIGNALS, causes=("driver-killed",))
