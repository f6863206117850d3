"""Builds the steps of the client, the JobManager process and the workers that precede any job."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any, Final

from flowdiag.analyses.model.keys import Process
from flowdiag.analyses.startup.assemble.steps import step_of_workers
from flowdiag.analyses.startup.assemble.timeline import Row, ref_of
from flowdiag.analyses.startup.facts import Step, Trouble, Worker
from flowdiag.parsers.rows import Event

_MINUTE_US: Final = 60_000_000


def cluster_steps(marks: Sequence[Row]) -> Iterator[Step]:
    """Yield the steps of the last JobManager start in the input: client, entry point, RPC, REST and leadership."""
    yield from _client_step(marks)
    yield from _allocation_step(marks)
    managers = _manager_starts(marks)
    if not managers:
        return
    entry = managers[-1]
    process = itemgetter("source", "owner")
    after = [r for r in marks if process(r) == process(entry) and r["time_us"] >= entry["time_us"]]
    previous = entry
    for name in ("rpc", "rest", "leadership"):
        found = [row for row in after if _ends_step(name, row)]
        if not found:
            continue
        # Components of the same start follow within a minute of each other.
        last = found[0]
        for row in found[1:]:
            if name == "leadership" and row["time_us"] - last["time_us"] < _MINUTE_US:
                last = row
        later = max(previous, last, key=_time_us)
        yield Step(
            name=name,
            started_us=previous["time_us"],
            ended_us=later["time_us"],
            refs=(ref_of(last),),
        )
        previous = later


_time_us: Final = itemgetter("time_us")


def _step_between(name: str, begin: Row, end: Row | None, last_us: int) -> Step:
    """Return a step from one record to another, or until `last_us` if it has no end."""
    return Step(
        name=name,
        started_us=begin["time_us"],
        ended_us=end["time_us"] if end is not None else None,
        held_us=last_us if end is None else None,
        refs=(ref_of(begin),),
    )


def _first_record(rows: Iterable[Row], templates: Collection[str], since_us: int = 0) -> Row | None:
    """Return the first record of the given templates at or after a time."""
    found = (row for row in rows if row["template"] in templates and row["time_us"] >= since_us)
    return next(found, None)


def _allocation_step(marks: Sequence[Row]) -> Iterator[Step]:
    """Yield the step in which the client waits for the cluster of an application."""
    client = [row for row in marks if (row["template"] or "").startswith("client-")]
    begin = _first_record(client, ("client-application-submitted",))
    if begin is not None:
        ends = ("client-deployed", "client-kubernetes-deployed")
        end = _first_record(client, ends, begin["time_us"])
        yield _step_between("cluster-allocation", begin, end, client[-1]["time_us"])


def _manager_starts(marks: Iterable[Row]) -> list[Row]:
    """Return the starts of JobManager processes."""
    return [
        row
        for row in marks
        if row["event"] == Event.PROCESS_STARTED
        and re.search(
            r"entrypoint|jobmanager", (row["fields"] or {}).get("component", ""), re.IGNORECASE
        )
    ]


def manager_restarts(marks: Iterable[Row], processes: Iterable[Process]) -> Iterator[Trouble]:
    """Yield the JobManager starts after which no earlier JobManager logs anything. These are restarts.

    A standby that starts next to a leader is not a restart.
    """
    heard = {(p.source, p.label): p.last_us or 0 for p in processes}
    starts = _manager_starts(marks)
    for row in starts:
        mine = (row["source"], row["owner"])
        if any(
            other["cluster"] == row["cluster"]
            and other["time_us"] < row["time_us"]
            and (theirs == mine or heard.get(theirs, 0) <= row["time_us"])
            for other in starts
            for theirs in ((other["source"], other["owner"]),)
        ):
            yield Trouble(
                kind=MANAGER_RESTARTED,
                count=1,
                first_us=row["time_us"],
                last_us=row["time_us"],
                role="jobmanager",
                times=(row["time_us"],),
                source=row["source"],
                ref=ref_of(row),
            )


MANAGER_RESTARTED: Final = "jobmanager-restarted"
"""Trouble that no message reports: a JobManager process that replaced an earlier one."""


_OF_CLUSTER: Final = ("jobmanager", "taskmanager")
_SENT: Final = ("client-job-sent", "client-job-submitted", "client-application-submitted")


def _client_step(marks: Sequence[Row]) -> Iterator[Step]:
    """Yield the client's step before anything reaches the cluster. It consists mainly of the job's main()."""
    # If a process of the cluster writes to the same log, the JobManager runs main().
    clusters = {row["source"] for row in marks if row["role"] in _OF_CLUSTER}
    own = [row for row in marks if row["source"] not in clusters]
    begin = _first_record(own, ("client-command", "client-program-started"))
    if begin is None:
        return
    sent = (
        row
        for row in marks
        if row["time_us"] >= begin["time_us"]
        and row["role"] not in _OF_CLUSTER
        and (row["event"] == Event.JOB_SUBMITTED or row["template"] in _SENT)
    )
    last_us = max(row["time_us"] for row in marks if row["source"] == begin["source"])
    yield _step_between("client", begin, next(sent, None), last_us)


def _ends_step(step: str, row: Row) -> bool:
    """Return whether a record ends this step of the entry point."""
    if step == "rpc":
        return bool(row["template"] == "actor-system")
    if step == "rest":
        return row["template"] in ("rest-endpoint", "web-frontend")
    granted = row["event"] == Event.LEADERSHIP and row["template"] in _GRANTED
    return granted and not row["job_id"]


_GRANTED: Final = ("leadership-of-job", "leadership-session", "leadership-granted")


def operator_step(rows: Iterable[Row]) -> Iterator[Step]:
    """Yield the step from the Kubernetes Operator's deployment to RUNNING, taken from the operator's log."""
    events = sorted(
        (
            row
            for row in rows
            if row["what"] == "trouble" and row["template"] == "operator-event" and row["first_us"]
        ),
        key=lambda row: int(row["first_us"]),
    )
    begin = next((row for row in events if _field(row, "reason") == "SUBMIT"), None)
    if begin is None:
        return
    changes = [row for row in events if _field(row, "reason") == "JOBSTATUSCHANGED"]
    ran = [row for row in changes if _field(row, "said").rstrip().endswith("to RUNNING")]
    ran_us = next((r["first_us"] for r in ran if r["first_us"] >= begin["first_us"]), None)
    yield Step(
        name="operator",
        started_us=begin["first_us"],
        ended_us=ran_us,
        held_us=events[-1]["last_us"] if ran_us is None else None,
        refs=(ref_of(begin),),
    )


def _field(row: Row, name: str) -> str:
    return str((row["fields"] or {}).get(name, ""))


def registration(workers: Iterable[Worker]) -> Iterator[Step]:
    """Yield the step from each TaskManager's start to its registration, taken from its own log."""
    begun = [w for w in workers if w.started_us is not None and w.registered_us is not None]
    spans = [(w, w.started_us or 0, w.registered_us) for w in begun]
    yield from step_of_workers("registration", [s for s in spans if (s[2] or 0) >= s[1]], None)


