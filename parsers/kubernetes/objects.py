"""Finds containers that ended or cannot start in Kubernetes objects (core/v1 `Pod` and `Event`), in JSON or YAML.

A file is first split into its objects, so that the offset of each is known. Only objects that contain a relevant
reason are decoded, so a long list of healthy pods costs only one search.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from datetime import datetime
from typing import Any, Final

import msgspec

from flowdiag.parsers.json_values import as_count, as_integer, as_string, object_at, objects_at
from flowdiag.parsers.units import KUBERNETES_UNITS, size_bytes

MESSAGE_CHARACTERS: Final = 300
YAML_BYTES: Final = 256 * 1024
"""Maximum size of an object in YAML, which takes a second per megabyte."""


@dataclass(frozen=True, slots=True)
class EndedContainer:
    """A container that ended or cannot start, for example OOMKilled, Evicted or ImagePullBackOff.

    Attributes:
        reason: Kubernetes' word for the problem, or a similar word.
        offset: offset of the reason in the file.
        text: what to quote.
        memory_limit: memory limit in bytes.
        time_us: when the container ended, or when an event last reported the problem.
        restarts: how often the container has restarted so far.
        count: how often the event occurred.
        heap: heap size of a Spark executor in bytes.
        node: the node that the pod ran on.
        component: Flink's name for the process, from the pod's labels: jobmanager or taskmanager.
    """

    reason: str
    _: KW_ONLY
    offset: int
    text: str
    exit_code: int | None = None
    pod: str | None = None
    memory_limit: int | None = None
    time_us: int | None = None
    restarts: int | None = None
    count: int = 1
    heap: int | None = None
    node: str | None = None
    component: str | None = None


_WAITING: Final = frozenset(
    {
        "ImagePullBackOff",
        "ErrImagePull",
        "InvalidImageName",
        "CrashLoopBackOff",
        "CreateContainerConfigError",
    }
)
_POD_REASONS: Final = frozenset({"Evicted", "Preempted", "NodeShutdown", "NodeLost"})
_DISRUPTIONS: Final = {
    "PreemptionByScheduler": "Preempted",
    "PreemptionByKubeScheduler": "Preempted",
    "EvictionByEvictionAPI": "Evicted",
    "DeletionByTaintManager": "Evicted",
    "TerminationByKubelet": "Evicted",
}
"""Reasons of the condition `DisruptionTarget` (Kubernetes 1.26 and later)."""
_EVENT_REASONS: Final = frozenset(
    {
        *("OOMKilling", "SystemOOM", "Evicted", "Preempted", "FailedScheduling"),
        *("FailedMount", "FailedAttachVolume", "NodeShutdown", "TaintManagerEviction"),
        *(
            "NodeHasDiskPressure",
            "NodeHasInsufficientMemory",
            "NodeHasInsufficientPID",
            "NodeNotReady",
            "NTPIsDown",
        ),
    }
)
_RENAMED: Final = {
    "TaintManagerEviction": "Evicted",
    "NodeHasDiskPressure": "NodePressure",
    "NodeHasInsufficientMemory": "NodePressure",
    "NodeHasInsufficientPID": "NodePressure",
    "NTPIsDown": "ClockProblem",
}
_OPERATED: Final = frozenset(
    {"FlinkDeployment", "FlinkSessionJob", "FlinkStateSnapshot", "SparkApplication"}
)
"""Kinds of custom resources whose operators report their problems in events."""
_OPERATOR_REASONS: Final = {
    **dict.fromkeys(
        (
            "SavepointFailed",
            "SavepointError",
            "CheckpointError",
            "SnapshotError",
            "SnapshotAbandoned",
        ),
        "SavepointFailed",
    ),
    "JobException": "JobFailed",
    "SparkApplicationSubmissionFailed": "SubmissionFailed",
    "SparkDriverFailed": "DriverFailed",
    "SparkApplicationFailed": "DriverFailed",
    "SparkExecutorFailed": "ExecutorFailed",
    **dict.fromkeys(("ScalingReport", "IneffectiveScaling", "Scaling", "MemoryPressure"), None),
    **{f"SparkApplication{each}": None for each in ("Suspending", "Suspended", "Resuming")},
}
"""Problems by the reason of an operator's warning; None for decisions of the autoscaler or the user."""
_FAILED_STATES: Final = {
    "SUBMISSION_FAILED": "SubmissionFailed",
    "FAILED": "DriverFailed",
    "SchedulingFailure": "SubmissionFailed",
    "DriverStartTimedOut": "SubmissionFailed",
    "DriverReadyTimedOut": "SubmissionFailed",
    "ExecutorsStartTimedOut": "SubmissionFailed",
    "DriverEvicted": "Evicted",
    "Failed": "DriverFailed",
}
"""States of a SparkApplication that failed, first of `sparkoperator.k8s.io`, then of `spark.apache.org`."""
_WORKING: Final = frozenset({"RunningHealthy", "RunningWithPartialCapacity", "Succeeded"})
"""States of `spark.apache.org` that end an earlier failure."""
_POD_FAILED: Final = re.compile(
    r"(?:Driver|Executor) (?P<pod>[a-z0-9][a-z0-9.-]{0,252}) failed"
    r"|\bwith ExitCode: (?P<code>-?[0-9]{1,10}), Reason: (?P<reason>\w{1,60})"
)
"""Parts of a message of the operator `sparkoperator.k8s.io`; versions before 1.3 name only the pod."""
_TROUBLES: Final = {
    **dict.fromkeys(("MemoryPressure", "DiskPressure", "PIDPressure"), "NodePressure"),
    "NTPProblem": "ClockProblem",  # node-problem-detector
}
"""Problems of nodes by the type of a condition that is true."""
_INTEREST: Final = re.compile(
    r"OOMKill|SystemOOM|Evict|Preempt|NodeShutdown|NodeLost|Unschedulable|FailedScheduling|FailedMount"
    r"|FailedAttachVolume|ImagePull|CreateContainerConfig|InvalidImageName|CrashLoopBackOff|Back-off|Failed to pull"
    r"|ROLL(?:ING|ED)_BACK|FAILED|ABANDONED|Failed|SchedulingFailure|TimedOut|DriverEvicted"
    r"|Warning|Rollback|SpecChanged|StatusChanged|NTP|DisruptionTarget|NodeHas|NodeNotReady|Pressure|liveness probe|Scheduled|Pulled|Started|SuccessfulAttachVolume"
)
RESOLVED_BY: Final = {
    "Scheduled": ("FailedScheduling",),
    "Pulled": ("ImagePullBackOff", "ErrImagePull"),
    "Started": (
        "FailedMount",
        "FailedAttachVolume",
        "FailedScheduling",
        "ImagePullBackOff",
        "ErrImagePull",
    ),
    "SuccessfulAttachVolume": ("FailedAttachVolume",),
    "SpecChanged": ("RolledBack",),
}
"""The problems that a normal event resolves, by its reason: the pod has its node, its image or its volumes."""
_STATUS_EVENTS: Final = ("StatusChanged", "JobStatusChanged")
"""Events of Flink's operator about the state of a job, up to version 1.1 and later."""
_JSON: Final = re.compile(r"\s*\{")
_PRINTED: Final = re.compile(
    r"^[\s-]{0,40}\"?(?:containerStatuses|involvedObject)\"?:", re.MULTILINE
)
# JSON on one line, as from the API server or `jq -c`.
_COMPACT: Final = re.compile(r"\"(?:involvedObject|containerStatuses)\": ?[\[{]")
# The kind of an object or list item in kubectl's YAML. The pod template of a FlinkDeployment is indented further.
_YAML_KIND: Final = re.compile(
    r"^ {0,2}kind: (?:Pod|Event|Node|SparkApplication)(?:List)?$", re.MULTILINE
)
_JSON_KIND: Final = re.compile(
    r"^ {0,12}\"kind\": \"(?:Pod|Event|Node|SparkApplication)(?:List)?\",?$", re.MULTILINE
)
_OTHER_KIND: Final = re.compile(r"\"kind\": \"Flink")
# Version 1.0 of Flink's operator has only the state of the reconciliation.
_ROLLBACK: Final = re.compile(r"\b(?:lifecycleS|s)tate\"?: ?\"?ROLL(?:ING|ED)_BACK\b", re.MULTILINE)
_SNAPSHOT: Final = re.compile(
    r"^(?:\s{0,12}\"|[ -]{0,4})kind\"?: \"?FlinkStateSnapshot\b", re.MULTILINE
)
_ITEM: Final = re.compile(r"^- ", re.MULTILINE)
_BEHIND_ITEMS: Final = re.compile(r"^[A-Za-z]", re.MULTILINE)
_DOCUMENT: Final = re.compile(r"^---[ \t]*$", re.MULTILINE)


