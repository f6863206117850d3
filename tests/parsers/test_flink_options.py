"""Configuration files as Flink reads them."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from flowdiag.parsers.flink.options import (
    MAX_BYTES,
    flat_options,
    flink_version,
    looks_like_options,
    read_options,
    yaml_options,
)


def test_flat_files_are_read_line_by_line() -> None:
    read = flat_options(
        "# comment\na.b: 1 # behind\nc:2\n\td: 3\ne:\tno blank\na.b: 4\nf: x: y\ng:\n"
    )
    assert read.options == {"a.b": "4", "d": "3", "f": "x: y"}
    assert [line.line for line in read.skipped] == [3, 5, 8]
    assert [(d.key, d.values) for d in read.duplicates] == [("a.b", ("1", "4"))]
    assert read.offsets["d"] == len(b"# comment\na.b: 1 # behind\nc:2\n")


def test_yaml_may_be_nested_flat_or_both() -> None:
    read = yaml_options(
        "taskmanager:\n  memory:\n    process.size: 2g\n    managed: {fraction: 0.2}\n"
        "io.tmp.dirs: [/a, /b]\nempty:\nquoted: '0010'\n"
    )
    assert read.error is None
    assert read.options == {
        "taskmanager.memory.process.size": "2g",
        "taskmanager.memory.managed.fraction": "0.2",
        "io.tmp.dirs": "/a; /b",
        "quoted": "0010",
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a:\n\tb: 1\n", "line 2"),
        ("a: 1\na: 2\n", "duplicate key a"),
        ("a: [1\n", "line"),
        ("- 1\n", "not a mapping"),
    ],
)
def test_yaml_that_flink_rejects(text: str, reason: str) -> None:
    assert reason in (yaml_options(text).error or "")


def test_aliases_do_not_explode() -> None:
    lines = ["a0: &a0 {x: 1, y: 2}"]
    lines += [f"a{i}: &a{i} {{p: *a{i - 1}, q: *a{i - 1}}}" for i in range(1, 60)]
    assert len(yaml_options("\n".join(lines)).options) <= 20_000


def test_the_dialect_follows_version_name_and_content() -> None:
    text = 'a.b: "1"\n'
    assert read_options(text, version=(2, 0)).options == {"a.b": "1"}
    assert read_options(text, version=(1, 17)).options == {"a.b": '"1"'}
    assert read_options(text, name="conf/config.yaml").options == {"a.b": "1"}
    assert read_options("a:\n  b: 1\n").options == {"a.b": "1"}


def test_kubernetes_carriers() -> None:
    config_map = (
        "apiVersion: v1\nkind: ConfigMap\ndata:\n  flink-conf.yaml: |\n"
        "    taskmanager.memory.process.size: 2g\n"
    )
    assert looks_like_options(config_map)
    assert read_options(config_map).options == {"taskmanager.memory.process.size": "2g"}
    deployment = (
        "kind: FlinkDeployment\nspec:\n  flinkVersion: v1_17\n  flinkConfiguration:\n"
        "    taskmanager.memory.managed.fraction: '0.1'\n  taskManager:\n    resource:\n"
        "      memory: 2Gi\n"
    )
    assert read_options(deployment).options == {
        "taskmanager.memory.managed.fraction": "0.1",
        "taskmanager.memory.process.size": "2g",
    }


DEPLOYMENT = {
    "apiVersion": "flink.apache.org/v1beta1",
    "kind": "FlinkDeployment",
    "metadata": {"name": "orders", "ownerReferences": [{"kind": "Deployment", "name": "x"}]},
    "spec": {
        "flinkVersion": "v1_20",
        "flinkConfiguration": {"taskmanager.numberOfTaskSlots": "4"},
        "taskManager": {"resource": {"memory": "2Gi", "cpu": 2}},
    },
}


def _printed(document: Any, form: str) -> str:
    if form == "json":
        return json.dumps(document, indent=4)
    out = io.StringIO()
    YAML().dump(document, out)
    return out.getvalue()


@pytest.mark.parametrize("form", ["json", "yaml"])
@pytest.mark.parametrize("listed", [False, True])
def test_a_deployment_as_kubectl_prints_it(form: str, listed: bool) -> None:
    pod = {"kind": "Pod", "metadata": {"name": "orders-1"}}
    items = {"apiVersion": "v1", "kind": "List", "items": [pod, DEPLOYMENT]}
    text = _printed(items if listed else DEPLOYMENT, form)
    assert looks_like_options(text) and flink_version(text) == (1, 20)
    read = read_options(text)
    assert (read.carrier, read.error) == ("FlinkDeployment", None)
    assert read.options == {
        "taskmanager.numberOfTaskSlots": "4",
        "taskmanager.memory.process.size": "2g",
    }


def test_a_list_of_deployments_is_ambiguous() -> None:
    other = {**DEPLOYMENT, "metadata": {"name": "payments"}}
    read = read_options(_printed({"kind": "List", "items": [DEPLOYMENT, other]}, "json"))
    assert (read.options, read.error) == ({}, None)
    assert read.several == ("orders", "payments")


def test_resources_without_options_are_ignored() -> None:
    system = {
        "kind": "ConfigMap",
        "metadata": {"name": "kube-root-ca.crt"},
        "data": {"ca.crt": "x"},
    }
    job = {
        "kind": "FlinkSessionJob",
        "metadata": {"name": "j"},
        "spec": {"job": {"state": "running"}},
    }
    read = read_options(_printed({"kind": "List", "items": [system, DEPLOYMENT, job]}, "yaml"))
    assert (read.several, read.carrier) == ((), "FlinkDeployment")


def test_a_long_list_is_not_an_invalid_configuration() -> None:
    text = _printed({"kind": "List", "items": [DEPLOYMENT]}, "yaml")
    read = read_options(text + "# filled up\n" * (MAX_BYTES // 10))
    assert (read.options, read.error, read.carrier) == ({}, None, None)


def test_concatenated_documents() -> None:
    pod = {"kind": "Pod", "metadata": {"name": "orders-1"}}
    text = "---\n".join(_printed(one, "yaml") for one in (pod, DEPLOYMENT))
    assert read_options(text).options["taskmanager.numberOfTaskSlots"] == "4"


@pytest.mark.parametrize("mine", [True, False])
def test_invalid_yaml_matters_only_in_the_deployments_own_file(mine: bool) -> None:
    owner = "metadata:\n  ownerReferences:\n    - kind: FlinkDeployment\n      name: flink\n"
    text = "kind: FlinkDeployment\nspec: [\n" if mine else f"kind: Pod\n{owner}status: [\n"
    assert (read_options(text).error is not None) == mine


def test_a_state_of_another_type_is_ignored() -> None:
    read = read_options(_printed({**DEPLOYMENT, "status": {"lifecycleState": {"a": "b"}}}, "yaml"))
    assert read.trouble is None


SUSPENDED = {"jobManagerDeploymentStatus": "MISSING", "jobStatus": {"state": "SUSPENDED"}}


@pytest.mark.parametrize(
    ("requested", "status", "trouble"),
    [
        ("running", SUSPENDED, "jobStatus.state: SUSPENDED"),
        ("suspended", SUSPENDED, None),
        ("suspended", SUSPENDED | {"error": "no savepoint"}, "error: no savepoint"),
        ("running", SUSPENDED | {"lifecycleState": "UPGRADING"}, None),
        ("running", SUSPENDED | {"reconciliationStatus": {"state": "UPGRADING"}}, None),
        ("running", {"lifecycleState": "ROLLED_BACK"}, "lifecycleState: ROLLED_BACK"),
    ],
)
def test_requested_states_are_not_a_problem(
    requested: str, status: dict[str, Any], trouble: str | None
) -> None:
    resource = {**DEPLOYMENT, "spec": {"job": {"state": requested}}, "status": status}
    assert read_options(_printed(resource, "yaml")).trouble == trouble


def test_child_resources_contain_no_options() -> None:
    owner = {"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment", "name": "orders"}
    pod = {"kind": "Pod", "metadata": {"name": "orders-1", "ownerReferences": [owner]}}
    read = read_options(_printed(pod, "yaml"))
    assert (read.options, read.error, read.carrier) == ({}, None, None)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=300))
def test_no_text_raises(text: str) -> None:
    looks_like_options(text)
    for version in (None, (1, 17), (2, 1)):
        read_options(text, version=version)
