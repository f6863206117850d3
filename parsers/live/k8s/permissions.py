"""The permissions that a collection needs, for error messages and `--print-rbac`.

All verbs are read-only. Secrets are never requested.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Permission:
    """A verb on a resource.

    Attributes:
        group: API group; empty for the core group.
        resource: plural name, possibly with a subresource: `pods/log`.
        verb: `get` or `list`.
        scope: `workload` for the workload's namespace, `nodes` for the cluster, `node-events` for the namespace
            `default`.
    """

    group: str
    resource: str
    verb: str
    scope: str = "workload"

    def __str__(self) -> str:
        """Format the permission for messages: `get pods/log`."""
        name = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.verb} {name}"


LIST_PODS: Final = Permission("", "pods", "list")
GET_POD: Final = Permission("", "pods", "get")
READ_LOGS: Final = Permission("", "pods/log", "get")
PROXY: Final = Permission("", "pods/proxy", "get")
LIST_EVENTS: Final = Permission("", "events", "list")
GET_CONFIG: Final = Permission("", "configmaps", "get")
LIST_CLAIMS: Final = Permission("", "persistentvolumeclaims", "list")
LIST_SCALERS: Final = Permission("autoscaling", "horizontalpodautoscalers", "list")
GET_NODE: Final = Permission("", "nodes", "get", "nodes")
NODE_EVENTS: Final = Permission("", "events", "list", "node-events")

FLINK: Final = "flink.apache.org"
SPARK: Final = "sparkoperator.k8s.io"
APACHE_SPARK: Final = "spark.apache.org"

CONTROLLERS: Final[Mapping[str, tuple[tuple[str, str, tuple[str, ...]], ...]]] = {
    "FlinkDeployment": ((FLINK, "flinkdeployments", ("v1beta1",)),),
    "FlinkSessionJob": ((FLINK, "flinksessionjobs", ("v1beta1",)),),
    "SparkApplication": (
        (SPARK, "sparkapplications", ("v1beta2",)),
        (APACHE_SPARK, "sparkapplications", ("v1", "v1beta1", "v1alpha1")),
    ),
    "Deployment": (("apps", "deployments", ("v1",)),),
    "StatefulSet": (("apps", "statefulsets", ("v1",)),),
    "Job": (("batch", "jobs", ("v1",)),),
}
"""API groups, plural names and versions of each kind of handle, in the order in which a bare name is looked up."""

PERMISSIONS: Final = (
    LIST_PODS,
    GET_POD,
    READ_LOGS,
    PROXY,
    LIST_EVENTS,
    GET_CONFIG,
    LIST_CLAIMS,
    LIST_SCALERS,
    *(
        Permission(group, plural, "get")
        for places in CONTROLLERS.values()
        for group, plural, _ in places
    ),
    GET_NODE,
    NODE_EVENTS,
)


def role_yaml(namespace: str, permissions: Iterable[Permission] = PERMISSIONS) -> str:
    """Return roles with these permissions, as YAML documents for `kubectl apply -f -`.

    >>> print(role_yaml("prod", [LIST_PODS, GET_POD]))
    apiVersion: rbac.authorization.k8s.io/v1
    kind: Role
    metadata:
      name: flowdiag
      namespace: prod
    rules:
      - apiGroups: [""]
        resources: ["pods"]
        verbs: ["list", "get"]
    <BLANKLINE>
    """
    scopes: dict[str, dict[tuple[str, str], list[str]]] = {}
    for each in permissions:
        rules = scopes.setdefault(each.scope, {})
        rules.setdefault((each.group, each.resource), []).append(each.verb)
    return "---\n".join(
        "\n".join([*_HEADS[scope].format(namespace=namespace).splitlines(), *_rules(rules)]) + "\n"
        for scope, rules in scopes.items()
    )


_HEADS: Final = {
    "workload": (
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\n"
        "metadata:\n  name: flowdiag\n  namespace: {namespace}\nrules:"
    ),
    "nodes": (
        "# Optional: the conditions of the nodes.\n"
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\n"
        "metadata:\n  name: flowdiag-nodes\nrules:"
    ),
    "node-events": (
        "# Optional: Kubernetes stores the events of nodes in this namespace.\n"
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\n"
        "metadata:\n  name: flowdiag-node-events\n  namespace: default\nrules:"
    ),
}


def _rules(rules: Mapping[tuple[str, str], list[str]]) -> Iterable[str]:
    """Yield the YAML of one rule for all resources of a group that need the same verbs."""
    merged: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for (group, resource), verbs in rules.items():
        merged.setdefault((group, tuple(verbs)), []).append(resource)
    for (group, all_verbs), resources in merged.items():
        yield f'  - apiGroups: ["{group}"]'
        yield "    resources: [" + ", ".join(f'"{each}"' for each in resources) + "]"
        yield "    verbs: [" + ", ".join(f'"{each}"' for each in all_verbs) + "]"
