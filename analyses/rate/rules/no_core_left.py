"""No core is there for the batches.

What it reports
---------------
Receivers that hold every core, so that no batch with records can run; or Spark's own word that no executor
takes a job.

Why it matters
--------------
Nothing is processed, however little comes in, and what receivers store fills the memory.

How it decides
--------------
A receiver is a task that never ends: each holds one core. As many streams with a receiver as there are cores,
and `waiting` batches without an end, are the proof (executors of the event log or of the driver's log, else
`local[N]`), where no more than `ran` batches ended before the application was stopped: empty ones need no core. Otherwise `Initial job has not accepted any resources`, which Spark repeats every fifteen seconds:
it is ongoing where no batch or trigger ended after the last of these lines, and a remark on a slow start where
one did. `pods ... is forbidden: exceeded quota` says why there is none on Kubernetes.

What to do
----------
More cores than receivers, `local[2]` at least; or ask for no more than workers have: cores and memory of an
executor, and what other applications hold.

False alarms
------------
Executors that came later, where the input does not tell of them.
"""

from __future__ import annotations

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.cores import cores_of


class Starved(h.Limits):
    """What RT313 compares with."""

    waiting: float = h.limit(3, "batches", "without an end: one or two wait at any start")
    ran: float = h.limit(
        h.defaults.COLD, "batches", "with an end: the first ones are empty, and run nothing"
    )


def judge(assessed: h.Assessed, limits: Starved) -> h.Iterator[h.Finding]:
    """At most one finding per application."""
    app = assessed.app
    cores = cores_of(app)
    holding = _holding(app)
    refused = [record for record in app.incidents if record.template == "no-resources"]
    waiting = h.batches.unfinished_batches(app)
    held = cores is not None and len(holding) >= cores and len(waiting) >= limits.waiting
    if held and len(_ran(app)) <= limits.ran:
        yield _held(assessed, [*holding.values()], waiting)
    elif refused:
        yield _refused(assessed, refused)


def _holding(app: h.ApplicationFacts) -> dict[str, h.Record]:
    """Where each receiver was started, by stream."""
    return {
        stream: record
        for record in reversed(app.receivers)
        if record.what == "started" and (stream := record.fields.get("stream"))
    }


def _ran(app: h.ApplicationFacts) -> list[h.Batch]:
    """The batches that ended while nobody stopped the application."""
    stopped = h.batches.stop_us(app)
    return [b for b in app.completed if stopped is None or (b.end_ms or 0) * 1000 < stopped]


def _held(assessed: h.Assessed, holding: list[h.Record], waiting: h.Sequence[h.Batch]) -> h.Finding:
    cores = cores_of(assessed.app) or 0
    receivers, there = h.fmt.plural(len(holding), "receiver"), h.fmt.plural(cores, "core")
    takes = "takes" if len(holding) == 1 else "take"
    told: list[h.Record | h.Batch] = [*holding, *waiting]
    return h.application_finding(
        assessed,
        severity=h.Severity.CRITICAL,
        title=f"{receivers} {takes} all there is, {there}: none is left for the batches, and {len(waiting)} wait",
        why=f"{receivers} {takes} {there}, and none is left for batches",
        cause="no-core-left",
        rank=h.Rank.FATAL,
        first_us=min((r.time_us for r in holding if r.time_us), default=None),
        count=len(waiting),
        measurements=(
            h.measurement("receivers", len(holding), "receivers"),
            h.measurement("cores", cores, "cores"),
            h.measurement("waiting-batches", len(waiting), "batches"),
        ),
        evidence=h.evidence_of(told),
        actions=h.remedies("no-core-left", assessed.app, "more", least=str(len(holding) + 1)),
    )


def _refused(assessed: h.Assessed, refused: list[h.Record]) -> h.Finding:
    app = assessed.app
    last = max(record.time_us or 0 for record in refused)
    ends = [b.end_ms * 1000 for b in app.completed if b.end_ms is not None]
    ends += [
        trigger.time_us + (trigger.duration_ms or 0) * 1000
        for query in app.queries
        for trigger in query.triggers
    ]
    over = any(end > last for end in ends)
    known = [one for one in app.executors if one.removed_us is None]
    there = (
        f"{h.fmt.plural(len(known), 'executor')} with {h.fmt.plural(cores_of(app) or 0, 'core')}"
    )
    told = f"; {there} {'are' if len(known) > 1 else 'is'} there" if known else ""
    over_quota = [record for record in app.incidents if record.template == "pods-over-quota"]
    told += _forbidden(over_quota)
    return h.application_finding(
        assessed,
        severity=h.Severity.INFO if over else h.Severity.CRITICAL,
        state=h.State.RECOVERED if over else h.State.ONGOING,
        title=f"{h.fmt.plural(len(refused), 'time')} no executor took a job"
        + (", until one did" if over else f"{told}{_wanted(app)}"),
        why=f"no executor takes its jobs{told}{_wanted(app)}",
        explain="The cluster had nothing to give yet." if over else h.explanation("no-core-left"),
        cause=None if over else "no-core-left",
        rank=h.Rank.CONSEQUENCE if over else h.Rank.FATAL,
        first_us=min((r.time_us for r in refused if r.time_us), default=None),
        last_us=last or None,
        count=len(refused),
        measurements=(h.measurement("refused", len(refused), "times"),),
        evidence=h.evidence_of([*refused[:4], *over_quota[-4:]] if over_quota else refused),
        evidence_total=len(refused) + len(over_quota),
        actions=h.remedies("no-core-left", app, "quota", quota=over_quota[-1].fields["quota"])
        if over_quota
        else h.remedies("no-core-left", app, "less"),
    )


def _forbidden(over_quota: list[h.Record]) -> str:
    """What Kubernetes says of the pods that it does not let the driver start."""
    if not over_quota:
        return ""
    said = {name: text.rstrip(".,") for name, text in over_quota[-1].fields.items()}
    return (
        f"; the quota {said['quota']} of the namespace forbids executor pods: requested {said['requested']}, "
        f"used {said['used']}, limited {said['limited']}"
    )


def _wanted(app: h.ApplicationFacts) -> str:
    """What an executor is to have, as far as the configuration says."""
    cores = app.settings.get("spark.executor.cores")
    memory = app.settings.get("spark.executor.memory")
    asked = [f"{cores} cores" if cores else None, f"{memory} of memory" if memory else None]
    told = " and ".join(one for one in asked if one)
    return f"; each is to have {told}" if told else ""


RULE = h.Rule("RT313", judge, Starved, causes=("no-core-left",))
