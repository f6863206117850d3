"""Workers were asked for and did not come.

What it reports
---------------
Requests to YARN or Kubernetes that are still open, containers that were killed or ended before they
registered, workers that never registered.

Why it matters
--------------
The job waits for slots, in silence, until the request times out (five minutes by default).

How it decides
--------------
Requests are counted against the workers that registered or ended; what the cluster says about an ended
container is quoted.

What to do
----------
Nothing granted: the queue, the quota and the size asked for against the largest container. Granted and
ended: the diagnostics, and the worker's own log. Started and never registered: the address of the
JobManager, from the worker's host.

False alarms
------------
A log that ends while a container is being started.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flowdiag.analyses.finding import (
    Action,
    Finding,
    Inconclusive,
    Measurement,
    Rank,
    Severity,
    State,
    Subject,
    cite,
)
from flowdiag.analyses.flink import judging as j
from flowdiag.analyses.keys import Ref
from flowdiag.analyses.rule import Limits, Rule, limit
from flowdiag.analyses.startup.facts import StartupFacts, Worker


class MissingWorkersLimits(Limits):
    """What ST202 compares with."""

    wait: float = limit(60, "s", "containers of a cluster with room start within a minute")


def judge(facts: StartupFacts, limits: MissingWorkersLimits) -> Iterator[Finding | Inconclusive]:
    """One finding for open requests, one for workers that ended before they registered."""
    waited = None
    if facts.first_request_us is not None and facts.last_us is not None:
        waited = (facts.last_us - facts.first_request_us) / 1000
    if facts.wanted_workers and waited is not None and waited >= limits.wait * 1000:
        yield _open(facts, waited)
    dead = [w for w in facts.workers if w.ended_us is not None and w.registered_us is None]
    if dead:
        yield _dead(facts, dead)


def _running(facts: StartupFacts) -> bool:
    """Whether every job runs at the end."""
    return bool(facts.jobs) and all(
        job.starts and job.starts[-1].running_us is not None for job in facts.jobs
    )


def _open(facts: StartupFacts, waited: float) -> Finding:
    wanted = facts.wanted_workers or 0
    granted = [
        w for w in facts.workers if w.requested_us and not w.registered_us and not w.ended_us
    ]
    what = "granted and never registered" if len(granted) >= wanted else "not granted"
    held = not _running(facts)
    refused, refusal_refs = _refusal(facts)
    where = {"yarn": "YARN", "kubernetes": "Kubernetes"}.get(facts.mode or "", "the cluster")
    return Finding(
        job=facts.jobs[0].job.key if len(facts.jobs) == 1 else None,
        severity=Severity.CRITICAL if held else Severity.WARNING,
        state=State.ONGOING,
        subject=Subject(kind="process"),
        title=f"{j.count_text(wanted, 'worker')} {what} for {j.duration_text(waited)}"
        + (f": {j.shorten(refused, 90)}" if refused else ""),
        why=refused or f"{wanted} requests to {where} are open, {what}",
        cause="no-container",
        rank=Rank.FATAL,
        first_us=facts.first_request_us,
        last_us=facts.last_us,
        count=wanted,
        explain=f"{where} has not answered these requests, or the workers cannot reach the JobManager.",
        measurements=(
            Measurement(name="open-requests", value=wanted, unit="workers"),
            Measurement(
                name="registered",
                value=sum(w.registered_us is not None for w in facts.workers),
                unit="workers",
            ),
        ),
        evidence=cite([*refusal_refs, (facts.last_request_ref, None)]),
        actions=(
            Action(
                text="Ask the cluster why: yarn application -status and the queue's free resources, or "
                "kubectl describe pod (Events); compare the size asked for with the largest allowed"
            ),
            Action(
                text="Ask for smaller workers, or for fewer",
                option="taskmanager.memory.process.size",
                restart_needed=True,
            ),
        ),
    )


def _refusal(facts: StartupFacts) -> tuple[str | None, list[tuple[Ref | None, int | None]]]:
    """What the resource manager says to the requests, where it says anything."""
    large = facts.of_kind("yarn-request-too-large")
    if large:
        values = large[-1].values
        said = f"{values.get('asked')} asked for, the largest container is {values.get('offered')}"
        return said, [(t.ref, t.first_us) for t in large[:3]]
    failed = [
        i
        for i in (*facts.common.incidents, *(i for job in facts.jobs for i in job.job.incidents))
        if i.text.get("template") == "worker-request-failed" and i.cause
    ]
    if failed:
        last = max(failed, key=lambda i: i.time_us or 0)
        return last.cause, [(i.ref, i.time_us) for i in failed[:3]]
    rate = facts.of_kind("worker-failure-rate")
    if rate:
        return f"too many failures: {rate[-1].values.get('rate')}", [(rate[-1].ref, None)]
    return None, []


def _dead(facts: StartupFacts, dead: list[Worker]) -> Finding:
    last = dead[-1]
    said = j.shorten(last.diagnostics or "no diagnostics", 120)
    return Finding(
        job=facts.jobs[0].job.key if len(facts.jobs) == 1 else None,
        severity=Severity.WARNING if _running(facts) else Severity.CRITICAL,
        state=State.RECOVERED if _running(facts) else State.ONGOING,
        subject=Subject(kind="taskmanager", taskmanager=last.name, host=last.host),
        title=f"{j.count_text(len(dead), 'worker')} ended before registering: {said}",
        why=f"{last.name}: {said}",
        cause="worker-failed",
        rank=Rank.ROOT_CAUSE,
        first_us=dead[0].ended_us,
        last_us=last.ended_us,
        count=len(dead),
        explain="The container was granted and ended before its TaskManager was known.",
        evidence=cite((worker.ref, worker.ended_us) for worker in dead[:8]),
        actions=(
            Action(text="Read the worker's own log (yarn logs, kubectl logs --previous)"),
            Action(text="Exit code 137 or 'physical memory': flowdiag memory with the same inputs"),
        ),
    )


RULE: Final = Rule("ST202", judge, MissingWorkersLimits, whole=True)
