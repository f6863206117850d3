"""Builds the starts of each job and the steps of each start from measured rows, without Spark.

Start with `assemble_startup`. It may import the facts of this topic and of `flowdiag.analyses.flink`, but no rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from flowdiag.analyses.flink.failures.crises import kind_of
from flowdiag.analyses.flink.job import ClusterFacts
from flowdiag.analyses.model.keys import Ref
from flowdiag.analyses.startup.assemble.cluster import (
    cluster_steps,
    manager_restarts,
    operator_step,
    pending_of,
    registration,
    requests_of,
    resource_provider,
    workers_of,
)
from flowdiag.analyses.startup.assemble.starts import (
    SharedInput,
    by_job_id,
    incident_timeline,
    requests_timeline,
    starts_of,
)
from flowdiag.analyses.startup.assemble.timeline import Row, Timeline, ref_of
from flowdiag.analyses.startup.facts import HeavyCollection, StartupFacts, Trouble


def assemble_startup(rows: Sequence[Row], common: ClusterFacts) -> StartupFacts:
    """Return the facts of the topic.

    Args:
        rows: rows of the shared facts and of `measure.frames`.
        common: the result of `assemble` for the same rows.
    """
    marks = sorted(
        (row for row in rows if row["what"] == "milestone"),
        key=lambda row: (row["time_us"], row["source"], row["offset"]),
    )
    times = {row["attempt_id"]: row for row in rows if row["what"] == "times"}
    restores = sorted(
        (row for row in rows if row["what"] == "restore"), key=lambda row: int(row["first_us"])
    )
    workers = workers_of(marks)
    shared = SharedInput(
        common=common,
        alone=len(common.jobs) == 1,
        marks=marks,
        marks_of=by_job_id(marks),
        strays=incident_timeline(i for i in common.incidents if kind_of(i) is not None),
        restores=Timeline(restores, [row["first_us"] for row in restores]),
        requested=requests_timeline(workers),
    )
    requests = requests_of(marks)
    troubles = (*_troubles(rows), *manager_restarts(marks, common.processes))
    return StartupFacts(
        common=common,
        jobs=tuple(starts_of(job, times, shared) for job in common.jobs),
        workers=workers,
        cluster_steps=(
            *operator_step(rows),
            *cluster_steps(marks),
            *registration(workers),
        ),
        requested_workers=pending_of(requests, workers) if requests else None,
        first_request_us=requests[0]["time_us"] if requests else None,
        last_request_ref=ref_of(requests[-1]) if requests else None,
        last_us=_last_us(marks, common),
        mode=resource_provider(marks),
        troubles=tuple(sorted(troubles, key=_place)),
        accepted_us=_acceptance_times(marks),
        collecting=tuple(_collecting(rows)),
    )


def _place(trouble: Trouble) -> tuple[int, Ref]:
    return trouble.first_us or 0, trouble.ref or Ref(0, 0)


def _last_us(marks: Iterable[Row], common: ClusterFacts) -> int | None:
    """Return the time of the last record of any process."""
    times_us = [row["time_us"] for row in marks]
    times_us += [process.last_us for process in common.processes if process.last_us is not None]
    return max(times_us, default=None)


def _acceptance_times(marks: Iterable[Row]) -> dict[int, int]:
    """Return, for each client's log, when it reports that a job was accepted."""
    found: dict[int, int] = {}
    for row in marks:
        if row["role"] not in ("jobmanager", "taskmanager") and (
            row["template"] in ("client-job-accepted", "client-job-submitted")
        ):
            found.setdefault(row["source"], row["time_us"])
    return found


def _troubles(rows: Iterable[Row]) -> Iterator[Trouble]:
    for row in rows:
        if row["what"] != "trouble":
            continue
        yield Trouble(
            kind=row["template"],
            count=row["n"],
            first_us=row["first_us"],
            last_us=row["last_us"],
            role=row["role"],
            job_id=row["job_id"],
            taskmanager=row["writer_taskmanager"],
            host=row["writer_host"],
            peer=row["peer"] or None,
            address=row["address"] or None,
            cause=row["cause"],
            size=row["bytes"],
            values=dict(row["fields"] or {}),
            resource=_resource(row["thread"])
            if row["template"].startswith(("operator-", "autoscaler-"))
            else None,
            times=tuple(row["times"] or ()),
            source=row["source"],
            ref=ref_of(row),
        )


_RESOURCE: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}[./][a-z0-9][a-z0-9.-]{0,252}")


def _resource(thread: str | None) -> str | None:
    """Return `namespace/name` from the operator's default log layout, or None. Other layouts print the thread there.

    >>> _resource("default.orders"), _resource("ReconcilerExecutor-flinkdeploymentcontroller-50")
    ('default/orders', None)
    """
    if thread is None or _RESOURCE.fullmatch(thread) is None:
        return None
    return thread if "/" in thread else thread.replace(".", "/", 1)


def _collecting(rows: Iterable[Row]) -> Iterator[HeavyCollection]:
    for row in rows:
        if row["what"] == "collections":
            yield HeavyCollection(
                taskmanager=row["taskmanager"],
                host=row["host"],
                first_us=row["first_us"],
                last_us=row["last_us"],
                gc_ms=row["n"],
                span_ms=row["bytes"],
                ref=ref_of(row),
            )
