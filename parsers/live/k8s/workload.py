"""Finds the pods and resources of a workload from any of its names.

A handle is a name or `KIND/NAME`. A bare name is looked up as each kind in turn, then as the value of a label. The
labels are those of Flink's native integration, the Flink operator, Spark, and both Spark operators.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from flowdiag.parsers.errors import FlowdiagError, nearest
from flowdiag.parsers.json_values import as_string, object_at, objects_at
from flowdiag.parsers.live.client import RequestFailed
from flowdiag.parsers.live.k8s.api import PAGE, KubernetesApi, in_parallel, segment
from flowdiag.parsers.live.k8s.permissions import (
    APACHE_SPARK,
    CONTROLLERS,
    GET_POD,
    LIST_PODS,
    Permission,
)
from flowdiag.parsers.live.watching import ShowProgress

Json = Mapping[str, Any]

_ALIASES: Final = {
    **{kind.lower(): kind for kind in CONTROLLERS},
    "flinkdep": "FlinkDeployment",
    "sessionjob": "FlinkSessionJob",
    "sparkapp": "SparkApplication",
    "deploy": "Deployment",
    "sts": "StatefulSet",
    "pod": "Pod",
    "po": "Pod",
}
_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
_FLINK_TYPES: Final = ("flink-native-kubernetes", "flink-standalone-kubernetes")
_ROLES: Final = ("jobmanager", "taskmanager")
_NAMING_LABELS: Final = (
    "app",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/name",
    "spark-app-name",
    "spark-app-selector",
)
"""Labels whose value is the name of a workload, for names that no resource has."""


@dataclass(slots=True, kw_only=True)
class Workload:
    """The resources and pods of one job or application.

    Attributes:
        name: name in the handle; empty for all Flink and Spark pods of the namespace.
        namespace: namespace of all its objects.
        resources: custom resources and controllers.
        pods: pods by name.
        missing: what could not be read, with the reason.
    """

    name: str
    namespace: str
    resources: list[Json] = field(default_factory=list)
    pods: dict[str, Json] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    def owner_test(self) -> Callable[[str], bool]:
        """Return a predicate for the names of objects that belong to the workload, even if they no longer exist."""
        names = {str(object_at(each, "metadata").get("name")) for each in self.resources}
        names |= {labels_of(pod).get("app", "") for pod in self.pods.values() if is_flink(pod)}
        names = {name for name in (*names, self.name) if name and "=" not in name}

        def owns(name: str) -> bool:
            # Once per event of the namespace, so each name is looked up instead of compared.
            parts = name.split("-")
            beginnings = ("-".join(parts[:count]) for count in range(1, len(parts) + 1))
            return name in self.pods or any(each in names for each in beginnings)

        return owns


def find_workload(
    api: KubernetesApi,
    namespace: str,
    handle: str | None,
    selector: str | None,
    progress: ShowProgress,
) -> Workload:
    """Find a workload.

    Raises:
        FlowdiagError: the handle is invalid, or nothing has this name.
        RequestFailed: the server does not respond, or denies listing pods.
    """
    workload = Workload(name=handle or selector or "", namespace=namespace)
    finder = _Finder(api, workload, progress)
    if handle is not None:
        finder.by_handle(handle)
    elif selector is not None:
        finder.add_pods(selector)
    else:
        finder.add_pods("type in (flink-native-kubernetes,flink-standalone-kubernetes)")
        finder.add_pods(f"component in ({','.join(_ROLES)})")
        finder.add_pods("spark-role in (driver,executor)")
        finder.has_all_pods = True
    finder.add_siblings()
    finder.add_owners()
    found = finder.found
    if not found.pods and not found.resources:
        raise FlowdiagError(
            _not_found_message(found, handle, selector),
            hint="check the name and the namespace (-n): `kubectl get pods --show-labels` lists both",
        )
    return found


def _not_found_message(found: Workload, handle: str | None, selector: str | None) -> str:
    where = f"in namespace '{found.namespace}'"
    if handle is None:
        what = f"no pod matches '{selector}'" if selector else "no Flink or Spark pod"
        return f"{what} {where}"
    missing = f"; {'; '.join(list(dict.fromkeys(found.missing))[:4])}" if found.missing else ""
    return f"no resource is named '{handle}' {where}{missing}"


class _Finder:
    def __init__(self, api: KubernetesApi, found: Workload, progress: ShowProgress) -> None:
        self._api, self.found, self._progress = api, found, progress
        self._base = f"/api/v1/namespaces/{segment(found.namespace)}"
        self._listed: set[str] = set()
        self.has_all_pods = False

    def by_handle(self, handle: str) -> None:
        """Look up a handle as each kind, then as the value of a label."""
        kind, slash, name = handle.rpartition("/")
        selected = _ALIASES.get(kind.lower().partition(".")[0].removesuffix("s")) or _ALIASES.get(
            kind.lower()
        )
        if slash and selected is None:
            raise FlowdiagError(f"unknown kind '{kind}'", hint=nearest(kind.lower(), _ALIASES))
        if _NAME.fullmatch(name) is None:
            raise FlowdiagError(
                f"'{handle}' is not the name of a resource",
                hint="use a name such as orders or pod/orders-1",
            )
        self.found.name = name
        for each in CONTROLLERS if selected is None else [selected]:
            if each in CONTROLLERS and self._add_resource(each, name):
                return
        if selected in (None, "Pod") and self._add_pod(name):
            return
        if selected is None:
            for label in _NAMING_LABELS:
                if len(name) <= 63 and self.add_pods(f"{label}={name}"):
                    return

    def add_pods(self, selector: str) -> bool:
        """Add the pods that match a selector; return whether there are any."""
        if selector in self._listed or self.has_all_pods:
            return False
        self._listed.add(selector)
        pods: dict[str, Json] = {}
        try:
            for pod in self._api.items(f"{self._base}/pods", LIST_PODS, labelSelector=selector):
                pods[str(object_at(pod, "metadata").get("name"))] = pod
                if len(pods) % PAGE == 0:
                    self._progress(f"finding the workload: {len(pods):,} pods")
        except RequestFailed as failed:
            if failed.fatal or not pods:
                raise
            self.found.missing.append(f"pods: {failed.why}")
        self.found.pods |= pods
        return bool(pods)

    def _add_pod(self, name: str) -> bool:
        pod = self._get(f"{self._base}/pods/{name}", GET_POD)
        if pod is not None:
            self.found.pods[name] = pod
        return pod is not None

    def _add_resource(self, kind: str, name: str) -> bool:
        """Add a resource and its pods; return whether it exists."""
        for group, plural, versions in CONTROLLERS[kind]:
            for version in versions:
                path = f"/apis/{group}/{version}/namespaces/{segment(self.found.namespace)}/{plural}/{name}"
                resource = self._get(path, Permission(group, plural, "get"))
                if resource is not None:
                    resource.setdefault("kind", kind)
                    self.found.resources.append(resource)
                    for selector in self._selectors(kind, group, name, resource):
                        self.add_pods(selector)
                    return True
        return False

    def _selectors(self, kind: str, group: str, name: str, resource: Json) -> Iterator[str]:
        spec = object_at(resource, "spec")
        if kind == "FlinkDeployment":
            yield f"app={name}"
        elif kind == "FlinkSessionJob":
            cluster = as_string(spec.get("deploymentName"))
            if cluster and _NAME.fullmatch(cluster):
                self._add_resource("FlinkDeployment", cluster)
        elif kind == "SparkApplication":
            label = (
                "spark.operator/spark-app-name"
                if group == APACHE_SPARK
                else "sparkoperator.k8s.io/app-name"
            )
            yield f"{label}={name}"
        else:
            labels = dict(object_at(object_at(spec, "selector"), "matchLabels"))
            template = labels_of(object_at(spec, "template"))
            if template.get("app") and template.get("component") in _ROLES:
                # The JobManager's controller selects only its own pods, not the TaskManagers.
                labels = {"app": template["app"]}
            if labels:
                yield ",".join(f"{key}={value}" for key, value in sorted(labels.items()))

    def add_siblings(self) -> None:
        """Add the TaskManagers and executors that the labels of the pods refer to."""
        selectors: dict[str, None] = {}
        for pod in self.found.pods.values():
            labels = labels_of(pod)
            if application := labels.get("spark-app-selector"):
                selectors[f"spark-app-selector={application}"] = None
            if labels.get("type") in _FLINK_TYPES and (cluster := labels.get("app")):
                selectors[f"app={cluster},type={labels['type']}"] = None
        in_parallel(self.add_pods, selectors)

    def add_owners(self) -> None:
        """Add the custom resources that the pods' labels and owners refer to."""
        known = {
            (str(each.get("kind")), str(object_at(each, "metadata").get("name")))
            for each in self.found.resources
        }
        references: set[tuple[str, str]] = set()
        for each in (*self.found.resources, *self.found.pods.values()):
            for owner in objects_at(object_at(each, "metadata"), "ownerReferences"):
                references.add((str(owner.get("kind")), str(owner.get("name"))))
        for pod in self.found.pods.values():
            labels = labels_of(pod)
            if labels.get("type") in _FLINK_TYPES and (cluster := labels.get("app")):
                references.add(("FlinkDeployment", cluster))
            if name := labels.get("sparkoperator.k8s.io/app-name") or labels.get(
                "spark.operator/spark-app-name"
            ):
                references.add(("SparkApplication", name))

        def add(owner: tuple[str, str]) -> None:
            kind, name = owner
            if kind in ("FlinkDeployment", "SparkApplication") and _NAME.fullmatch(name):
                self._add_resource(kind, name)

        in_parallel(add, sorted(references - known))

    def _get(self, path: str, permission: Permission) -> dict[str, Any] | None:
        """Return an object, or None if it does not exist or the permission is missing."""
        try:
            return self._api.get(path, permission)
        except RequestFailed as failed:
            if failed.status == 403:
                self.found.missing.append(failed.why)
                return None
            if failed.status in (400, 404, 405):
                return None
            raise


def labels_of(resource: Json) -> dict[str, str]:
    """Return the labels of a resource or pod template."""
    labels = object_at(object_at(resource, "metadata"), "labels")
    return {str(key): value for key, value in labels.items() if isinstance(value, str)}


def is_flink(pod: Json) -> bool:
    """Return whether a pod has the labels of one of Flink's integrations."""
    labels = labels_of(pod)
    return labels.get("type") in _FLINK_TYPES or labels.get("component") in _ROLES


def is_coordinator(pod: Json) -> bool:
    """Return whether a pod runs a JobManager or a Spark driver."""
    labels = labels_of(pod)
    return labels.get("component") == "jobmanager" or labels.get("spark-role") == "driver"
