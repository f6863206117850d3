"""Number of tasks that an application can run concurrently."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from flowdiag.analyses.rate.facts import ApplicationFacts

_LOCAL: Final = re.compile(r"local\[(\d{1,5})(?:,\s*\d{1,5})?\]")
_CLUSTER: Final = re.compile(r"local-cluster\[(\d{1,5}),\s*(\d{1,5}),\s*\d{1,9}\]")


def cores_of(app: ApplicationFacts) -> int | None:
    """Return how many tasks the executors alive at the end can run, or None if unknown.

    Each receiver occupies one core (see `free_cores`).
    """
    alive = [one.cores for one in app.executors if one.removed_us is None and one.cores is not None]
    total = sum(alive)
    total = total or _configured_cores(app.settings)
    each = app.settings.get("spark.task.cpus", "1")
    per_task = int(each) if each.isdecimal() and 0 < int(each) < 10_000 else 1
    return total // per_task or None


def _configured_cores(settings: Mapping[str, str]) -> int:
    """Return the cores from the master URL or, if it has none, from the configured executors, or 0."""
    master = settings.get("spark.master", "")
    if master == "local":
        return 1
    if found := _LOCAL.fullmatch(master):
        return int(found[1])
    if found := _CLUSTER.fullmatch(master):
        return int(found[1]) * int(found[2])
    counts = (settings.get("spark.executor.instances"), settings.get("spark.executor.cores"))
    numbers = [int(n) for n in counts if n is not None and n.isdecimal() and len(n) < 6]
    return numbers[0] * numbers[1] if len(numbers) == 2 else 0


def free_cores(app: ApplicationFacts) -> int | None:
    """Return the cores that receivers leave for batches."""
    cores = cores_of(app)
    if cores is None:
        return None
    streams = {r.fields.get("stream") for r in app.receivers if r.fields.get("stream")}
    return max(1, cores - len(streams))
