"""Collects a workload from Kubernetes into a folder: `flowdiag collect k8s`.

The files have the formats that `kubectl` prints, and names that show where they come from:

    flinkdeployment.orders.json      custom resources and controllers, with their status
    pods-001.json, events-001.json   lists, in files small enough to be read as a whole
    node.worker-1.json               conditions of the nodes that run the pods
    configmap.NAME.json              files that configure Flink or Spark, and the state of the autoscaler
    POD.CONTAINER.log                logs; POD.CONTAINER.previous.log is from before the last restart
    rest/                            responses of the JobManager or driver, as `flowdiag collect` stores them
    manifest.jsonl                   what was collected, truncated or denied

A file appears once it is complete. The limits apply to the whole collection, so that a namespace with thousands of
pods or gigabytes of logs takes limited time and disk space. If a permission is missing, only the data that requires
it is missing.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.json_values import as_count, as_string, object_at, objects_at
from flowdiag.parsers.live.client import Client, RequestFailed
from flowdiag.parsers.live.folder import Folder, now_ms
from flowdiag.parsers.live.k8s.api import KubernetesApi, in_parallel, segment
from flowdiag.parsers.live.k8s.objects import (
    autoscaler_state,
    settings_of,
    without_secrets,
)
from flowdiag.parsers.live.k8s.permissions import (
    GET_CONFIG,
    GET_NODE,
    LIST_CLAIMS,
    LIST_EVENTS,
    LIST_SCALERS,
    NODE_EVENTS,
    PROXY,
    READ_LOGS,
    Permission,
)
from flowdiag.parsers.live.k8s.workload import (
    Workload,
    find_workload,
    is_coordinator,
    labels_of,
)
from flowdiag.parsers.live.snapshots.folder import COMPLETE, PARTIAL, Failures, SnapshotFolder
from flowdiag.parsers.live.snapshots.masking import masked_lines
from flowdiag.parsers.live.watching import Outcome, ShowProgress
from flowdiag.parsers.sources.collected import SCHEMA

Json = Mapping[str, Any]
_Item = TypeVar("_Item")

LOG_BYTES: Final = 32 * 1024 * 1024
"""Default limit for the log of one container."""
TAIL_LINES: Final = 100_000
"""Maximum number of last lines to read from a larger log."""
ALL_LOG_BYTES: Final = 1024 * 1024 * 1024
MAX_PODS: Final = 100
"""Maximum pods whose logs are read; coordinators and unhealthy pods come first."""
TOTAL_S: Final = 600.0
MAX_NODES: Final = 20
MAX_CONFIGS: Final = 20
REST_PORTS: Final = {"jobmanager": 8081, "driver": 4040}


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesOptions:
    """Settings of a collection.

    Attributes:
        handle: name or `KIND/NAME` of the workload; None for the pods of the selector, or all Flink and Spark pods.
        namespace: namespace; None for the namespace of the context.
        selector: label selector.
        context: context of the kubeconfig.
        kubeconfig: path of the kubeconfig.
        since_s: maximum age of log lines in seconds; None for no limit.
        log_bytes: maximum size of each log.
        max_pods: maximum pods whose logs are read.
        timeout_s: timeout for each response.
        rest: whether to read the REST API of the JobManager or driver.
    """

    handle: str | None = None
    namespace: str | None = None
    selector: str | None = None
    context: str | None = None
    kubeconfig: str | None = None
    since_s: float | None = None
    log_bytes: int = LOG_BYTES
    max_pods: int = MAX_PODS
    timeout_s: float = 30.0
    rest: bool = True


def collect_kubernetes(
    path: Path,
    options: KubernetesOptions,
    *,
    tool: str,
    progress: ShowProgress,
    stop: threading.Event | None = None,
) -> Outcome:
    """Collect a workload into a folder.

    Args:
        path: a new or empty folder.
        options: what to collect.
        tool: flowdiag's version, for the manifest.
        progress: shows progress.
        stop: set by another thread to end the collection early.

    Raises:
        FlowdiagError: there is no configuration, connection or such workload, or the folder contains files.
    """
    api = KubernetesApi(
        kubeconfig=options.kubeconfig, context=options.context, timeout_s=options.timeout_s
    )
    namespace = options.namespace or api.context_namespace
    try:
        progress("finding the workload")
        try:
            workload = find_workload(api, namespace, options.handle, options.selector, progress)
        except RequestFailed as failed:
            raise FlowdiagError(f"{api.host}: {failed.why}", hint=_hint(failed)) from None
        files = SnapshotFolder(path)
        collector = _Collector(api, workload, options, files, progress, stop or threading.Event())
        files.note(
            what="run",
            schema=SCHEMA,
            kind="kubernetes",
            url=api.host,
            time_ms=now_ms(),
            flowdiag=tool,
            namespace=namespace,
            workload=workload.name,
        )
        return collector.run(tool)
    finally:
        api.close()


def _hint(failed: RequestFailed) -> str:
    if failed.hint is not None:
        return failed.hint
    if failed.status == 403:
        return "`flowdiag collect k8s --print-rbac` prints the role that grants all permissions"
    return "check that `kubectl get pods` works with the same context"


class _Stopped(Exception):
    """Raised if the user ends the collection or the time limit is reached."""


class _Collector:
    def __init__(
        self,
        api: KubernetesApi,
        workload: Workload,
        options: KubernetesOptions,
        files: SnapshotFolder,
        progress: ShowProgress,
        stop: threading.Event,
    ) -> None:
        self._api, self._workload, self._options = api, workload, options
        self._files, self._progress, self._stop = files, progress, stop
        self._base = f"/api/v1/namespaces/{segment(workload.namespace)}"
        self._deadline = time.monotonic() + TOTAL_S
        self._log_bytes_left = ALL_LOG_BYTES
        self._failures = Failures()
        self._warnings: list[str] = []
        self._lock = threading.Lock()

    def run(self, tool: str) -> Outcome:
        """Collect everything; a failure of one kind of data does not affect the others."""
        for why in dict.fromkeys(self._workload.missing):
            self._failures.add(why)
        why, broken = COMPLETE, False
        try:
            for work in (
                self._resources,
                self._pods,
                self._events,
                self._nodes,
                self._configs,
                self._collect_claims,
                self._scalers,
                self._logs,
            ):
                self._check_time()
                work()
            if self._options.rest:
                self._collect_rest_api(tool)
        except RequestFailed as failed:
            why, broken = failed.why, True
        except _Stopped as stopped:
            why, broken = str(stopped), True
        warnings = (*self._warnings, *self._failures.texts())
        why = PARTIAL if warnings and not broken else why
        for warning in warnings:
            self._files.note(what="warning", text=warning)
        self._files.note(what="end", time_ms=now_ms(), why=why)
        return Outcome(
            ticks=len(self._files.names),
            requests=self._api.requests,
            bytes=self._api.bytes,
            why=why,
            warnings=warnings,
            broken=broken,
            resumable=False,
        )

    def _check_time(self) -> None:
        if self._stop.is_set():
            raise _Stopped("interrupted")
        if time.monotonic() > self._deadline:
            raise _Stopped(f"the time limit of {TOTAL_S / 60:g} minutes is reached")

    def _attempt(self, what: str, work: Callable[[], None]) -> None:
        """Collect one part of the data. Record a failure and continue, unless all later requests would fail as well."""
        try:
            work()
        except RequestFailed as failed:
            if failed.fatal:
                raise
            denied = failed.status == 403
            self._failures.add(failed.why, None if denied else what)

    def _get(self, path: str, permission: Permission) -> dict[str, Any] | None:
        """Return an object, or None if it does not exist. Other failures are recorded."""
        found: list[dict[str, Any]] = []

        def work() -> None:
            try:
                found.append(self._api.get(path, permission))
            except RequestFailed as failed:
                if failed.status != 404:
                    raise

        self._attempt(path.rpartition("/")[2], work)
        return found[0] if found else None

    def _resources(self) -> None:
        for resource in self._workload.resources:
            name = as_string(object_at(resource, "metadata").get("name")) or "unnamed"
            kind = str(resource["kind"]).lower()
            self._files.write_object(f"{kind}.{name}", without_secrets(resource))

    def _pods(self) -> None:
        pods = sorted(self._workload.pods.items(), key=lambda pod: (_urgency(pod[1]), pod[0]))
        self._files.write_list("pods", ({"kind": "Pod"} | without_secrets(pod) for _, pod in pods))

    def _list(
        self,
        what: str,
        path: str,
        permission: Permission,
        keep: Callable[[Json], bool],
        **query: str | int,
    ) -> list[Json]:
        """Return the objects of a list that belong to the workload, even if the list is incomplete."""
        found: list[Json] = []

        def work() -> None:
            try:
                for each in self._api.items(path, permission, **query):
                    self._check_time()
                    if keep(each):
                        found.append(without_secrets(each))
            except RequestFailed as failed:
                if failed.status != 404:  # an old Kubernetes without this kind
                    raise

        self._progress(f"reading {what}")
        self._attempt(what, work)
        return found

    def _events(self) -> None:
        owns, nodes = self._workload.owner_test(), set(self._node_names())

        def concerns(owned: Callable[[str], bool]) -> Callable[[Json], bool]:
            return lambda event: owned(str(object_at(event, "involvedObject").get("name")))

        events = self._list("events", f"{self._base}/events", LIST_EVENTS, concerns(owns))
        self._files.write_list("events", ({"kind": "Event", **each} for each in events))
        if nodes:
            events = self._list(
                "node events",
                "/api/v1/namespaces/default/events",
                NODE_EVENTS,
                concerns(nodes.__contains__),
                fieldSelector="involvedObject.kind=Node",
            )
            self._files.write_list("node-events", ({"kind": "Event", **each} for each in events))

    def _node_names(self) -> list[str]:
        """Return the nodes that run the pods; nodes with unhealthy pods come first."""
        pods = sorted(self._workload.pods.values(), key=_urgency)
        names = (object_at(pod, "spec").get("nodeName") for pod in pods)
        return list(dict.fromkeys(name for name in names if isinstance(name, str) and name))

    def _nodes(self) -> None:
        def read(name: str) -> None:
            node = self._get(f"/api/v1/nodes/{segment(name)}", GET_NODE)
            if node is not None:
                status = object_at(node, "status")
                kept = {
                    key: status[key]
                    for key in ("allocatable", "capacity", "conditions")
                    if key in status
                }
                spec = {
                    key: value for key, value in object_at(node, "spec").items() if key == "taints"
                }
                shown = {"kind": "Node", "metadata": {"name": name}, "spec": spec, "status": kept}
                self._files.write_object(f"node.{name}", without_secrets(shown))

        self._each("nodes", read, self._node_names()[:MAX_NODES])

    def _configs(self) -> None:
        """Write the mounted configuration and the state of Flink's autoscaler."""
        mounted = {
            name: None
            for pod in self._workload.pods.values()
            for volume in objects_at(object_at(pod, "spec"), "volumes")
            for name in _config_names(volume)
            if not name.startswith("kube-root-ca")
        }
        scaled = [
            f"autoscaler-{object_at(resource, 'metadata').get('name')}"
            for resource in self._workload.resources
            if resource["kind"] in ("FlinkDeployment", "FlinkSessionJob")
        ]

        def read(name: str) -> None:
            found = self._get(f"{self._base}/configmaps/{segment(name)}", GET_CONFIG)
            if found is None:
                return
            shown = settings_of(found, name) if name in mounted else autoscaler_state(found, name)
            if shown is not None:
                self._files.write_object(f"configmap.{name}", shown)

        self._each("config maps", read, [*list(mounted)[:MAX_CONFIGS], *scaled])

    def _collect_claims(self) -> None:
        names = {
            str(object_at(volume, "persistentVolumeClaim").get("claimName"))
            for pod in self._workload.pods.values()
            for volume in objects_at(object_at(pod, "spec"), "volumes")
            if object_at(volume, "persistentVolumeClaim")
        }
        if names:
            claims = self._list(
                "persistent volume claims",
                f"{self._base}/persistentvolumeclaims",
                LIST_CLAIMS,
                lambda claim: object_at(claim, "metadata").get("name") in names,
            )
            listed = ({"kind": "PersistentVolumeClaim", **each} for each in claims)
            self._files.write_list("persistentvolumeclaims", listed)

    def _scalers(self) -> None:
        """Write the horizontal pod autoscalers of the workload."""
        owns = self._workload.owner_test()
        base = f"/apis/autoscaling/v2/namespaces/{segment(self._workload.namespace)}"
        scalers = self._list(
            "autoscalers",
            f"{base}/horizontalpodautoscalers",
            LIST_SCALERS,
            lambda scaler: owns(_target_of(scaler)),
        )
        listed = ({"kind": "HorizontalPodAutoscaler", **each} for each in scalers)
        self._files.write_list("horizontalpodautoscalers", listed)

    # --- Logs -----------------------------------------------------------------------------------

    def _logs(self) -> None:
        """Read the logs of all containers, several at a time."""
        pods = sorted(self._workload.pods.items(), key=lambda pod: (_urgency(pod[1]), pod[0]))
        most = self._options.max_pods
        if len(pods) > most:
            self._warnings.append(
                f"{len(pods)} pods: only the logs of {most} are read; select pods with -l, or raise --max-pods"
            )
        jobs = [
            (name, container, previous)
            for name, pod in pods[:most]
            for container, previous in _containers(pod)
        ]
        self._each("logs", self._log, jobs)

    def _each(self, what: str, work: Callable[[_Item], None], items: Sequence[_Item]) -> None:
        """Do the work for each item, several at a time, until the time limit."""

        def unless_stopped(item: _Item) -> None:
            self._check_time()
            work(item)

        def show(number: int) -> None:
            self._progress(f"reading {what}: {number} of {len(items)}")

        try:
            in_parallel(unless_stopped, items, after=show)
        except BaseException:
            self._stop.set()
            raise

    def _log(self, job: tuple[str, str, bool]) -> None:
        pod, container, previous = job
        if self._log_bytes_left <= 0:
            why = f"not read: all logs together exceed {ALL_LOG_BYTES >> 30} GiB"
            self._failures.add(why, f"{pod}/{container}")
            return
        try:
            size = self._write_log(pod, container, previous)
        except RequestFailed as failed:
            if failed.status == 404:
                self._failures.add("the pod was gone before its log was read", pod)
            elif failed.status == 400:
                return  # the container has not started, or there is no previous log
            elif failed.fatal and failed.status is not None:
                raise
            else:
                self._failures.add(
                    failed.why, None if failed.status == 403 else f"{pod}/{container}"
                )
        else:
            with self._lock:
                self._log_bytes_left -= size

    def _write_log(self, pod: str, container: str, previous: bool) -> int:
        most = self._options.log_bytes
        name = f"{pod}.{container}{'.previous' if previous else ''}.log"
        query: dict[str, str | int] = {"container": container}
        if previous:
            query["previous"] = "true"
        if self._options.since_s is not None:
            query["sinceSeconds"] = max(1, int(self._options.since_s))
        path = f"{self._base}/pods/{segment(pod)}/log"

        received = lines = 0

        def pieces(**more: int) -> Iterator[bytes]:
            nonlocal received, lines
            received = lines = 0
            chunks = self._api.chunks(path, READ_LOGS, most, **query, **more, limitBytes=most)
            for chunk in chunks:
                self._check_time()
                received += len(chunk)
                lines += chunk.count(b"\n")
                yield chunk

        size = self._files.write(name, masked_lines(pieces()))
        # `limitBytes` keeps the beginning even with `tailLines`, but the end of a large log is more useful.
        tail = 2 * TAIL_LINES
        while received >= most and tail > 1:
            tail = max(1, min(tail // 2, lines * 3 // 4))
            size = self._files.write(name, masked_lines(pieces(tailLines=tail)))
            ignored = lines > tail  # by a proxy that drops the parameters
            why = (
                f"the log is larger than {most >> 20} MiB:"
                f" only its {'first' if ignored else 'last'} lines are kept; --since 2h limits logs by time"
            )
            self._failures.add(why, f"{pod}/{container}")
            if ignored:
                break
        return size

    # --- REST API -------------------------------------------------------------------------------

    def _collect_rest_api(self, tool: str) -> None:
        """Read the REST API of the running JobManager or driver through the proxy of the API server."""
        for name, pod in sorted(self._workload.pods.items()):
            if is_coordinator(pod) and object_at(pod, "status").get("phase") == "Running":
                role = "driver" if labels_of(pod).get("spark-role") == "driver" else "jobmanager"
                self._progress(f"reading the REST API of {name}")
                url = f"{self._api.host}{self._base}/pods/{segment(name)}:{REST_PORTS[role]}/proxy"
                try:
                    asyncio.run(self._collect_rest(url, role, tool))
                except RequestFailed as failed:
                    self._failures.add(failed.why, "REST API")
                except FlowdiagError as error:
                    text = error.message.rpartition(": ")[2]
                    if "(403)" in text:
                        self._failures.add(f"permission denied: {PROXY}", None)
                    else:
                        self._failures.add(text, f"REST API of {name}")
                return

    async def _collect_rest(self, url: str, role: str, tool: str) -> None:
        async with Client(url, self._api.access()) as client:
            folder = Folder(
                self._files.path / "rest", "flink" if role == "jobmanager" else "spark", url
            )
            try:
                if role == "jobmanager":
                    from flowdiag.parsers.live.flink import FlinkOptions, collect_flink

                    await collect_flink(
                        client, folder, FlinkOptions(for_s=0), tool=tool, progress=self._progress
                    )
                else:
                    from flowdiag.parsers.live.spark import SparkOptions, collect_spark

                    await collect_spark(
                        client, folder, SparkOptions(for_s=0), tool=tool, progress=self._progress
                    )
            finally:
                folder.close()


def _target_of(scaler: Json) -> str:
    return str(object_at(object_at(scaler, "spec"), "scaleTargetRef").get("name"))


def _config_names(volume: Json) -> Iterator[str]:
    """Yield the names of the ConfigMaps in a volume."""
    sources = (volume, *objects_at(object_at(volume, "projected"), "sources"))
    for source in sources:
        if name := as_string(object_at(source, "configMap").get("name")):
            yield name


def _containers(pod: Json) -> Iterator[tuple[str, bool]]:
    """Yield the containers of a pod, each with whether to read its log from before the last restart too."""
    status = object_at(pod, "status")
    restarts = {
        str(each.get("name")): as_count(each.get("restartCount")) or 0
        for key in ("initContainerStatuses", "containerStatuses")
        for each in objects_at(status, key)
    }
    spec = object_at(pod, "spec")
    for container in (*objects_at(spec, "containers"), *objects_at(spec, "initContainers")):
        if name := as_string(container.get("name")):
            yield name, False
            if restarts.get(name):
                yield name, True


def _urgency(pod: Json) -> int:
    """Return the order in which to read a pod's logs: coordinators, then unhealthy pods, then the rest."""
    if is_coordinator(pod):
        return 0
    status = object_at(pod, "status")
    statuses = objects_at(status, "containerStatuses")
    troubled = status.get("phase") not in ("Running", "Succeeded") or any(
        each.get("restartCount") for each in statuses
    )
    return 1 if troubled else 2
