"""A Kubernetes API server in memory: objects, logs, permissions, and misbehaviour on demand.

It is written from the API definitions and serves the real client library and kubectl. It enforces the rules of the roles
that `flowdiag collect k8s --print-rbac` prints.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests.fake_server import Reply, as_json

Json = dict[str, Any]
Query = dict[str, list[str]]

PLURALS = {
    "Pod": "pods",
    "Event": "events",
    "ConfigMap": "configmaps",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "HorizontalPodAutoscaler": "horizontalpodautoscalers",
    "Node": "nodes",
    "Deployment": "deployments",
    "StatefulSet": "statefulsets",
    "Job": "jobs",
    "FlinkDeployment": "flinkdeployments",
    "FlinkSessionJob": "flinksessionjobs",
    "SparkApplication": "sparkapplications",
}


def resource(kind: str, name: str, api: str = "v1", namespace: str = "prod", **fields: Any) -> Json:
    """Return an object; `metadata` in the fields is merged."""
    metadata = {"name": name, "namespace": namespace, "uid": f"{kind}-{name}"} | fields.pop(
        "metadata", {}
    )
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **fields}


def pod(name: str, *, labels: Mapping[str, str], container: str = "main", **fields: Any) -> Json:
    """Return a running pod with one container; `status`, `spec` and `metadata` in the fields are merged."""
    state = {"name": container, "restartCount": 0, "ready": True, "image": "flink:1.20"}
    status = {"phase": "Running", "containerStatuses": [state | fields.pop("state", {})]}
    spec = {
        "nodeName": "worker-1",
        "containers": [
            {"name": container, "image": "flink:1.20", "resources": fields.pop("resources", {})}
        ],
    }
    metadata = {"labels": dict(labels)} | fields.pop("metadata", {})
    return resource(
        "Pod",
        name,
        metadata=metadata,
        spec=spec | fields.pop("spec", {}),
        status=status | fields.pop("status", {}),
        **fields,
    )


def event(
    about: Json,
    reason: str,
    message: str,
    *,
    kind: str = "Warning",
    at: str = "2026-11-20T23:28:11Z",
    count: int = 1,
) -> Json:
    """Return an event about an object."""
    names = about["metadata"]
    return resource(
        "Event",
        f"{names['name']}.{reason.lower()}",
        namespace="default" if about["kind"] == "Node" else names["namespace"],
        involvedObject={
            "kind": about["kind"],
            "name": names["name"],
            "namespace": names["namespace"],
        },
        reason=reason,
        message=message,
        type=kind,
        firstTimestamp=at,
        lastTimestamp=at,
        count=count,
        source={"component": "kubelet"},
    )


Rule = tuple[str, str, str, str]
"""Namespace ("" for all), API group, resource with subresource, verb."""


def rules_of(roles: str) -> set[Rule]:
    """Return the rules of roles in YAML."""
    found: set[Rule] = set()
    for role in YAML(typ="safe").load_all(roles):
        namespace = "" if role["kind"] == "ClusterRole" else role["metadata"]["namespace"]
        for rule in role["rules"]:
            assert set(rule) == {"apiGroups", "resources", "verbs"}
            found |= {
                (namespace, group, each, verb)
                for group in rule["apiGroups"]
                for each in rule["resources"]
                for verb in rule["verbs"]
            }
    return found


@dataclass
class FakeCluster:
    """Answers requests about one or more namespaces.

    Attributes:
        objects: objects of any kind.
        logs: by (pod, container, whether of the container before the last restart).
        rules: the allowed requests; None allows all.
        answers: replies by path, which take precedence over everything else.
        rest: answers the REST API behind `pods/proxy`.
        used: the rules that the requests so far required.
    """

    objects: list[Json] = field(default_factory=list)
    logs: dict[tuple[str, str, bool], bytes | Callable[[], bytes]] = field(default_factory=dict)
    rules: set[Rule] | None = None
    answers: dict[str, Reply] = field(default_factory=dict)
    rest: Callable[[str, Query], Reply] | None = None
    used: set[Rule] = field(default_factory=set)
    token: str = "t0ken"

    def __call__(self, path: str, query: Query) -> Reply:
        """Answer one GET request."""
        if path in self.answers:
            return self.answers[path]
        if path in ("/api", "/apis") or (path.count("/") <= 3 and not path.startswith("/api/v1/n")):
            return self._discovery(path)
        parts = path.strip("/").split("/")
        group, version = ("", parts[1]) if parts[0] == "api" else (parts[1], parts[2])
        rest = parts[2:] if parts[0] == "api" else parts[3:]
        namespace = ""
        if rest[:1] == ["namespaces"] and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        plural, name, *sub = [*rest, ""] if len(rest) == 1 else rest
        name = name.partition(":")[0]
        verb = "get" if name else "list"
        rule = (namespace, group, "/".join([plural, *sub[:1]]), verb)
        self.used.add(rule)
        if self.rules is not None and rule not in self.rules:
            what = f'{rule[2]} is forbidden: User "me" cannot {verb} resource "{rule[2]}"'
            return _status(403, "Forbidden", what)
        if sub[:1] == ["proxy"]:
            inner = "/" + "/".join(sub[1:])
            return (
                self.rest(inner, query)
                if self.rest is not None
                else _status(503, "ServiceUnavailable", "no endpoints")
            )
        return self._stored(
            namespace, f"{group}/{version}" if group else version, plural, name, sub, query
        )

    def _stored(
        self, namespace: str, api: str, plural: str, name: str, sub: list[str], query: Query
    ) -> Reply:
        found = [
            each
            for each in self.objects
            if PLURALS[each["kind"]] == plural
            and each["apiVersion"] == api
            and (plural == "nodes" or each["metadata"]["namespace"] == namespace)
        ]
        if not name:
            return _list(plural, [each for each in found if _matches(each, query)], query)
        one = next((each for each in found if each["metadata"]["name"] == name), None)
        if one is None:
            return _status(404, "NotFound", f'{plural} "{name}" not found')
        return self._log(name, query) if sub == ["log"] else as_json(one)

    def _log(self, name: str, query: Query) -> Reply:
        container = query.get("container", [""])[0]
        previous = query.get("previous") == ["true"]
        log = self.logs.get((name, container, previous))
        if log is None:
            return _status(
                400, "BadRequest", f'container "{container}" in pod "{name}" is waiting to start'
            )
        data = log if isinstance(log, bytes) else log()
        if "tailLines" in query:
            data = b"".join(data.splitlines(keepends=True)[-int(query["tailLines"][0]) :])
        if "limitBytes" in query:
            data = data[: int(query["limitBytes"][0])]
        return Reply(data, kind="text/plain")

    def _discovery(self, path: str) -> Reply:
        """List APIs and resources, which kubectl requests first and every user may read."""
        if path == "/api":
            return as_json({"kind": "APIVersions", "versions": ["v1"]})
        if path == "/apis":
            return as_json({"kind": "APIGroupList", "apiVersion": "v1", "groups": []})
        resources = [
            {
                "name": plural,
                "singularName": kind.lower(),
                "namespaced": kind != "Node",
                "kind": kind,
                "verbs": ["get", "list"],
            }
            for kind, plural in PLURALS.items()
        ]
        return as_json({"kind": "APIResourceList", "groupVersion": "v1", "resources": resources})


def _list(plural: str, found: list[Json], query: Query) -> Reply:
    kind = next(each for each, name in PLURALS.items() if name == plural)
    limit = int(query.get("limit", ["0"])[0]) or len(found)
    begin = int(query.get("continue", ["0"])[0])
    metadata = {"continue": str(begin + limit)} if begin + limit < len(found) else {}
    # Like the real server, without the kinds of the items.
    items = [
        {key: value for key, value in each.items() if key not in ("kind", "apiVersion")}
        for each in found[begin : begin + limit]
    ]
    return as_json(
        {"kind": f"{kind}List", "apiVersion": "v1", "metadata": metadata, "items": items}
    )


def _status(code: int, reason: str, message: str) -> Reply:
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": reason,
        "message": message,
        "code": code,
    }
    return as_json(body, status=code)


def _matches(one: Json, query: Query) -> bool:
    labels = one["metadata"].get("labels", {})
    for selector in query.get("labelSelector", []):
        for part in _requirements(selector):
            key, _, value = part.partition("=")
            if " in " in part:
                key, _, values = part.partition(" in ")
                if labels.get(key.strip()) not in values.strip(" ()").split(","):
                    return False
            elif labels.get(key) != value:
                return False
    for selector in query.get("fieldSelector", []):
        key, _, value = selector.partition("=")
        at: Any = one
        for name in key.split("."):
            at = at.get(name, {})
        if at != value:
            return False
    return True


def _requirements(selector: str) -> Iterable[str]:
    """Split a selector at its commas, except within the values of `in`."""
    part = ""
    for piece in selector.split(","):
        part = f"{part},{piece}" if part else piece
        if part.count("(") == part.count(")"):
            yield part
            part = ""


def kubeconfig(
    folder: Path, url: str, *, token: str = "t0ken", namespace: str = "prod", **user: Any
) -> Path:
    """Write a kubeconfig with one context, `test`."""
    path = folder / "kubeconfig"
    text = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [
            {"name": "test", "context": {"cluster": "c", "user": "u", "namespace": namespace}}
        ],
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": user or {"token": token}}],
    }
    path.write_text(json.dumps(text))
    return path
