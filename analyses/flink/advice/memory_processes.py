"""Identifies the process that ran out of memory, its name in titles, and the remedies for its memory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from flowdiag.analyses.flink import helpers as h
from flowdiag.analyses.flink.advice.exception_texts import option_actions
from flowdiag.analyses.flink.advice.memory_pools import POOLS
from flowdiag.analyses.flink.failures.crises import classify_incident
from flowdiag.analyses.flink.job import Incident


class MemoryProcess(NamedTuple):
    """A process with its own memory options.

    Args:
        what: the name of the process in titles.
        remedies: the remedies of `out-of-memory`, by kind of memory. A kind without remedies has no option to set.
        is_pod: whether titles include the name of its pod.
    """

    what: str
    remedies: Mapping[str, tuple[str, ...]] = {}
    is_pod: bool = False


TASKMANAGER: Final = MemoryProcess("a TaskManager")
_JOBMANAGER: Final = MemoryProcess(
    "the JobManager",
    {
        "heap": ("jobmanager-heap", "find-growth"),
        "metaspace": ("jobmanager-metaspace", "find-growth"),
        "direct": ("jobmanager-direct", "find-growth"),
        "container": ("jobmanager-size", "find-growth"),
    },
)
_MASTER: Final = _JOBMANAGER._replace(what="the application master, Flink's JobManager")
_ANY_MASTER: Final = MemoryProcess(
    "the application master: Flink's JobManager, or Spark's driver in cluster mode",
    {kind: ("master-size",) for kind in POOLS},
)
_EXECUTOR: Final = MemoryProcess("executor {name}", {"container": ("spark-overhead",)})
_DRIVER: Final = MemoryProcess(
    "the driver", {"container": ("spark-driver-overhead",), "heap": ("spark-driver-heap",)}
)
_CLIENT: Final = MemoryProcess("the client that submits the job", {"heap": ("client-heap",)})
_ANY: Final = MemoryProcess("an unnamed process", {"container": ("find-growth",)})
UNKNOWN: Final = MemoryProcess("a Flink process", {kind: ("find-process",) for kind in POOLS})
_UNDECIDED: Final = UNKNOWN._replace(what="an unknown process")
"""For a text that shows neither Flink nor Spark."""
_BY_COMPONENT: Final = {
    "flink-taskmanager": TASKMANAGER,
    "flink-jobmanager": _JOBMANAGER,
    "flink-client": _CLIENT,
    "flink-kubernetes-operator": MemoryProcess("Flink's Kubernetes operator"),
    "flink-history-server": MemoryProcess("Flink's history server"),
}
# The first container of a YARN application runs its application master.
_FIRST_CONTAINER: Final = re.compile(r"container_(?:e\d{1,6}_)?\d{10,16}_\d{4,8}_\d{2,4}_0{5}1\b")
# Names that Spark and its operators give to pods.
_EXECUTOR_POD: Final = re.compile(r"-exec-[0-9]{1,9}$")
_DRIVER_POD: Final = re.compile(r"-driver$")
_JOBMANAGER_POD: Final = re.compile(r"\bjobmanager\b|(?:^|-)jm(?:-|$)")
_TASKMANAGER_POD: Final = re.compile(r"\btaskmanager\b|(?:^|-)(?:tm|worker)(?:-|$)")
# Kubernetes adds a hash and an ID to the names of a Deployment's pods. Flink starts its JobManager as a Deployment.
_OF_DEPLOYMENT: Final = re.compile(r"-[bcdf-hj-np-tv-z2-9]{8,10}-[bcdf-hj-np-tv-z2-9]{5}$")
_OF_MASTER: Final = re.compile(r"\bAM Container for appattempt")
_AMOUNTS: Final = re.compile(
    r"required \(M[Bb]\): (\d{1,9}), allocated \(M[Bb]\): (\d{1,9}), missing \(M[Bb]\): (\d{1,9})"
)
_OPTION: Final = re.compile(r"\b(?P<process>jobmanager|taskmanager)\.(?:memory|heap)\.")


def remedies_of(kind: str, process: MemoryProcess) -> tuple[str, ...]:
    """Return the remedies of `out-of-memory` for memory outside a TaskManager's pools."""
    if kind == "network":
        return ("network-fraction", "network-max")
    return process.remedies.get(kind, ("find-growth",))


def title_of(kind: str, where: str, *, of_worker: bool) -> str:
    """Return the title for exhausted memory, with the process or host in parentheses.

    >>> title_of("container", "the JobManager", of_worker=False)
    'The container was killed for using too much memory (the JobManager)'
    """
    title = POOLS[kind].title
    if of_worker:
        return f"{title} on {where}"
    return f"{title} ({where})" if kind in ("container", "virtual") else f"{title} in {where}"


