"""Kubernetes or YARN cannot start a pod or container, or ends it for a reason other than memory.

What it reports
---------------
Pods that fit on no node, whose image cannot be pulled, whose volume cannot be mounted, or whose container exits
repeatedly. The rule also reports SparkApplications that their operator cannot start. It reports pods that were
preempted or killed by their liveness probe, and pods that their node evicted because it was short of disk space or
process IDs. On YARN, it reports applications that wait for their queue,
files that cannot be localized, failed application masters, and expired tokens. It also reports containers that were
preempted, killed, or lost with their node. The report quotes the message of the platform.

Why it matters
--------------
The job waits for the slots of a pod that never runs, and Flink's own logs do not show why.

How it decides
--------------
The rule reads the output of `kubectl` and of `flowdiag collect k8s`: the reasons for which containers wait, the status
of pods, and events. It leaves out pods that are scheduled later or whose image is pulled later. On YARN, it reads the
exit statuses and diagnostics in the answers of the ResourceManager and the timeline server. Containers that the
application released are no problem. A bad node counts only if a job lost a TaskManager there, or a pod there ended. In
cAdvisor's metrics, a pod has too little CPU if it is throttled in half of its CPU periods for five minutes. The problem
is over if the job runs again after the last event. CP303 reports containers that were killed for exceeding their memory
limit.

What to do
----------
Fix the error in the message. For an image, correct its name or its pull secret. For a pod that fits on no node,
request fewer resources. For a container that exits, read its log.

False alarms
------------
By default, Kubernetes keeps events for only one hour. A problem may be over although no later event shows it.
"""

from __future__ import annotations

import re
from typing import Final

from flowdiag.analyses.memory import helpers as h

IMAGE = ("an image that cannot be pulled", "deployment-failed", "image")
# A number at the start of each reason; the reasons contain commas within braces only.
_REFUSAL: Final = re.compile(r"(?:^|,) *([0-9]{1,6}) ([A-Za-z][^,{]{1,200}(?:\{[^}]{0,200}\})?)")
_BAD_NODES: Final = ("NodePressure", "NodeNotReady", "NodeUnhealthy", "NodeDecommissioned")
VOLUME = ("a volume that cannot be mounted", "deployment-failed", "events")
REASONS = {  # the words of the title, the cause and its remedy
    "FailedScheduling": ("no node to run on", "no-container", "ask"),
    "ImagePullBackOff": IMAGE,
    "ErrImagePull": IMAGE,
    "InvalidImageName": IMAGE,
    "CrashLoopBackOff": ("a container that exits repeatedly", "deployment-failed", "events"),
    "Evicted": ("been evicted by the node", "taskmanager-lost", "find-out"),
    "Preempted": ("been preempted", "taskmanager-lost", "share"),
    "NodeLost": ("lost its node", "taskmanager-lost", "find-out"),
    "NodeShutdown": ("lost its node", "taskmanager-lost", "find-out"),
    "ProbeKilled": ("been killed by its liveness probe", "taskmanager-lost", "find-out"),
    "FailedMount": VOLUME,
    "FailedAttachVolume": VOLUME,
    "Unscheduled": ("no container for its application master", "no-container", "queue"),
    "LocalizationFailed": ("files that YARN cannot copy to the node", "deployment-failed", "files"),
    "AttemptsExhausted": (
        "no attempt of its application master left",
        "deployment-failed",
        "attempts",
    ),
    "TokenExpired": ("an expired delegation token", "deployment-failed", "token"),
    "DisksFailed": ("lost the disks of its node", "taskmanager-lost", "find-out"),
    "Killed": ("been killed by a signal", "taskmanager-lost", "find-out"),
    "SubmissionFailed": ("not been started by its operator", "deployment-failed", "events"),
    "Throttled": ("too little CPU", "slow-taskmanager", "cpu"),
    "NodePressure": ("run short of a resource", "taskmanager-lost", "node"),
    "NodeNotReady": ("stopped responding", "taskmanager-lost", "node"),
    "NodeUnhealthy": ("become unhealthy", "taskmanager-lost", "find-out"),
    "NodeDecommissioned": ("been decommissioned", "taskmanager-lost", "find-out"),
}