_ENDED: Final = (
    "worker-terminated",
    "worker-failed",
    "worker-killed-for-memory",
    "worker-never-registered",
    "yarn-container-failed",
    "yarn-container-ended",
)


def workers_of(marks: Sequence[Row]) -> tuple[Worker, ...]:
    """Return TaskManagers that were requested, started, registered or ended, by name."""
    known: dict[str, dict[str, Any]] = defaultdict(dict)
    for row in marks:
        name = row["taskmanager"]
        if row["event"] == Event.PROCESS_STARTED:
            name = row["writer_taskmanager"]
            if name:
                known[name].setdefault("started_us", row["time_us"])
            continue
        if not name or row["event"] not in (
            Event.WORKER,
            Event.TASKMANAGER_REGISTERED,
            Event.RESOURCE_FAILURE,
            Event.TASKMANAGER_LOST,
        ):
            continue
        entry = known[name]
        if row["host"]:
            entry.setdefault("host", row["host"])
        template = row["template"] or ""
        if row["event"] == Event.TASKMANAGER_REGISTERED or template == "worker-registered":
            entry.setdefault("registered_us", row["time_us"])
            entry.setdefault("ref", ref_of(row))
        elif template in ("worker-granted", "pod-creating", "yarn-taskmanager-starting"):
            entry.setdefault("requested_us", row["time_us"])
            entry.setdefault("ref", ref_of(row))
        elif template in _ENDED:
            entry.setdefault("ended_us", row["time_us"])
            entry.setdefault("diagnostics", row["cause"])
            entry["ref"] = ref_of(row)
    return tuple(
        Worker(name=name, **entry)
        for name, entry in sorted(known.items())
        if entry.keys() & {"registered_us", "requested_us", "ended_us", "started_us"}
    )


def requests_of(marks: Sequence[Row]) -> list[Row]:
    """Return requests for workers. Up to Flink 1.11, only the resource manager logs them."""
    for template in ("worker-requested", "yarn-container-requested", "pod-creating"):
        found = [row for row in marks if row["template"] == template]
        if found:
            return found
    return []


def pending_of(requests: Sequence[Row], workers: Sequence[Worker]) -> int:
    """Count the requests that no worker has fulfilled."""
    begin = requests[0]["time_us"]
    settled = sum(
        1
        for worker in workers
        if (worker.registered_us or 0) >= begin or (worker.ended_us or 0) >= begin
    )
    return max(0, len(requests) - settled)


def resource_provider(marks: Sequence[Row]) -> str | None:
    """Return the resource provider: `yarn`, `kubernetes` or `standalone`."""
    for row in marks:
        text = (row["fields"] or {}).get("component", "").lower()
        template = row["template"] or ""
        if "yarn" in text or template.startswith(("yarn-", "client-application")):
            return "yarn"
        if "kubernetes" in text or template.startswith("pod-"):
            return "kubernetes"
        if "standalone" in text:
            return "standalone"
    return None
