"""No core is available for batches.

What it reports
---------------
Receivers that occupy every core, so that no batch with records can run, or jobs that wait because the
cluster gives them no resources.

Why it matters
--------------
No records are processed, however low the rate is. Received blocks fill up the memory.

How it decides
--------------
A receiver runs as a task that never ends, so each receiver occupies one core. Receivers are the cause if there are at
least as many receivers as cores, and at least `waiting-batches` batches are unfinished. The number of cores comes from
the executors in the logs, or else from `local[N]`. Empty batches need no core, so up to `completed-batches` batches may
have completed before the application stopped.

Otherwise, the rule looks for `Initial job has not accepted any resources`, which Spark repeats every 15 seconds. If a
batch or trigger ended, or an executor registered, after the last of these lines, the finding is a note about a slow
start. Otherwise the finding is ongoing. On Kubernetes, `pods ... is forbidden: exceeded quota` explains why executors
are missing.

What to do
----------
Provide more cores than receivers, for example at least `local[2]` for one receiver. If executors do not
start, lower the cores and memory of an executor until a worker has enough of both free.

False alarms
------------
If executors started later and the logs do not show their start, the rule counts too few cores.
"""

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.cores import cores_of
from flowdiag.analyses.rate.detect.resources import ends_us, resources_text


class Limits(h.Limits):
    waiting_batches: float = h.limit(
        3, "batches", "minimum number of unfinished batches; one or two wait at every start"
    )
    completed_batches: float = h.limit(
        h.defaults.COLD, "batches", "maximum number of completed batches; the first are often empty"
    )


def judge(assessed: h.AssessedApplication, limits: Limits) -> h.Iterator[h.Finding]:
    """Yield at most one finding per application."""
    app, cores = assessed.app, cores_of(assessed.app)
    receivers = {
        stream: record
        for record in reversed(app.receivers)
        if record.what == "started" and (stream := record.fields.get("stream"))
    }
    waiting, stopped = h.batches.unfinished_batches(app), app.stopped_us
    ran = sum(stopped is None or (b.end_ms or 0) * 1000 < stopped for b in app.completed)
    refused = app.incidents_of("no-resources")
    held = cores is not None and len(receivers) >= cores and _is_waiting(app, waiting, limits)
    if held and ran <= limits.completed_batches:
        yield _held_by_receivers(assessed, [*receivers.values()], waiting)
    elif refused or (app.incidents_of("pods-over-quota") and not app.batches and not app.queries):
        yield _refused_finding(assessed, refused)


def _is_waiting(app: h.ApplicationFacts, waiting: h.Sequence[h.Batch], limits: Limits) -> bool:
    """Return whether enough batches wait. With a local master, which never gets more cores, one is enough."""
    is_local = app.settings.get("spark.master", "").startswith("local")
    return len(waiting) >= (1 if is_local else limits.waiting_batches)


def _held_by_receivers(
    assessed: h.AssessedApplication, starts: list[h.Record], waiting: h.Sequence[h.Batch]
) -> h.Finding:
    cores = cores_of(assessed.app) or 0
    receivers, available = h.fmt.plural(len(starts), "receiver"), h.fmt.plural(cores, "core")
    hold = "occupies" if len(starts) == 1 else "occupy"
    return h.application_finding(
        assessed,
        severity=h.Severity.CRITICAL,
        title=f"{receivers} {hold} every core ({available}): none is left for batches, so "
        f"{len(waiting)} wait",
        why=f"{receivers} {hold} every core ({available}), and none is left for batches",
        cause="no-core-left",
        rank=h.Rank.FATAL,
        first_us=min((r.time_us for r in starts if r.time_us), default=None),
        count=len(waiting),
        measurements=(
            h.measurement("receivers", len(starts), "receivers"),
            h.measurement("cores", cores, "cores"),
            h.measurement("waiting-batches", len(waiting), "batches"),
        ),
        evidence=(*h.evidence_of(starts), *h.evidence_of(waiting)),
        actions=h.remedies("no-core-left", assessed.app, "more", least=str(len(starts) + 1)),
    )


def _refused_finding(assessed: h.AssessedApplication, refused: list[h.Record]) -> h.Finding:
    app = assessed.app
    quotas = app.incidents_of("pods-over-quota")
    records = refused or quotas
    last = max(record.time_us or 0 for record in records)
    fields: h.SubjectFields = {
        "why": f"no executor accepts its jobs{resources_text(app, quotas)}",
        "first_us": min((r.time_us for r in records if r.time_us), default=None),
        "last_us": last or None,
        "count": len(records),
        "measurements": (h.measurement("refused", len(records), "times"),),
        "evidence": h.evidence_of([*refused[:4], *quotas[-4:]] if quotas else refused),
        "evidence_total": len(refused) + len(quotas),
        "actions": h.remedies("no-core-left", app, "quota", quota=quotas[-1].fields["quota"])
        if quotas
        else h.remedies("no-core-left", app, "less"),
    }
    times = h.fmt.plural(len(records), "time")
    who = "No executor accepted a job" if refused else "Kubernetes rejected executor pods"
    outcome: h.SubjectFields = {
        "severity": h.Severity.CRITICAL,
        "title": f"{who} ({times}){resources_text(app, quotas)}",
        "cause": "no-core-left",
        "rank": h.Rank.FATAL,
    }
    registered = (record.time_us or 0 for record in app.incidents_of("executor-registered"))
    if any(time > last for time in (*ends_us(app), *registered)):
        outcome = {
            "severity": h.Severity.INFO,
            "state": h.State.RECOVERED,
            "title": f"At first, no executor accepted a job ({times})",
            "explain": "The cluster did not have free resources yet.",
            "cause": None,
            "rank": h.Rank.CONSEQUENCE,
        }
    return h.application_finding(assessed, **(fields | outcome))


RULE = h.Rule(
    "RT313", judge, Limits, causes=("no-core-left",), needs="work", severity=h.Severity.CRITICAL
)
