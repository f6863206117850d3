"""All that a rule about a Spark application needs, under one import.

A constructor per kind of subject fills in what follows from the facts. Most rules of `rate` speak of
the present: unless they say otherwise, a finding is a warning, is ongoing, and lasts to the end of the
input; its explanation is that of its cause.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flowdiag.analyses.flink.judging import milliseconds, without_package
from flowdiag.analyses.knowledge.causes import CAUSES, Remedy
from flowdiag.analyses.knowledge.option_types import (
    BATCH_INTERVAL,
    TRIGGER_INTERVAL,
    Value,
    helps,
    write,
)
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.finding import (
    Action,
    Confidence,
    Evidence,
    Finding,
    Inconclusive,
    Measurement,
    Origin,
    Present,
    Rank,
    Severity,
    State,
    Subject,
    Vote,
    cite,
    grade,
    weigh,
)
from flowdiag.analyses.model.rule import Limits, Rule, limit
from flowdiag.analyses.rate import judging, present
from flowdiag.analyses.rate import replay as pid
from flowdiag.analyses.rate.facts import (
    ApplicationFacts,
    Batch,
    QueryFacts,
    Record,
    StageLoad,
    Trigger,
)
from flowdiag.analyses.rate.judging import (
    limited,
    rate_text,
    records_of,
    setting,
    short_of_time,
    slowest,
)
from flowdiag.analyses.rate.present import Assessed, StreamState, late_triggers, late_window
from flowdiag.analyses.rate.replay import Replay
from flowdiag.analyses.rate.stability import Stability


def measurement(
    name: str,
    value: float | str | None,
    unit: str | None = None,
    threshold: float | None = None,
    over: str | None = None,
) -> Measurement:
    """A number that a finding rests on.

    Args:
        name: kebab-case, e.g. `swing`.
        value, unit: the number; None as unit for words.
        threshold: what it was compared with, in the same unit.
        over: what it was measured over, or against, in a few words.
    """
    return Measurement(name=name, value=value, unit=unit, threshold=threshold, population=over)


def rounded(value: float | None, digits: int = 3) -> float | None:
    """A number as reports have it; None stays None."""
    return None if value is None else round(value, digits)


# -- findings ------------------------------------------------------------------------------------


def of_application(assessed: Assessed, *, subject: Subject | None = None, **said: Any) -> Finding:
    """A finding about an application, or about something of it.

    Args:
        assessed: whose verdict counts it.
        subject: who it is about; None: the application itself.
        said: the other fields of `Finding`.
    """
    app = assessed.app
    usual: dict[str, Any] = {
        "severity": Severity.WARNING,
        "state": State.ONGOING,
        "last_us": app.last_us,
    }
    if said.get("cause") is not None:
        usual["explain"] = explanation(said["cause"])
    return Finding(
        job=assessed.key,
        subject=subject or judging.application_subject(app),
        **(usual | said),
    )


def of_option(assessed: Assessed, option: str, **said: Any) -> Finding:
    """A finding about a setting of an application."""
    subject = judging.option_subject(assessed.app, option)
    return of_application(assessed, subject=subject, option=option, **said)


def of_stream(assessed: Assessed, stream: int | None, **said: Any) -> Finding:
    """A finding about an input stream, with the receiver that feeds it as far as it is known."""
    return of_application(assessed, subject=judging.receiver_subject(assessed.app, stream), **said)


def of_batches(assessed: Assessed, batches: Sequence[Batch], **said: Any) -> Finding:
    """A finding about some of an application's batches: times, count and records follow from them."""
    usual: dict[str, Any] = {
        "first_us": batches[0].time_ms * 1000,
        "last_us": batches[-1].time_ms * 1000,
        "count": len(batches),
        "evidence": records_of(batches),
    }
    return of_application(assessed, **(usual | said))


def of_query(assessed: Assessed, query: QueryFacts, **said: Any) -> Finding:
    """A finding about a streaming query."""
    return of_application(
        assessed, **({"subject": judging.query_subject(assessed.app, query)} | said)
    )


def of_triggers(
    assessed: Assessed, query: QueryFacts, triggers: Sequence[Trigger], **said: Any
) -> Finding:
    """A finding about some of a query's triggers: times, count and records follow from them."""
    usual: dict[str, Any] = {
        "first_us": triggers[0].time_us if triggers else None,
        "last_us": triggers[-1].time_us if triggers else None,
        "count": len(triggers),
        "evidence": records_of(triggers),
    }
    return of_query(assessed, query, **(usual | said))


# -- batches and triggers alike ------------------------------------------------------------------


