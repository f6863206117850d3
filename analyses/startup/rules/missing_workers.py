"""Requested workers did not arrive.

What it reports
---------------
The rule reports worker requests that YARN or Kubernetes has not fulfilled. It also reports containers that
ended or were killed before they registered, and workers that started but never registered.

Why it matters
--------------
The job silently waits for slots until the request times out (five minutes by default).

How it decides
--------------
The rule assumes that a worker ended before it registered if the logs show neither its registration nor a task on
it. When the first request is at least `wait` old, the rule subtracts the workers that registered or ended from the
requests. The remaining requests are still open. If a container ended, the finding quotes the cluster's
diagnostics. The log of a client counts as well: "Deployment took more than 60 seconds" means that YARN has not
started the JobManager's container, unless a later line reports the deployed application.

What to do
----------
If the cluster granted nothing, check the queue and the quota, and compare the requested size with the
largest allowed container. If a container ended, check its diagnostics and the worker's own log. If a worker
started but never registered, check that its host can reach the JobManager's address.

False alarms
------------
The log may end while a container is still starting.
"""

from typing import Final

from flowdiag.analyses.flink.failures.silences import jobmanager_logged_until
from flowdiag.analyses.startup import helpers as h
from flowdiag.analyses.startup.detect.workers import (
    all_jobs_ran_after,
    all_jobs_run,
    never_registered,
    refusal_of,
)
from flowdiag.parsers.flink.failures import failure_kind


class Limits(h.Limits):
    wait: float = h.limit(
        60, "s", "minimum age of a request; with free capacity, containers start within a minute"
    )


def judge(facts: h.StartupFacts, limits: Limits) -> h.Iterator[h.Finding]:
    """Report open requests in one finding, and workers that ended before they registered in another."""
    running = all_jobs_run(facts)
    since, until = facts.first_request_us, facts.last_us
    if facts.requested_workers and since is not None and until is not None:
        waited = (jobmanager_logged_until(facts.common, since, until) - since) / 1000
        if waited >= limits.wait * 1000:
            yield _open(facts, facts.requested_workers, waited, running=running)
    if not running:
        yield from _undeployed_jobmanager_finding(facts)
    dead = never_registered(facts)
    begun = [w for w in dead if not w.is_only_ended]
    if begun:
        yield _dead_workers_finding(facts, begun, " before registering")
    # These may have registered before the log begins. CP303 reports those killed for their memory use.
    unbegun = [w for w in dead if w not in begun]
    if unbegun := [w for w in unbegun if failure_kind(w.diagnostics or "") != "out-of-memory"]:
        yield _dead_workers_finding(facts, unbegun, "")


def _open(facts: h.StartupFacts, requested: int, waited: float, *, running: bool) -> h.Finding:
    granted = sum(
        bool(w.requested_us and not w.registered_us and not w.ended_us) for w in facts.workers
    )
    what = "granted but not registered" if granted >= requested else "not granted"
    refused, refusals = refusal_of(facts)
    where = {"yarn": "YARN", "kubernetes": "Kubernetes"}.get(facts.mode or "", "the cluster")
    registered = sum(w.registered_us is not None for w in facts.workers)
    return h.cluster_finding(
        facts,
        ongoing=not running,
        state=h.State.ONGOING,  # requests remain open even if the job runs without them
        title=f"{h.fmt.plural(requested, 'worker')} {what} for {h.fmt.duration(waited)}"
        + (f": {h.fmt.shorten(refused, 90)}" if refused else ""),
        why=refused
        or f"{h.fmt.plural(requested, 'request')} to {where} {'is' if requested == 1 else 'are'} open, {what}",
        cause="no-container",
        rank=h.Rank.FATAL,
        first_us=facts.first_request_us,
        last_us=facts.last_us,
        count=requested,
        explain=h.explanation("no-container", where=where),
        measurements=(
            h.measurement("open-requests", requested, "workers"),
            h.measurement("registered-workers", registered, "workers"),
        ),
        evidence=h.cite([*refusals, (facts.last_request_ref, None)]),
        actions=h.remedies("no-container", h.UNKNOWN_JOB),
    )


def _undeployed_jobmanager_finding(facts: h.StartupFacts) -> h.Iterator[h.Finding]:
    """Yield a finding if YARN does not start the JobManager's container while the client waits for it."""
    slow, deployed = facts.of_kind("client-deployment-slow"), facts.of_kind("client-deployed")
    last_us = max((trouble.last_us or 0 for trouble in slow), default=0)
    if not slow or any((trouble.last_us or 0) >= last_us for trouble in deployed):
        return
    begun_us = min(trouble.first_us or last_us for trouble in slow)
    waited = int(slow[0].values.get("waited") or 60) * 1000 + (last_us - begun_us) / 1000
    what = f"YARN has not started the JobManager's container for {h.fmt.duration(waited)}"
    yield h.trouble_finding(
        facts,
        slow,
        ongoing=True,
        title=what,
        why=what,
        cause="no-container",
        rank=h.Rank.FATAL,
        explain="The application waits in its queue, or no node has room for the container.",
        measurements=(h.measurement("wait-time", waited, "ms"),),
        actions=h.remedies("no-container", h.UNKNOWN_JOB, "ask", "queue"),
    )


def _dead_workers_finding(facts: h.StartupFacts, dead: list[h.Worker], when: str) -> h.Finding:
    last = dead[-1]
    replaced = all_jobs_run(facts) or all_jobs_ran_after(facts, last.ended_us)
    reason = h.fmt.shorten(last.diagnostics or "no diagnostics", 120)
    return h.worker_finding(
        facts,
        last.name,
        last.host,
        ongoing=not replaced,
        title=f"{h.fmt.plural(len(dead), 'worker')} ended{when}: {reason}",
        why=reason if last.name in reason else f"{last.name}: {reason}",
        cause="worker-failed",
        rank=h.Rank.ROOT_CAUSE,
        first_us=dead[0].ended_us,
        last_us=last.ended_us,
        count=len(dead),
        evidence=h.cite((worker.ref, worker.ended_us) for worker in dead),
        actions=h.remedies("worker-failed", h.UNKNOWN_JOB),
    )


RULE: Final = h.Rule(
    "ST202",
    judge,
    Limits,
    whole=True,
    causes=("no-container", "worker-failed"),
    needs="starts",
    severity=h.Severity.CRITICAL,
)
