"""Finds the part of a job that limits it: its sources, its own work or its sinks, and the system behind them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from flowdiag.analyses.flink.tasks.pressure import Load
from flowdiag.analyses.model import fmt
from flowdiag.analyses.model.derived import once
from flowdiag.analyses.model.finding import State
from flowdiag.analyses.neighbours.locks import LockedSessions
from flowdiag.analyses.queues.facts import JobQueues
from flowdiag.analyses.queues.loads import loads_in
from flowdiag.analyses.queues.neighbours.blocked import blocked_sessions
from flowdiag.analyses.queues.neighbours.hidden import HiddenRecords, hidden_records
from flowdiag.analyses.queues.neighbours.lags import (
    Trend,
    active_loads,
    direction_of,
    has_back_pressured_sources,
    is_falling_behind,
    job_trend,
    sees_no_lag,
)
from flowdiag.analyses.queues.neighbours.outages import unreachable_at_end
from flowdiag.analyses.queues.root import Spell, find_spells
from flowdiag.analyses.queues.services import (
    fetch_throttle_delay,
    service_name,
    slow_service,
    source_system,
    throttle_clause,
)
from flowdiag.parsers.components import components

Side = Literal["source", "processing", "sink"]

BUSY: Final = 0.85
"""Minimum busy share of a source that cannot read faster."""
BEHIND_S: Final = 10.0
"""Minimum lag in seconds. Bursts, pauses and checkpoints cause shorter lags."""
SILENT_S: Final = 60.0
"""Minimum number of seconds without a record that show an open transaction."""
UNREACHED_S: Final = 30.0
"""Minimum number of seconds without a successful connection. Clients retry about once per second."""
_WRITERS: Final = ("Sink: ", ": Writer", ": Committer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """The part of a job that limits it.

    Args:
        side: the limiting side; None if the job keeps up.
        task: the task that limits the job, or whose external system does.
        neighbour: the system that the task waits for, if an input shows it.
        text: the reason as one sentence.
        busy: mean busy share of the busiest task of each side, if known.
        lag: how far the job is behind its source; None if unknown.
    """

    side: Side | None
    task: str | None
    neighbour: str | None
    text: str
    busy: dict[Side, float]
    lag: Trend | None


def side_of(job: JobQueues, task: str) -> Side:
    """Return whether a task is a source, a sink or processing. A chain that does both last counts as processing."""
    if task in job.topology.sources:
        return "source"
    first = task.partition(" -> ")[0]
    if job.topology.downstream(task) or not any(word in first for word in _WRITERS):
        return "processing"
    return "sink"


@once
def flow_of(job: JobQueues) -> Flow | None:
    """Return the part that limits the job, or None if neither busy times nor a lag are known."""
    loads = loads_in(job)
    hidden = hidden_records(job, BEHIND_S, SILENT_S)
    # The source's own number does not contain records that it cannot see.
    lag = None if hidden else job_trend(job)
    busy = _busy_shares(job, loads.values())
    if not busy and lag is None:
        return None
    side, task, neighbour, text = _limit(job, lag, hidden)
    return Flow(side=side, task=task, neighbour=neighbour, text=text, busy=busy, lag=lag)


def _busy_shares(job: JobQueues, loads: Iterable[Load]) -> dict[Side, float]:
    shares: dict[str, list[float]] = {}
    for load in loads:
        if load.measured and load.busy is not None:
            shares.setdefault(load.key.task, []).append(min(load.busy, 1.0))
    found: dict[Side, float] = {}
    for task, each in shares.items():
        side = side_of(job, task)
        found[side] = max(found.get(side, 0.0), round(sum(each) / len(each), 4))
    return found


Limit = tuple[Side | None, str | None, str | None, str]


def _limit(job: JobQueues, lag: Trend | None, hidden: HiddenRecords | None) -> Limit:
    known = find_spells(job)
    spells = [spell for spell in known if not spell.is_ordinary]
    blocked = blocked_sessions(job)
    server = unreachable_at_end(job, UNREACHED_S)
    if server is not None:
        return "source", None, f"Kafka at {server}", f"clients cannot reach Kafka at {server}"
    if blocked is not None and blocked.ongoing:
        return _limit_of_database(job, blocked, spells[0].task if spells else None)
    if spells:
        return _limit_of(job, spells[0])
    if hidden is not None:
        return _limit_by_transaction(job, hidden.source)
    if lag is not None and is_falling_behind(lag, BEHIND_S) and not has_back_pressured_sources(job):
        return _limit_of_source(job, lag)
    if lag is not None and direction_of(lag, BEHIND_S) == "shrinking":
        return None, None, None, "the job is catching up with its backlog"
    if has_back_pressured_sources(job):
        return None, None, None, _sources_wait_for(known)
    return None, None, None, "the job keeps up with its sources"


def _sources_wait_for(spells: Sequence[Spell]) -> str:
    for spell in spells:
        if spell.state is State.ONGOING:
            name = fmt.shorten(spell.task)
            return f"sources wait for {name}, which is normal while a job starts or catches up"
    return "sources wait for downstream tasks, but no single task stands out"


def _limit_of_database(job: JobQueues, blocked: LockedSessions, task: str | None) -> Limit:
    count = f"{blocked.waiting} of {fmt.plural(blocked.sessions, 'session')} wait for a lock"
    if blocked.refused:
        count = f"{fmt.plural(blocked.refused, 'write')} failed to get a lock"
    name = service_name(job, blocked.system)
    return "sink", task, name, f"{name} blocks the sink: {count}"


def _limit_of(job: JobQueues, spell: Spell) -> Limit:
    """Return the side of the task where back pressure starts, and the system that its threads wait for."""
    name = fmt.shorten(spell.task)
    side = side_of(job, spell.task)
    service = slow_service(job, spell)
    if service is not None:
        text = f"{name} waits for {service.name}: {service.why}"
        return "processing" if service.lookup else "sink", spell.task, service.name, text
    code = spell.culprit.code
    component = None
    if code is not None and code.cause in ("slow-external-call", "connection-pool-exhausted"):
        component = components().get(code.stack.component or "")
    if component is not None:
        return side, spell.task, component.what, f"{name} waits for {component.what}"
    if side == "sink":
        return (
            side,
            spell.task,
            None,
            f"{name} limits the job: the sink, or the system behind it, is slow",
        )
    return side, spell.task, None, f"{name} limits the job"


def _limit_of_source(job: JobQueues, lag: Trend) -> Limit:
    loads = active_loads(job, lag.of) if lag.of in job.topology.sources else []
    if not loads:
        loads = [each for task in job.topology.sources for each in active_loads(job, task)]
    if not loads:
        return "source", None, None, f"{lag.of} falls behind"
    task = loads[0].key.task
    name = fmt.shorten(task)
    known = [load.busy for load in loads if load.measured and load.busy is not None]
    if known and max(known) >= BUSY:
        return "source", task, None, f"{name} limits the job: it cannot read faster"
    system = source_system(job, task)
    throttled = fetch_throttle_delay(job, task)
    if throttled is not None:
        return "source", task, system, f"{name} waits for {system}: {throttle_clause(throttled)}"
    if known and sees_no_lag(job, task, lag):
        return _limit_by_transaction(job, task)
    if known:
        return "source", task, system, f"{name} waits for its records: {system} is slow"
    return "source", task, None, f"{name} falls behind"


def _limit_by_transaction(job: JobQueues, source: str) -> Limit:
    system = source_system(job, source)
    text = f"{fmt.shorten(source)} waits behind an open transaction in {system}"
    return "source", source, system, text
