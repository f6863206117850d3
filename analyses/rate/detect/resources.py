"""The executors, cores and quotas of an application."""

from __future__ import annotations

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.cores import cores_of


def ends_us(app: h.ApplicationFacts) -> h.Iterator[int]:
    """Yield the ends of batches and triggers."""
    yield from (b.end_ms * 1000 for b in app.completed if b.end_ms is not None)
    for query in app.queries:
        yield from (t.time_us + (t.duration_ms or 0) * 1000 for t in query.triggers)


def resources_text(app: h.ApplicationFacts, quotas: list[h.Record]) -> str:
    """Return clauses about the executors available, the quota, and the requested size."""
    text = ""
    if alive := [executor for executor in app.executors if executor.removed_us is None]:
        cores = h.fmt.plural(cores_of(app) or 0, "core")
        number = h.fmt.plural(len(alive), "executor is", "executors are")
        text += f"; {number} available with {cores}"
    if quotas:
        quota = {name: value.rstrip(".,") for name, value in quotas[-1].fields.items()}
        text += (
            f"; Kubernetes rejected pod {quota['pod']}: exceeded quota: {quota['quota']}, requested "
            f"{quota['requested']}, used {quota['used']}, limited {quota['limited']}"
        )
    cores_each = app.settings.get("spark.executor.cores")
    memory = app.settings.get("spark.executor.memory")
    sizes = (cores_each and f"{cores_each} cores", memory and f"{memory} of memory")
    if size := " and ".join(filter(None, sizes)):
        text += f"; each executor requests {size}"
    return text
