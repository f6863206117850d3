"""Pods that Kubernetes does not start, or ends for another reason than their memory.

What it reports
---------------
Pods that no node takes, whose image cannot be pulled, whose container ends again and again, or that their
node evicted for its disk or its processes, with what Kubernetes says of them.

Why it matters
--------------
A job waits for the slots of a pod that never runs, and nothing of Flink's own says why.

How it decides
--------------
By what `kubectl` prints: the reason that a container waits for, the status of a pod, the events. A pod that
was scheduled after all, or whose image was pulled later on, is left out. Containers that ended for their memory
are MM301's.

What to do
----------
What the message says: a name or a secret of an image, a smaller request, the log of the container that ended.

False alarms
------------
Events are kept for an hour: what they tell may be over, where no later one says so.
"""

from __future__ import annotations

from typing import Final

from flowdiag.analyses.memory import helpers as h

_IMAGE: Final = "an image that cannot be pulled"
_WORDS: Final = {
    "FailedScheduling": "no node that takes it",
    "ImagePullBackOff": _IMAGE,
    "ErrImagePull": _IMAGE,
    "InvalidImageName": _IMAGE,
    "CrashLoopBackOff": "a container that ends again and again",
    "Evicted": "been evicted by its node",
}
_OF_IMAGE: Final = frozenset(reason for reason, words in _WORDS.items() if words == _IMAGE)


def judge(facts: h.MemoryFacts, limits: h.Limits) -> h.Iterator[h.Finding]:
    """One finding for all pods with the same trouble."""
    by_pod: dict[str | None, list[h.Kill]] = {}
    for kill in facts.kills:
        if kill.waits:
            by_pod.setdefault(kill.pod, []).append(kill)
    alike: dict[str, list[list[h.Kill]]] = {}
    for kills in by_pod.values():
        # What failed first is the reason of all that is said later of the same pod.
        alike.setdefault(_WORDS[kills[0].reason], []).append(kills)
    for words, pods in alike.items():
        yield _finding(words, pods)


def _finding(words: str, pods: list[list[h.Kill]]) -> h.Finding:
    first = pods[0][0]
    cause, remedy = _cause(first.reason)
    where = first.pod or "a pod"
    more = f" and {h.fmt.plural(len(pods) - 1, 'more pod')}" if len(pods) > 1 else ""
    has = "have" if more else "has"
    alone = not more and "taskmanager" in where
    kills = [kill for each in pods for kill in each]
    return h.of_place(
        None,
        first.pod if alone else None,
        None,
        title=f"{where}{more} {has} {words}: {h.fmt.shorten(_message(first), 100)}",
        why=f"{where}{more}: {h.fmt.shorten(_message(first), 120)}",
        cause=cause,
        rank=h.Rank.REPORTED_CAUSE,
        count=len(kills),
        explain="What waits for its slots waits until it runs.",
        measurements=(h.measurement("pods", len(pods), "pods"),),
        evidence=tuple(h.Evidence(*kill.ref, None) for kill in kills),
        ranked=True,
        actions=(h.advised(cause, remedy, place=where),),
    )


def _message(kill: h.Kill) -> str:
    """What is said of the pod, without the columns before."""
    said = kill.text.partition(f"pod/{kill.pod}")[2] if kill.pod else ""
    return " ".join((said or kill.text).split())


def _cause(reason: str) -> tuple[str, str]:
    """The cause that a reason stands for, and its remedy."""
    if reason == "FailedScheduling":
        return "no-container", "ask"
    if reason == "Evicted":
        return "taskmanager-lost", "find-out"
    return "deployment-failed", "image" if reason in _OF_IMAGE else "events"


RULE: Final = h.Rule(
    "MM305",
    judge,
    whole=True,
    causes=("deployment-failed", "no-container", "taskmanager-lost"),
)
