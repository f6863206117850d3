"""Kubernetes cannot start a pod, or ends it for a reason other than memory.

What it reports
---------------
Pods that fit on no node, whose image cannot be pulled, or whose container exits repeatedly. The rule also
reports pods that their node evicted because it was short of disk space or process IDs. The report quotes the
message from Kubernetes.

Why it matters
--------------
The job waits for the slots of a pod that never runs, and Flink's own logs do not show why.

How it decides
--------------
The rule reads the output of `kubectl`: the reasons for which containers wait, the status of pods, and events. It
leaves out pods that are scheduled later or whose image is pulled later. CP303 reports containers that were killed for
exceeding their memory limit.

What to do
----------
Fix the error in the message. For an image, correct its name or its pull secret. For a pod that fits on no node,
request fewer resources. For a container that exits, read its log.

False alarms
------------
By default, Kubernetes keeps events for only one hour. A problem may be over although no later event shows it.
"""

from __future__ import annotations

from flowdiag.analyses.memory import helpers as h

IMAGE = ("an image that cannot be pulled", "deployment-failed", "image")
REASONS = {  # the words of the title, the cause and its remedy
    "FailedScheduling": ("no node to run on", "no-container", "ask"),
    "ImagePullBackOff": IMAGE,
    "ErrImagePull": IMAGE,
    "InvalidImageName": IMAGE,
    "CrashLoopBackOff": ("a container that exits repeatedly", "deployment-failed", "events"),
    "Evicted": ("been evicted by the node", "taskmanager-lost", "find-out"),
}


def judge(facts: h.MemoryFacts, limits: h.Limits) -> h.Iterator[h.Finding]:
    """One finding for all pods with the same problem."""
    by_pod: dict[str | None, list[h.Kill]] = {}
    for kill in facts.kills:
        if kill.waits:
            by_pod.setdefault(kill.pod, []).append(kill)
    alike: dict[tuple[str, str, str], list[list[h.Kill]]] = {}
    for kills in by_pod.values():
        # The first failure of a pod explains its later ones.
        alike.setdefault(REASONS[kills[0].reason], []).append(kills)
    for (problem, cause, remedy), pods in alike.items():
        first = pods[0][0]
        # The message without the columns in front of it.
        message = first.text.partition(f"pod/{first.pod}")[2] if first.pod else ""
        message = " ".join((message or first.text).split())
        place = first.pod or "a pod"
        more = f" and {h.fmt.plural(len(pods) - 1, 'more pod')}" if len(pods) > 1 else ""
        kills = [kill for each in pods for kill in each]
        yield h.place_finding(
            None,
            first.pod if not more and "taskmanager" in place else None,
            None,
            title=f"{place}{more} {'have' if more else 'has'} {problem}: {h.fmt.shorten(message, 100)}",
            why=f"{place}{more}: {h.fmt.shorten(message, 120)}",
            cause=cause,
            rank=h.Rank.REPORTED_CAUSE,
            count=len(kills),
            explain="A job that needs the slots of this pod waits until the pod runs.",
            measurements=(h.measurement("pods", len(pods), "pods"),),
            evidence=tuple(h.Evidence(*kill.ref, None) for kill in kills),
            ranked=True,
            actions=(h.remedy_action(cause, remedy, place=place),),
        )


RULE = h.Rule(
    "MM305", judge, whole=True, causes=("deployment-failed", "no-container", "taskmanager-lost")
)