def looks_like_objects(text: str) -> bool:
    """Return whether a text contains pods or events as objects.

    >>> looks_like_objects("kind: Event\\ninvolvedObject:\\n  kind: Pod\\n")
    True
    """
    head = text[:65536]
    if _JSON.match(head) is not None and _COMPACT.search(head) is not None:
        return True
    if _ROLLBACK.search(head) is not None or _SNAPSHOT.search(head) is not None:
        return True
    if _PRINTED.search(head) is not None or _YAML_KIND.search(head) is not None:
        return True
    return _JSON_KIND.search(head) is not None and _OTHER_KIND.search(head) is None


def ended_in_objects(text: str) -> list[EndedContainer] | None:
    """Return the containers that ended or cannot start, without problems that a later event resolved.

    Return None if no object can be decoded.
    """
    found: list[EndedContainer] = []
    resolved: list[tuple[str, tuple[str, ...], int]] = []
    decoded = False
    for offset, piece, value in _objects(text):
        decoded = True
        here = list(_containers_in_object(value, piece, offset))
        found += here
        if not here and (resolution := _resolution(value)) is not None:
            resolved.append(resolution)
    if not decoded:
        return None
    return [
        each
        for each in found
        if not any(
            (pod == each.pod and each.reason in reasons) and (each.time_us or at + 1) <= at
            for pod, reasons, at in resolved
        )
    ]


