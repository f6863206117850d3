"""Kubernetes does not start a pod, or ends it for a reason other than memory.

What it reports
---------------
Pods that do not fit on any node, whose image cannot be pulled, whose container exits repeatedly, or that
their node evicted for its disk or its processes. The report quotes the message from Kubernetes.

Why it matters
--------------
A job waits for the slots of a pod that never runs, and Flink's own logs do not show why.

How it decides
--------------
By the output of `kubectl`: the reason that a container waits for, the status of a pod, the events. A pod that
is scheduled later, or whose image is pulled later, is left out. CP303 reports containers that were killed for
their memory.

What to do
----------
Follow the message: fix the name or the secret of an image, request less, or read the log of the container
that exited.

False alarms
------------
Kubernetes keeps events for an hour. A problem may be over without a later event that shows it.
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
            explain="A job that needs the slots of a pod waits until the pod runs.",
            measurements=(h.measurement("pods", len(pods), "pods"),),
            evidence=tuple(h.Evidence(*kill.ref, None) for kill in kills),
            ranked=True,
            actions=(h.remedy_action(cause, remedy, place=place),),
        )


RULE = h.Rule(
    "MM305", judge, whole=True, causes=("deployment-failed", "no-container", "taskmanager-lost")
)
