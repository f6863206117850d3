"""The commits of a query's state and metadata: their duration, their largest part, and the remedies."""

from __future__ import annotations

from statistics import median

from flowdiag.analyses.rate import helpers as h
from flowdiag.analyses.rate.cores import cores_of
from flowdiag.analyses.rate.state_store import rows_per_partition


def time_of_commits(
    late: h.Sequence[h.Trigger], kind: str, cores: int | None
) -> tuple[float, float]:
    """Return the median duration of commits (`state` or `metadata`) in ms, and their median share of the triggers."""
    times = [t.metadata_ms if kind == "metadata" else t.commit_ms(cores) for t in late]
    # Commits overlap with other tasks, so their sum may exceed the trigger.
    shares = [min(1.0, ms / (t.duration_ms or 1)) for ms, t in zip(times, late, strict=True)]
    return median(times), median(shares)


def largest_part_text(largest: tuple[str, str | None, float] | None) -> str:
    if largest is None:
        return ""
    text, _, share = largest
    return f" {text[:1].upper()}{text[1:]} takes {h.fmt.percent(share)} of the commits."


def commit_remedies(
    app: h.ApplicationFacts,
    last: h.Trigger,
    largest: tuple[str, str | None, float] | None,
    *,
    rows: float,
    more: float,
) -> tuple[h.Action, ...]:
    """Return remedies for many small partitions, if there are any, then those for the largest part of the commits."""
    cores = cores_of(app)
    rocksdb = any(operator.get("rocksdb") for operator in last.state)
    remedy = (largest[1] if largest else "changelog") if rocksdb else "rocksdb"
    actions = (
        h.remedies("slow-state-commits", app, remedy)
        if remedy
        else h.remedies("slow-metadata-writes", app, "location")
    )
    most = max((operator.get("partitions") or 0 for operator in last.state), default=0)
    each = rows_per_partition(last.state)
    if cores and each is not None and each < rows and most >= more * cores:
        return (*h.remedies("fixed-cost", app, "fewer-tasks", cores=str(cores)), *actions)
    return actions