def _containers_in_object(
    value: Mapping[str, Any], piece: str, offset: int
) -> Iterator[EndedContainer]:
    if object_at(value, "involvedObject"):
        event = _problem_in_event(value, piece, offset)
        if event is not None:
            yield event
    elif value.get("kind") == "Node":
        yield from _node_problems(value, _Position(piece, offset))
    elif value.get("kind") == "SparkApplication":
        yield from _containers_in_application(value, piece, offset)
    elif str(value.get("kind")).startswith("Flink"):
        yield from _flink_problems(value, piece, offset)
    elif object_at(value, "status"):
        node = as_string(object_at(value, "spec").get("nodeName"))
        yield from (replace(each, node=node) for each in _containers_in_pod(value, piece, offset))


def _resolution(event: Mapping[str, Any]) -> tuple[str, tuple[str, ...], int] | None:
    """Return the pod of a normal event, the problems that the event shows to be resolved, and its time."""
    reasons, at = RESOLVED_BY.get(str(event.get("reason"))), _time_of_event(event)
    if event.get("reason") in _STATUS_EVENTS and str(event.get("message")).endswith("RUNNING"):
        reasons = ("OperatorWarning", "JobFailed")
    pod = object_at(event, "involvedObject").get("name")
    return None if reasons is None or at is None else (str(pod), reasons, at)