def amounts_in(text: str | None) -> str:
    """Return the amounts in an error of Flink's network buffer pool, formatted for a title, or an empty string.

    >>> amounts_in("NetworkBufferPool (required (MB): 1280, allocated (MB): 1024, missing (MB): 256)")
    ' (1280 MB required, 1024 MB allocated, 256 MB missing)'
    """
    found = _AMOUNTS.search(text or "")
    if found is None:
        return ""
    return " ({} MB required, {} MB allocated, {} MB missing)".format(*found.groups())


def process_of_pod(
    name: str | None, engine: str | None = None, component: str | None = None
) -> MemoryProcess:
    """Return the process that runs in a pod or container.

    Args:
        name: the name of the pod or container.
        engine: the engine of the logs.
        component: jobmanager or taskmanager, if the pod's labels show it.

    >>> process_of_pod("billing-1-exec-3").what
    'executor billing-1-exec-3'
    >>> process_of_pod("orders-jobmanager-0").what, process_of_pod("orders-6cdfd65d9b-2zq8k").what
    ('the JobManager', 'a Flink process')
    """
    known = _BY_COMPONENT.get(f"flink-{component}")
    if known is not None:
        return known if known is TASKMANAGER else known._replace(is_pod=True)
    if not name and engine is None:
        return _ANY  # a message of the kernel, which does not show what the process is
    name = name or ""
    if _JOBMANAGER_POD.search(name):
        return _JOBMANAGER._replace(is_pod=True)
    if _FIRST_CONTAINER.search(name):
        return _ANY_MASTER
    if _DRIVER_POD.search(name):
        return _DRIVER
    if name and (_EXECUTOR_POD.search(name) or engine == "spark"):
        return _EXECUTOR._replace(what=_EXECUTOR.what.format(name=name))
    if _OF_DEPLOYMENT.search(name) and not _TASKMANAGER_POD.search(name):
        return UNKNOWN._replace(is_pod=True)
    return TASKMANAGER


def spark_process(name: str | None) -> str | None:
    """Return `driver` or `executor` for a pod of Spark, judged by its name, or None for other pods.

    >>> spark_process("orders-1a2b-exec-3"), spark_process("orders-driver"), spark_process("orders-0")
    ('executor', 'driver', None)
    """
    if _DRIVER_POD.search(name or ""):
        return "driver"
    return "executor" if _EXECUTOR_POD.search(name or "") else None


def process_of_incident(incident: Incident) -> MemoryProcess:
    """Return the process that ran out of memory, identified by its container, stack, place or options."""
    text = " ".join(filter(None, (incident.cause, incident.text.get("exception"))))
    container = " ".join((incident.taskmanager or "", incident.text.get("container", ""), text))
    if _FIRST_CONTAINER.search(container) or _OF_MASTER.search(text):
        return _MASTER
    known = _BY_COMPONENT.get(incident.text.get("process", ""))
    if known is not None:
        return known
    if incident.taskmanager or incident.host or incident.task or incident.kind == "task-failure":
        return TASKMANAGER
    named = _OPTION.search(text)
    if named is not None:
        return _BY_COMPONENT[f"flink-{named['process']}"]
    if "container_" in container:
        return TASKMANAGER
    return _UNDECIDED if "undecided" in incident.text else UNKNOWN


def explanation_of(kind: str, process: MemoryProcess) -> str:
    """Return what the exhausted memory contains in a process of Flink, or an empty string for an unknown engine."""
    return "" if process is _UNDECIDED else POOLS[kind].explanation


def has_job(process: MemoryProcess) -> bool:
    """Return whether the process runs jobs, so that its end affects them."""
    return process not in (_CLIENT, _UNDECIDED)


def memory_actions(job: h.Job, root: h.Incident, kind: str) -> tuple[h.Action, ...]:
    """Propose to enlarge the exhausted memory, if that helps, and to find out what fills it."""
    pool, process = POOLS[kind], process_of_incident(root)
    if pool.remedy is not None:
        return h.remedies("out-of-memory", job, pool.remedy)
    if kind == "network" or process is not TASKMANAGER:
        return h.remedies("out-of-memory", job, *remedies_of(kind, process))
    # The error may recommend an option of another process.
    named = tuple(option_actions(classify_incident(root), ()))
    more: tuple[h.Action, ...] = ()
    other = any((action.option or "").startswith("jobmanager.") for action in named)
    if pool.option is not None and not other:
        more = h.remedies("out-of-memory", job, f"more-{pool.option}")
        more = more or h.remedies("out-of-memory", job, "more")
    covered = {action.option for action in more}
    return (
        *(action for action in named if action.option not in covered),
        *more,
        *h.remedies("out-of-memory", job, "find-growth"),
    )