def judge(facts: h.MemoryFacts, limits: h.Limits) -> h.Iterator[h.Finding]:
    """One finding for all pods with the same problem."""
    for (problem, cause, remedy), pods in _alike(facts).items():
        first = pods[0][0]
        # The message without the columns in front of it.
        message = first.text.partition(f"pod/{first.pod}")[2] if first.pod else ""
        message = " ".join((message or first.text.removeprefix(f"{first.reason}: ")).split())
        place = first.pod or "a pod"
        more = f" and {h.fmt.plural(len(pods) - 1, 'more pod')}" if len(pods) > 1 else ""
        kills = [kill for each in pods for kill in each]
        times = h.times_of(kills)
        recovered = h.has_recovered(facts, max(times, default=None), first.pod)
        yield h.place_finding(
            None,
            first.pod if not more and h.is_taskmanager(place) else None,
            None,
            title=f"{place}{more} {'have' if more else 'has'} {problem}: {h.fmt.shorten(message, 100)}",
            why=f"{place}{more}: {h.fmt.shorten(message, 120)}",
            cause=cause,
            rank=h.Rank.REPORTED_CAUSE,
            state=h.State.RECOVERED if recovered else h.State.ONGOING,
            first_us=min(times, default=None),
            last_us=max(times, default=None),
            count=sum(kill.count for kill in kills),
            explain="A job that needs the slots of this pod waits until the pod runs.",
            measurements=(h.measurement("pods", len(pods), "pods"), *_refusing_nodes(first)),
            evidence=tuple(h.Evidence(*kill.ref, kill.time_us) for kill in kills),
            ranked=True,
            actions=(h.remedy_action(cause, remedy, place=place),),
        )


def _alike(facts: h.MemoryFacts) -> dict[tuple[str, str, str], list[list[h.Kill]]]:
    """Group pods by problem, cause and remedy. The first failure of a pod explains its later ones."""
    alike: dict[tuple[str, str, str], list[list[h.Kill]]] = {}
    for pod, kills in _kills_by_pod(facts).items():
        problem, cause, remedy = REASONS[kills[0].reason]
        if cause == "taskmanager-lost" and h.runs_master(pod):
            cause, remedy = "jobmanager-lost", "survive"
        alike.setdefault((problem, cause, remedy), []).append(kills)
    return alike


def _kills_by_pod(facts: h.MemoryFacts) -> dict[str | None, list[h.Kill]]:
    by_pod: dict[str | None, list[h.Kill]] = {}
    out_of_memory = {kill.pod for kill in facts.kills if kill.for_memory}
    for kill in facts.kills:
        # A container that was killed for its memory waits for its next start: CP303 reports it.
        if (
            kill.waits
            and not (kill.reason == "CrashLoopBackOff" and kill.pod in out_of_memory)
            and (kill.reason not in _BAD_NODES or _is_host(facts, kill.pod))
        ):
            by_pod.setdefault(kill.pod, []).append(kill)
    return by_pod


def _is_host(facts: h.MemoryFacts, name: str | None) -> bool:
    """Return whether a job reports a failure on this host, or a pod there ended."""
    failed = any(name == i.host for job in facts.jobs for i in job.incidents)
    return failed or any(name == each.node != each.pod for each in facts.kills)


def _refusing_nodes(kill: h.Kill) -> h.Iterator[h.Measurement]:
    """Yield how many nodes refuse the pod, by reason: `0/5 nodes are available: 3 Insufficient memory, …`."""
    if kill.reason == "FailedScheduling":
        reasons = kill.text.partition("nodes are available:")[2].partition("preemption:")[0]
        for count, reason in _REFUSAL.findall(reasons):
            text = reason.removeprefix("node(s) ").strip(" .")
            yield h.measurement("refusing-nodes", int(count), "nodes", over=text)


RULE = h.Rule(
    "MM305",
    judge,
    whole=True,
    causes=(
        "deployment-failed",
        "no-container",
        "taskmanager-lost",
        "jobmanager-lost",
        "slow-taskmanager",
    ),
)