def sure_of(lasted: Sequence[int | None], few: float) -> Confidence:
    """How sure an overload is that so many batches or triggers show: few may be a start that catches up.

    Args:
        lasted: how long each waited or took, in their order.
        few: as many as tell by themselves; with fewer the last one has to be the worst.
    """
    known = [ms for ms in lasted if ms is not None]
    worst_at_last = len(known) > 2 and known[-1] >= max(known)
    return Confidence.HIGH if len(lasted) >= few or worst_at_last else Confidence.LOW


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A batch or a trigger, for rules that judge both.

    Args:
        record: itself.
        lasted_ms: how long it took.
        stage: the one with the longest task; None where no task is told.
        gap_ms: of the time in which its jobs run, what certainly had none; None where it is not told.
        rows: whether it read any; of batches it is taken for granted.
    """

    record: Batch | Trigger
    lasted_ms: int
    stage: StageLoad | None
    gap_ms: int | None
    rows: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """The present of an application's batches, or of a query's triggers.

    Args:
        assessed: the application.
        query: None for its batches.
        state: how it keeps up.
        units: of the present.
    """

    assessed: Assessed
    query: QueryFacts | None
    state: StreamState
    units: tuple[Unit, ...]

    def counted(self, number: int) -> str:
        """So many of its units: `1 batch`, `5 triggers`."""
        return fmt.plural(number, *(("trigger",) if self.query else ("batch", "batches")))

    @property
    def subject(self) -> Subject:
        """The application, or the query."""
        app = self.assessed.app
        if self.query is None:
            return judging.application_subject(app)
        return judging.query_subject(app, self.query)


def flows_of(assessed: Assessed) -> Iterator[Flow]:
    """The batches of an application, then the triggers of each query."""
    for state in assessed.dstreams:
        batches = tuple(_of_batch(b) for b in late_window(assessed.app.completed))
        yield Flow(assessed=assessed, query=None, state=state, units=batches)
    for query, state in assessed.queries:
        triggers = tuple(_of_trigger(t) for t in late_triggers(query.triggers))
        yield Flow(assessed=assessed, query=query, state=state, units=triggers)


def _of_batch(batch: Batch) -> Unit:
    work, lasted = batch.work, batch.processing_ms
    gap = None
    if work is not None and work.busy_ms is not None and lasted is not None:
        gap = None if batch.approximate else max(0, lasted - work.busy_ms)
    return Unit(record=batch, lasted_ms=lasted or 0, stage=batch.stage, gap_ms=gap, rows=True)


def _of_trigger(trigger: Trigger) -> Unit:
    work, job = trigger.work, trigger.durations.get("addBatch")
    gap = None
    if work is not None and work.busy_ms is not None and job is not None:
        gap = max(0, job - work.busy_ms)
    return Unit(
        record=trigger,
        lasted_ms=trigger.duration_ms or 0,
        stage=trigger.stage,
        gap_ms=gap,
        rows=bool(trigger.rows),
    )


def of_flow(flow: Flow, units: Iterable[Unit], **said: Any) -> Finding:
    """A finding about an application or a query, by some of its batches or triggers.

    Args:
        flow: whose they are.
        units: whose records prove it.
        said: the other fields of `Finding`.
    """
    usual: dict[str, Any] = {
        "subject": flow.subject,
        "evidence": records_of(unit.record for unit in units),
    }
    return of_application(flow.assessed, **(usual | said))


# -- what to do ----------------------------------------------------------------------------------


def explanation(cause: str, **fill: str) -> str:
    """What a cause does to an application; `fill` stands for the names in braces."""
    text = CAUSES[cause].explanation
    return text.format(**fill) if fill else text


def remedies(
    cause: str,
    app: ApplicationFacts,
    *names: str,
    proposed: Mapping[str, Value | None] | None = None,
    **fill: str,
) -> tuple[Action, ...]:
    """What to do about a cause, in this application: options with the values they have now.

    Left out is what the configuration has already.

    Args:
        cause: a word of `causes.CAUSES`.
        app: its settings.
        names: which remedies, in this order; none: all.
        proposed: values to try, by remedy, where they depend on the application.
        fill: what stands for the names in braces.
    """
    table = CAUSES[cause].remedies or {}
    advice = [
        _action(table[name], app, (proposed or {}).get(name), fill) for name in names or table
    ]
    return tuple(action for action in advice if action is not None)


def _action(
    remedy: Remedy, app: ApplicationFacts, proposed: Value | None, fill: Mapping[str, str]
) -> Action | None:
    key, value = remedy.option, remedy.proposed if proposed is None else proposed
    if remedy.engine == "flink":
        return None
    wanted = write(key, value) if key is not None and value is not None else None
    now = setting(app, key) if key is not None else None
    known = (app.settings.get(key) or (now.value if now else None)) if key is not None else None
    if wanted and known and key and not helps(remedy.only, key, known, wanted, None):
        return None
    return Action(
        text=remedy.text.format(**fill) if fill else remedy.text,
        option=key,
        current=now,
        proposed=wanted,
        measure=None if wanted else remedy.measure,
        risk=remedy.risk,
        restart_needed=remedy.restart_needed,
        verify=remedy.verify,
        command=remedy.command,
    )


def longer_interval(
    option: str, now_ms: float, wanted_ms: float, text: str, *, verify: str
) -> Action:
    """The advice to have batches or triggers less often.

    Args:
        option: `BATCH_INTERVAL` or `TRIGGER_INTERVAL`.
        now_ms, wanted_ms: the interval; a longer one than a second is proposed in whole seconds.
        text: what to do, and why.
        verify: how to see that it helped.
    """
    wanted = -(-wanted_ms // 1000) * 1000 if wanted_ms >= 1000 else wanted_ms
    return Action(
        text=text,
        option=option,
        current=Present(fmt.duration(now_ms), Origin.OBSERVED),
        proposed=write(option, wanted),
        risk="results come later",
        restart_needed=True,
        verify=verify,
    )
