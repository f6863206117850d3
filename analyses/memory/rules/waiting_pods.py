"""Kubernetes or YARN cannot start a pod or container, or ends it for a reason other than memory.

What it reports
---------------
Pods that fit on no node, whose image cannot be pulled, whose volume cannot be mounted, or whose container exits
repeatedly. The rule also reports SparkApplications that failed or that their operator cannot start, and warnings
of operators about their resources, such as failed savepoints and upgrades that were rolled back. It also reports
pods that were preempted, killed by their liveness probe, or evicted because their node ran out of disk space or
process IDs. On YARN, the rule reports applications that wait for their queue, files that cannot be localized,
failed application masters, and expired tokens. It also reports containers that were preempted, killed, or lost
with their node. The report quotes the platform's message.

Why it matters
--------------
The job waits for the slots of a pod that never runs, and Flink's own logs do not show why.

How it decides
--------------
The rule reads the output of `kubectl` and of `flowdiag collect k8s`: why containers wait, the status of pods, and
events. It leaves out pods that are scheduled later or whose image is pulled later. On YARN, it reads the exit
statuses and diagnostics in the responses of the ResourceManager and the timeline server. Containers that the
application released do not count. An unhealthy node counts only if a job lost a TaskManager there, or a pod there
ended. The node-problem-detector reports nodes whose clock is not synchronized (`NTPProblem`). In cAdvisor's
metrics, a pod has too little CPU if it is throttled in half of its CPU periods for five minutes. The problem is
over if the job runs again after the last event. CP303 reports containers that were killed for exceeding their
memory limit.

What to do
----------
Fix the error in the message. For an image, correct its name or its pull secret. For a pod that fits on no node,
request fewer resources. For a container that exits, read the log of its last attempt.

False alarms
------------
By default, Kubernetes keeps events for only one hour. A problem may be over although no later event shows its end.
"""

from flowdiag.analyses.memory import helpers as h
from flowdiag.analyses.memory.detect.pods import OF_OPERATORS, pods_by_problem, refusing_nodes


def judge(facts: h.MemoryFacts, limits: h.Limits) -> h.Iterator[h.Finding]:
    """Report all pods with the same problem in one finding."""
    for (problem, cause, remedy), pods in pods_by_problem(facts).items():
        first = pods[0][0]
        place = first.pod or "a pod"
        more = f" and {h.fmt.plural(len(pods) - 1, 'more pod')}" if len(pods) > 1 else ""
        kills = [kill for each in pods for kill in each]
        times = h.times_of(kills)
        recovered = h.has_recovered(facts, max(times, default=None), first.pod)
        event, message, explanation = _problem_text(first, problem, several=len(pods) > 1)
        yield h.place_finding(
            None,
            first.pod if not more and h.is_taskmanager(place) else None,
            None,
            title=f"{place}{more}{event}: {h.fmt.shorten(message, 200)}",
            why=f"{place}{more}: {h.fmt.shorten(message, 120)}",
            cause=cause,
            rank=h.Rank.EXPLANATION if cause == "wrong-clock" else h.Rank.REPORTED_CAUSE,
            state=h.State.RECOVERED if recovered else h.State.ONGOING,
            first_us=min(times, default=None),
            last_us=max(times, default=None),
            count=sum(kill.count for kill in kills),
            explain=explanation,
            measurements=(h.measurement("pods", len(pods), "pods"), *refusing_nodes(first)),
            evidence=tuple(h.Evidence(*kill.ref, kill.time_us) for kill in kills),
            ranked=True,
            actions=(h.remedy_action(cause, remedy, place=place),),
        )


def _problem_text(kill: h.Kill, problem: str, *, several: bool) -> tuple[str, str, str]:
    """Return the problem for a title, the message without its leading columns, and the effect."""
    if kill.reason in OF_OPERATORS:
        return (
            "",
            kill.text,
            "The operator reports this for its resource. The job may still be running.",
        )
    if kill.reason == "ClockProblem":
        return f" has {problem}", kill.text, h.explanation("wrong-clock")
    message = kill.text.partition(f"pod/{kill.pod}")[2] if kill.pod else ""
    return (
        f" {'have' if several else 'has'} {problem}",
        " ".join((message or kill.text.removeprefix(f"{kill.reason}: ")).split()),
        "A job that needs this pod waits until the pod runs.",
    )


RULE = h.Rule(
    "MM305",
    judge,
    whole=True,
    causes=(
        "deployment-failed",
        "no-container",
        "taskmanager-lost",
        "jobmanager-lost",
        "executor-lost",
        "driver-killed",
        "slow-taskmanager",
        "savepoint-failed",
        "task-failure",
        "wrong-clock",
    ),
    needs="pods",
)
