"""Classifies pods and containers that wait or end."""

from __future__ import annotations

import re
from typing import Final

from flowdiag.analyses.memory import helpers as h

_IMAGE = ("an image that cannot be pulled", "deployment-failed", "image")


# The number at the start of each reason. Reasons contain commas only within braces.
_REFUSAL: Final = re.compile(r"(?:^|,) *([0-9]{1,6}) ([A-Za-z][^,{]{1,200}(?:\{[^}]{0,200}\})?)")
_BAD_NODES: Final = ("NodePressure", "NodeNotReady", "NodeUnhealthy", "NodeDecommissioned")


OF_OPERATORS: Final = ("OperatorWarning", "SavepointFailed", "JobFailed")


_VOLUME = ("a volume that cannot be mounted", "deployment-failed", "volume")


_REASONS = {  # end of the title, cause, remedy
    "FailedScheduling": ("no node to run on", "no-container", "ask"),
    "ImagePullBackOff": _IMAGE,
    "ErrImagePull": _IMAGE,
    "InvalidImageName": _IMAGE,
    "CrashLoopBackOff": ("a container that exits repeatedly", "deployment-failed", "last-log"),
    "Evicted": ("been evicted by the node", "taskmanager-lost", "find-out"),
    "Preempted": ("been preempted", "taskmanager-lost", "share"),
    "NodeLost": ("lost its node", "taskmanager-lost", "find-out"),
    "NodeShutdown": ("lost its node", "taskmanager-lost", "find-out"),
    "ProbeKilled": ("been killed by its liveness probe", "taskmanager-lost", "find-out"),
    "CreateContainerConfigError": (
        "a missing secret or config map",
        "deployment-failed",
        "volume",
    ),
    "FailedMount": _VOLUME,
    "FailedAttachVolume": _VOLUME,
    "Unscheduled": ("no container for its application master", "no-container", "queue"),
    "LocalizationFailed": ("files that YARN cannot copy to the node", "deployment-failed", "files"),
    "AttemptsExhausted": (
        "no attempts of its application master left",
        "deployment-failed",
        "attempts",
    ),
    "TokenExpired": ("an expired delegation token", "deployment-failed", "token"),
    "DisksFailed": ("lost its node's disks", "taskmanager-lost", "find-out"),
    "Killed": ("been killed by a signal", "taskmanager-lost", "find-out"),
    "SubmissionFailed": ("not been started by its operator", "deployment-failed", "operator-log"),
    "RolledBack": ("an upgrade that its operator rolled back", "deployment-failed", "rollback"),
    "OperatorWarning": ("a warning of its operator", "deployment-failed", "operator-log"),
    "SavepointFailed": ("a failed savepoint", "savepoint-failed", "cause"),
    "JobFailed": ("a failed job", "task-failure", "fix-error"),
    "DriverFailed": ("failed", "driver-killed", "look"),
    "ExecutorFailed": ("failed", "executor-lost", "reason"),
    "ClockProblem": ("a problem with its clock", "wrong-clock", "synchronize"),
    "Throttled": ("too little CPU", "slow-taskmanager", "cpu"),
    "NodePressure": ("run short of a resource", "taskmanager-lost", "node"),
    "NodeNotReady": ("stopped responding", "taskmanager-lost", "node"),
    "NodeUnhealthy": ("become unhealthy", "taskmanager-lost", "find-out"),
    "NodeDecommissioned": ("been decommissioned", "taskmanager-lost", "find-out"),
}


def pods_by_problem(facts: h.MemoryFacts) -> dict[tuple[str, str, str], list[list[h.Kill]]]:
    """Group pods by problem, cause and remedy. The first failure of a pod explains its later failures."""
    alike: dict[tuple[str, str, str], list[list[h.Kill]]] = {}
    for (pod, _), kills in _kills_by_pod(facts).items():
        problem, cause, remedy = _REASONS[kills[0].reason]
        if cause == "taskmanager-lost" and (lost := h.spark_loss(pod)) is not None:
            cause, remedy = lost, "evicted" if kills[0].reason == "Evicted" else "pod"
        elif cause == "taskmanager-lost" and h.runs_master(pod):
            cause, remedy = "jobmanager-lost", "survive"
        alike.setdefault((problem, cause, remedy), []).append(kills)
    return alike


def _kills_by_pod(facts: h.MemoryFacts) -> dict[tuple[str | None, str], list[h.Kill]]:
    """Group failures by pod. An operator reports independent problems, so each of its reasons is a group."""
    by_pod: dict[tuple[str | None, str], list[h.Kill]] = {}
    out_of_memory = {kill.pod for kill in facts.kills if kill.is_for_memory}
    for kill in facts.kills:
        # CP303 reports containers that were killed for their memory use and wait for their next start.
        if (
            kill.waits
            and not (kill.reason == "CrashLoopBackOff" and kill.pod in out_of_memory)
            and (kill.reason not in _BAD_NODES or _is_host(facts, kill.pod))
        ):
            reason = kill.text.partition(":")[0] if kill.reason in OF_OPERATORS else ""
            by_pod.setdefault((kill.pod, reason), []).append(kill)
    return by_pod


def _is_host(facts: h.MemoryFacts, name: str | None) -> bool:
    """Return whether a name is a host: a job reports a failure there, or a pod ended there."""
    failed = any(name == i.host for job in facts.jobs for i in job.incidents)
    return failed or any(name == each.node != each.pod for each in facts.kills)


def refusing_nodes(kill: h.Kill) -> h.Iterator[h.Measurement]:
    """Yield the number of nodes that reject the pod, by reason: `0/5 nodes are available: 3 Insufficient memory, …`."""
    if kill.reason == "FailedScheduling":
        reasons = kill.text.partition("nodes are available:")[2].partition("preemption:")[0]
        for count, reason in _REFUSAL.findall(reasons):
            text = reason.removeprefix("node(s) ").strip(" .")
            yield h.measurement("refusing-nodes", int(count), "nodes", over=text)