def _containers_in_pod(pod: Mapping[str, Any], piece: str, offset: int) -> Iterator[EndedContainer]:
    name = as_string(object_at(pod, "metadata").get("name"))
    component = as_string(object_at(object_at(pod, "metadata"), "labels").get("component"))
    status = object_at(pod, "status")
    at = _Position(piece, offset)
    if (reason := str(status.get("reason"))) in _POD_REASONS:
        yield EndedContainer(
            reason,
            pod=name,
            offset=at(reason),
            text=_text(reason, status.get("message")),
            time_us=_last_change(status),
        )
    else:
        yield from _condition_problems(objects_at(status, "conditions"), name, at)
    limits = {
        str(each.get("name")): _memory(
            object_at(object_at(each, "resources"), "limits").get("memory")
        )
        for each in objects_at(object_at(pod, "spec"), "containers")
    }
    heap = _executor_heap(pod)
    for container in (
        *objects_at(status, "initContainerStatuses"),
        *objects_at(status, "containerStatuses"),
    ):
        found = _container_problems(container, name, limits.get(str(container.get("name"))), at)
        yield from (replace(each, heap=heap, component=component) for each in found)


def _flink_problems(
    resource: Mapping[str, Any], piece: str, offset: int
) -> Iterator[EndedContainer]:
    """Yield resources that Flink's operator rolls back, and failed snapshots."""
    status = object_at(resource, "status")
    reconciled = object_at(status, "reconciliationStatus").get("state")
    state = str(status.get("lifecycleState") or reconciled)
    known = "RolledBack" if state in ("ROLLING_BACK", "ROLLED_BACK") else None
    if resource.get("kind") == "FlinkStateSnapshot":
        state = str(status.get("state"))
        known = "SavepointFailed" if state in ("FAILED", "ABANDONED") else None
    if known is not None:
        at = max(piece.find(state), 0)
        error = as_string(status.get("error"))
        yield EndedContainer(
            known,
            offset=offset + len(piece[:at].encode("utf-8", "replace")),
            text=_text(state, operator_error(error) if error else None),
            pod=as_string(object_at(resource, "metadata").get("name")),
            time_us=time_of(status.get("resultTimestamp")),
        )


def operator_error(error: str) -> str:
    """Return the last exception in the JSON of Flink's operator as class and message; other text unchanged.

    Versions before 1.3 write the message of the exception.

    >>> operator_error('{"type":"a.B","message":"x","throwableList":[{"type":"c.D","message":"full"}]}')
    'D: full'
    """
    try:
        outer = msgspec.json.decode(error)
        last = (outer.get("throwableList") or [outer])[-1]
        kind = str(last.get("type") or outer["type"]).rpartition(".")[2]
        return f"{kind}: {last['message']}"
    except (msgspec.DecodeError, AttributeError, KeyError, TypeError, RecursionError):
        return error.strip()


def _executor_heap(pod: Mapping[str, Any]) -> int | None:
    """Return the heap size that Spark passes to an executor in its environment."""
    for container in objects_at(object_at(pod, "spec"), "containers"):
        for variable in objects_at(container, "env"):
            if variable.get("name") == "SPARK_EXECUTOR_MEMORY":
                size = size_bytes(str(variable.get("value")))
                return int(size) if size else None
    return None


def _containers_in_application(
    application: Mapping[str, Any], piece: str, offset: int
) -> Iterator[EndedContainer]:
    """Yield an application that failed, in the format of either API group."""
    status = object_at(application, "status")
    old, new = object_at(status, "applicationState"), _last_failure(status)
    state = str(old.get("state") or new.get("currentStateSummary"))
    known = _FAILED_STATES.get(state)
    if known is None:
        return
    driver = object_at(status, "driverInfo").get("podName")
    name = as_string(driver) or as_string(object_at(application, "metadata").get("name"))
    message = str(old.get("errorMessage") or new.get("message") or "")
    at = max(piece.find(state), 0)
    failed = EndedContainer(
        known,
        offset=offset + len(piece[:at].encode("utf-8", "replace")),
        text=_text(state, message),
        pod=name,
        time_us=time_of(new.get("lastTransitionTime") or status.get("lastSubmissionAttemptTime")),
    )
    observed = objects_at(object_at(new, "lastObservedDriverStatus"), "containerStatuses")
    killed = [
        each
        for container in observed
        for each in _container_problems(container, name, None, _Position(piece, offset))
        if each.reason == "OOMKilled"
    ]
    yield from killed or [_with_exit(failed, message)]


