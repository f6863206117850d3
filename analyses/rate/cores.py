"""Number of tasks that an application can run concurrently."""

from __future__ import annotations

import re
from typing import Final

from flowdiag.analyses.rate.facts import ApplicationFacts

_LOCAL: Final = re.compile(r"local\[(\d{1,5})(?:,\s*\d{1,5})?\]")
_CLUSTER: Final = re.compile(r"local-cluster\[(\d{1,5}),\s*(\d{1,5}),\s*\d{1,9}\]")


def cores_of(app: ApplicationFacts) -> int | None:
    """Return the cores of the executors alive at the end, by `spark.task.cpus`; None if unknown.

    Each receiver holds one while the application runs: see `free_cores`.
    """
    alive = [one.cores for one in app.executors if one.removed_us is None and one.cores is not None]
    total = sum(alive)
    settings = app.settings
    if not total:
        master = settings.get("spark.master", "")
        if master == "local":
            total = 1
        elif found := _LOCAL.fullmatch(master):
            total = int(found[1])
        elif found := _CLUSTER.fullmatch(master):
            total = int(found[1]) * int(found[2])
        else:
            counts = (
                settings.get("spark.executor.instances"),
                settings.get("spark.executor.cores"),
            )
            numbers = [int(n) for n in counts if n is not None and n.isdecimal() and len(n) < 6]
            total = numbers[0] * numbers[1] if len(numbers) == 2 else 0
    each = settings.get("spark.task.cpus", "1")
    per_task = int(each) if each.isdecimal() and 0 < int(each) < 10_000 else 1
    return total // per_task or None


def free_cores(app: ApplicationFacts) -> int | None:
    """Return the cores available for batches: receivers hold one each."""
    cores = cores_of(app)
    if cores is None:
        return None
    streams = {r.fields.get("stream") for r in app.receivers if r.fields.get("stream")}
    return max(1, cores - len(streams))