def _last_failure(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the failed state of an application of `spark.apache.org`, even after it released its resources."""
    history = object_at(status, "stateTransitionHistory")
    numbered = sorted((int(key), key) for key in history if re.fullmatch(r"[0-9]{1,9}", str(key)))
    failed: Mapping[str, Any] = {}
    for state in (
        *(object_at(history, key) for _, key in numbered),
        object_at(status, "currentState"),
    ):
        summary = str(state.get("currentStateSummary"))
        if summary in _FAILED_STATES:
            failed = state
        elif summary in _WORKING:
            failed = {}
    return failed


def _with_exit(failed: EndedContainer, message: str) -> EndedContainer:
    """Add the pod, exit code and reason that the message of a Spark operator contains."""
    for hit in _POD_FAILED.finditer(message):
        if hit["pod"]:
            failed = replace(failed, pod=hit["pod"])
        elif hit["reason"] == "OOMKilled":
            failed = replace(failed, reason="OOMKilled", exit_code=int(hit["code"]))
    return failed


def _node_problems(node: Mapping[str, Any], at: _Position) -> Iterator[EndedContainer]:
    name = as_string(object_at(node, "metadata").get("name"))
    for each in objects_at(object_at(node, "status"), "conditions"):
        kind, status = str(each.get("type")), each.get("status")
        trouble = _TROUBLES.get(kind) if status == "True" else None
        if trouble or (kind == "Ready" and status in ("False", "Unknown")):
            yield EndedContainer(
                trouble or "NodeNotReady",
                offset=at(str(each.get("reason"))),
                text=_text(kind if trouble else f"Ready is {status}", each.get("message")),
                pod=name,
                node=name,
                time_us=time_of(each.get("lastTransitionTime")),
            )


def _condition_problems(
    conditions: Iterable[Mapping[str, Any]], name: str | None, at: Callable[[str], int]
) -> Iterator[EndedContainer]:
    for each in conditions:
        kind, reason = each.get("type"), str(each.get("reason"))
        time_us = time_of(each.get("lastTransitionTime"))
        if kind == "PodScheduled" and each.get("status") == "False" and reason == "Unschedulable":
            text = _text("Unschedulable", each.get("message"))
            yield EndedContainer(
                "FailedScheduling", pod=name, offset=at(reason), text=text, time_us=time_us
            )
        elif kind == "DisruptionTarget" and each.get("status") == "True" and reason in _DISRUPTIONS:
            text = _text(reason, each.get("message"))
            yield EndedContainer(
                _DISRUPTIONS[reason], pod=name, offset=at(reason), text=text, time_us=time_us
            )


def _container_problems(
    container: Mapping[str, Any], pod: str | None, limit: int | None, at: Callable[[str], int]
) -> Iterator[EndedContainer]:
    restarts = as_count(container.get("restartCount")) or 0
    killed = False
    for key in ("state", "lastState"):
        ended = object_at(object_at(container, key), "terminated")
        if ended.get("reason") == "OOMKilled" and not killed:
            killed = True
            code = as_integer(ended.get("exitCode"))
            yield EndedContainer(
                "OOMKilled",
                pod=pod,
                offset=at("OOMKilled"),
                text=f"OOMKilled, exit code {code}" if code is not None else "OOMKilled",
                exit_code=code,
                memory_limit=limit,
                time_us=time_of(ended.get("finishedAt")),
                restarts=restarts or None,
            )
    waiting = object_at(object_at(container, "state"), "waiting")
    reason = str(waiting.get("reason"))
    # A container that was OOM-killed may be waiting for its next start.
    if reason in _WAITING and not (killed and reason == "CrashLoopBackOff"):
        text = _text(reason, waiting.get("message"))
        yield EndedContainer(
            reason, pod=pod, offset=at(reason), text=text, restarts=restarts or None
        )


def _problem_in_event(event: Mapping[str, Any], piece: str, offset: int) -> EndedContainer | None:
    about = object_at(event, "involvedObject")
    reason, message = str(event.get("reason")), str(event.get("message") or event.get("note") or "")
    if about.get("kind") in _OPERATED:
        known = _operator_problem(event, reason, message)
    else:
        known = _event_reason(reason, message) if about.get("kind") in ("Pod", "Node") else None
    if known is None:
        return None
    of_node = known in ("NodePressure", "NodeNotReady", "ClockProblem")
    host = about.get("name") if of_node else object_at(event, "source").get("host")
    found = EndedContainer(
        known,
        pod=as_string(about.get("name")) if of_node or about.get("kind") != "Node" else None,
        node=as_string(host),
        offset=_Position(piece, offset)(reason),
        text=_text(reason, _deepest_exception(message) if known == "JobFailed" else message),
        time_us=_time_of_event(event),
        count=as_count(event.get("count"))
        or as_count(object_at(event, "series").get("count"))
        or 1,
    )
    return _with_exit(found, message) if known in ("DriverFailed", "ExecutorFailed") else found


def _operator_problem(event: Mapping[str, Any], reason: str, message: str) -> str | None:
    """Return the name of the problem that an event reports about a custom resource, or None."""
    if event.get("type") != "Warning":
        return "RolledBack" if reason == "Rollback" else None
    # From version 1.12 on, a failed job is an error of the component Job; other errors are the operator's own.
    of_job = object_at(event, "source").get("component") == "Job"
    is_deployment = object_at(event, "involvedObject").get("kind") == "FlinkDeployment"
    if reason == "Error" and of_job and (is_deployment or "Recovery is suppressed" in message):
        return "JobFailed"
    return operator_reason(reason)


def _deepest_exception(message: str) -> str:
    """Return the deepest exception in a stack trace, or in a chain of messages.

    >>> _deepest_exception("a.B: x\\n\\tat c.D.e(D.java:1)\\nCaused by: f.G: full\\n\\tat h.I.j(I.java:2)")
    'f.G: full'
    >>> _deepest_exception("Recovery is suppressed -> full")
    'full'
    """
    trace = message.rpartition("\nCaused by: ")[2].partition("\n")[0]
    return trace.rpartition(" -> ")[2]


def operator_reason(reason: str) -> str | None:
    """Return the name of the problem in an operator's warning about a custom resource, or None.

    >>> operator_reason("SavepointError"), operator_reason("ValidationError"), operator_reason("Scaling")
    ('SavepointFailed', 'OperatorWarning', None)
    """
    return _OPERATOR_REASONS.get(reason, "OperatorWarning")


def _event_reason(reason: str, message: str) -> str | None:
    """Return the name of the problem that an event reports, or None."""
    if reason in _EVENT_REASONS:
        return _RENAMED.get(reason, reason)
    if reason == "Failed" and "ailed to pull image" in message:
        return "ErrImagePull"
    if reason == "InspectFailed" and "InvalidImageName" in message:
        return "InvalidImageName"
    if reason == "BackOff":
        return "ImagePullBackOff" if "pulling image" in message else "CrashLoopBackOff"
    if reason == "Killing" and "failed liveness probe" in message:
        return "ProbeKilled"
    return None


@dataclass(frozen=True, slots=True)
class _Position:
    """Locates reasons in an object by their byte offset."""

    piece: str
    offset: int

    def __call__(self, reason: str) -> int:
        found = re.search(rf'"?reason"?: *"?{re.escape(reason)}\b', self.piece)
        at = found.start() if found is not None else 0
        return self.offset + len(self.piece[:at].encode("utf-8", "replace"))


def _text(reason: str, message: object) -> str:
    shown = " ".join(str(message or "").split())[:MESSAGE_CHARACTERS]
    return f"{reason}: {shown}" if shown else reason


def _memory(limit: object) -> int | None:
    size = size_bytes(limit, units=KUBERNETES_UNITS) if isinstance(limit, str) else None
    return int(size) if size else None


def _last_change(status: Mapping[str, Any]) -> int | None:
    """Return when the last container ended or the last condition changed, in microseconds."""
    times = [
        time_of(object_at(object_at(each, "state"), "terminated").get("finishedAt"))
        for each in objects_at(status, "containerStatuses")
    ] or [time_of(each.get("lastTransitionTime")) for each in objects_at(status, "conditions")]
    return max((each for each in times if each is not None), default=None)


def _time_of_event(event: Mapping[str, Any]) -> int | None:
    series = object_at(event, "series").get("lastObservedTime")
    times = (time_of(each) for each in (series, event.get("lastTimestamp"), event.get("eventTime")))
    return next((each for each in times if each is not None), None)


def time_of(text: object) -> int | None:
    """Parse an RFC 3339 time into microseconds since 1970.

    >>> time_of("2026-11-20T23:28:12Z"), time_of(None)
    (1795217292000000, None)
    """
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
        return round(moment.timestamp() * 1_000_000) if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None


# --- Splitting ------------------------------------------------------------------------------------


class _List(msgspec.Struct):
    items: list[msgspec.Raw] = []


def _objects(text: str) -> Iterator[tuple[int, str, Mapping[str, Any]]]:
    """Yield the byte offset, text and decoded value of each object that may be relevant."""
    pieces, decode = (
        (_json_pieces(text), _from_json) if _JSON.match(text) else (_yaml_pieces(text), _from_yaml)
    )
    for offset, piece in pieces:
        if _INTEREST.search(piece) is not None:
            value = decode(piece)
            if isinstance(value, Mapping):
                yield offset, piece, value


def _from_json(piece: str) -> Any:
    try:
        return msgspec.json.decode(piece)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _json_pieces(text: str) -> Iterator[tuple[int, str]]:
    data = text.encode("utf-8", "replace")
    try:
        items = msgspec.json.decode(data, type=_List).items
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        items = [msgspec.Raw(line) for line in data.splitlines() if line.startswith(b"{")]
    at = 0
    for item in items:
        raw = bytes(item)
        at = max(data.find(raw, at), 0)
        yield at, raw.decode("utf-8", "replace")
        at += len(raw)
    if not items:
        yield 0, text


def _yaml_pieces(text: str) -> Iterator[tuple[int, str]]:
    """Split YAML documents, and lists with items in the first column, as kubectl prints them."""
    starts = [0, *(hit.end() for hit in _DOCUMENT.finditer(text))]
    for begin, end in zip(starts, [*starts[1:], len(text)], strict=True):
        items = [hit.start() for hit in _ITEM.finditer(text, begin, end)]
        for start, stop in zip(items or [begin], [*items[1:], end], strict=True):
            piece = text[start:stop]
            if items and (behind := _BEHIND_ITEMS.search(piece)) is not None:
                piece = piece[: behind.start()]
            yield len(text[:start].encode("utf-8", "replace")), piece


def _from_yaml(piece: str) -> Any:
    if len(piece) > YAML_BYTES:
        return None
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    # Do not convert times.
    loader = YAML(typ="base", pure=True)
    try:
        value = loader.load(piece)
    except (YAMLError, RecursionError, ValueError):
        return None
    return value[0] if isinstance(value, list) and value else value
