"""Pods and events as objects: reasons, times, limits, and the byte offset of the cited line."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from flowdiag.parsers.flink.container_texts import ended_containers, looks_like_kubectl
from flowdiag.parsers.kubernetes.objects import EndedContainer
from tests.fake_kubernetes import Json, event, pod, resource

LABELS = {"app": "orders"}
NODES = (
    "0/5 nodes are available: 3 Insufficient memory, 2 node(s) had untolerated taint {dedicated: gpu, x: y}."
    " preemption: 0/5 nodes are available: 5 No preemption victims found."
)


def as_list(*objects: Json) -> Json:
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}


def as_yaml(value: Json) -> str:
    """Return YAML in the layout of kubectl, which does not indent lists."""
    text = io.StringIO()
    writer = YAML()
    writer.indent(mapping=2, sequence=2, offset=0)
    writer.dump(value, text)
    return text.getvalue()


def read(value: Json, form: str) -> list[EndedContainer]:
    text = (
        as_yaml(value) if form == "yaml" else json.dumps(value, indent=4 if form == "json" else 2)
    )
    assert looks_like_kubectl(text)
    found = list(ended_containers(text))
    for each in found:
        line = text.encode()[each.offset :].split(b"\n")[0].decode()
        assert "reason" in line, line
    return found


FORMS = pytest.mark.parametrize("form", ["json", "yaml", "collected"])
MEMORY = {"limits": {"memory": "2Gi"}}


@FORMS
def test_a_killed_container_with_its_limit_time_and_restarts(form: str) -> None:
    ended = {"reason": "OOMKilled", "exitCode": 137, "finishedAt": "2026-11-20T23:28:12Z"}
    state = {
        "restartCount": 3,
        "lastState": {"terminated": ended},
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
    }
    healthy = pod("b", labels=LABELS)
    (found,) = read(
        as_list(healthy, pod("a-1", labels=LABELS, state=state, resources=MEMORY), healthy), form
    )
    assert (found.reason, found.exit_code, found.pod, found.restarts) == (
        "OOMKilled",
        137,
        "a-1",
        3,
    )
    assert (found.memory_limit, found.time_us) == (2 << 30, 1_795_217_292_000_000)


STATUSES: dict[str, tuple[dict[str, Any], str, str]] = {
    "evicted": (
        {
            "phase": "Failed",
            "reason": "Evicted",
            "message": "The node was low on resource: ephemeral-storage.",
        },
        "Evicted",
        "Evicted: The node was low on resource: ephemeral-storage.",
    ),
    "unschedulable": (
        {
            "phase": "Pending",
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": NODES,
                }
            ],
        },
        "FailedScheduling",
        f"Unschedulable: {NODES}",
    ),
    "preempted": (
        {
            "conditions": [
                {
                    "type": "DisruptionTarget",
                    "status": "True",
                    "reason": "PreemptionByScheduler",
                    "message": "by x",
                }
            ]
        },
        "Preempted",
        "PreemptionByScheduler: by x",
    ),
}


@FORMS
@pytest.mark.parametrize("name", STATUSES)
def test_the_status_of_a_pod(name: str, form: str) -> None:
    status, reason, text = STATUSES[name]
    (found,) = read(
        as_list(pod("a-1", labels=LABELS, status=status | {"containerStatuses": []})), form
    )
    assert (found.reason, found.pod, found.text) == (
        reason,
        "a-1",
        text[: 300 + len("Unschedulable: ")],
    )


A = resource("Pod", "a-1")
EVENTS = {
    "image": ("Failed", 'Failed to pull image "x": not found', "ErrImagePull"),
    "back-off": ("BackOff", 'Back-off pulling image "x"', "ImagePullBackOff"),
    "crash": (
        "BackOff",
        "Back-off restarting failed container main in pod a-1",
        "CrashLoopBackOff",
    ),
    "volume": ("FailedMount", 'MountVolume.SetUp failed for volume "state"', "FailedMount"),
    "attach": ("FailedAttachVolume", "Multi-Attach error for volume", "FailedAttachVolume"),
    "probe": ("Killing", "Container main failed liveness probe, will be restarted", "ProbeKilled"),
    "taint": ("TaintManagerEviction", "Marking for deletion Pod prod/a-1", "Evicted"),
    "preempted": ("Preempted", "Preempted by pod 7f on node worker-1", "Preempted"),
    "nodes": ("FailedScheduling", NODES, "FailedScheduling"),
}


@FORMS
@pytest.mark.parametrize("name", EVENTS)
def test_an_event_of_a_pod(name: str, form: str) -> None:
    reason, message, expected = EVENTS[name]
    other = event(resource("Deployment", "a"), "ScalingReplicaSet", "Scaled up", kind="Normal")
    (found,) = read(as_list(other, event(A, reason, message, count=7)), form)
    assert (found.reason, found.pod, found.count) == (expected, "a-1", 7)
    assert (
        found.text.startswith(f"{reason}: {message[:40]}")
        and found.time_us == 1_795_217_291_000_000
    )


@FORMS
def test_later_progress_resolves_a_problem(form: str) -> None:
    failed = event(A, "FailedScheduling", NODES, at="2026-11-20T23:28:11Z")
    placed = event(
        A, "Scheduled", "Successfully assigned", kind="Normal", at="2026-11-20T23:29:00Z"
    )
    before = event(
        A, "Scheduled", "Successfully assigned", kind="Normal", at="2026-11-20T23:20:00Z"
    )
    another = event(
        resource("Pod", "a-2"), "Scheduled", "x", kind="Normal", at="2026-11-20T23:29:00Z"
    )
    assert read(as_list(failed, placed), form) == []
    assert len(read(as_list(failed, before, another), form)) == 1


def test_healthy_objects_and_other_kinds_give_no_rows() -> None:
    template: Json = {"spec": {"podTemplate": {"apiVersion": "v1", "kind": "Pod"}}}
    deployment = resource("FlinkDeployment", "orders", "flink.apache.org/v1beta1", **template)
    for text in (
        json.dumps(deployment, indent=2),
        json.dumps(deployment, indent=4),
        as_yaml(deployment),
    ):
        assert not looks_like_kubectl(text)
    assert (
        read(as_list(pod("a", labels=LABELS), event(A, "Pulled", "x", kind="Normal")), "json") == []
    )


def test_a_truncated_document_is_read_by_line() -> None:
    ended = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    text = json.dumps(as_list(pod("a-1", labels=LABELS, state={"lastState": ended})), indent=2)
    (found,) = ended_containers(text[: text.index("OOMKilled") + 12])
    assert (found.reason, found.exit_code) == ("OOMKilled", 137)


@settings(max_examples=60, deadline=None)
@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "items",
                        "kind",
                        "status",
                        "involvedObject",
                        "reason",
                        "containerStatuses",
                        "state",
                        "terminated",
                        "metadata",
                    ]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=20,
    )
)
def test_no_object_raises(value: Any) -> None:
    text = '{"kind": "Pod", "reason": "Evicted", "status": ' + json.dumps(value) + "}"
    list(ended_containers(text))
    list(ended_containers(json.dumps({"items": [value, "Evicted"], "involvedObject": 1}, indent=1)))


def test_the_heap_of_a_killed_executor() -> None:
    env = [{"name": "SPARK_EXECUTOR_MEMORY", "value": "1024m"}]
    ended = {"reason": "OOMKilled", "exitCode": 137}
    status = {"containerStatuses": [{"name": "executor", "state": {"terminated": ended}}]}
    pod = {"kind": "Pod", "metadata": {"name": "billing-exec-1"}, "status": status}
    spec = {
        "containers": [
            {"name": "executor", "env": env, "resources": {"limits": {"memory": "1408Mi"}}}
        ]
    }
    (found,) = ended_containers(json.dumps(pod | {"spec": spec}, indent=1))
    assert (found.heap, found.memory_limit) == (1024 << 20, 1408 << 20)


@pytest.mark.parametrize(
    ("kind", "status", "reason"),
    [
        ("MemoryPressure", "True", "NodePressure"),
        ("DiskPressure", "False", None),
        ("Ready", "Unknown", "NodeNotReady"),
        ("NTPProblem", "True", "ClockProblem"),
        ("NTPProblem", "False", None),
        ("Ready", "True", None),
    ],
)
def test_conditions_of_a_node(kind: str, status: str, reason: str | None) -> None:
    condition = {"type": kind, "status": status, "reason": "KubeletHas", "message": "as it is"}
    fine = {"type": "PIDPressure", "status": "False"}
    status_of = {"conditions": [fine, condition]}
    node = {"kind": "Node", "metadata": {"name": "worker-1"}, "status": status_of}
    found = list(ended_containers(json.dumps(node, indent=2)))
    assert [(each.reason, each.pod) for each in found] == ([(reason, "worker-1")] if reason else [])


def test_the_node_of_a_pod_and_of_an_event() -> None:
    status = {"reason": "Evicted", "message": "low on memory"}
    gone = {"kind": "Pod", "metadata": {"name": "a"}, "spec": {"nodeName": "n"}, "status": status}
    about = {"kind": "Node", "name": "n"}
    pressure = {"kind": "Event", "involvedObject": about, "reason": "NodeHasDiskPressure"}
    listed: Json = {"kind": "List", "items": [gone, pressure | {"message": "status is now: x"}]}
    clock = {"kind": "Event", "involvedObject": about, "reason": "NTPIsDown", "type": "Warning"}
    listed["items"].append(clock | {"message": "ntp.service is not running"})
    found = list(ended_containers(json.dumps(listed, indent=2)))
    assert [(each.reason, each.pod, each.node) for each in found] == [
        ("Evicted", "a", "n"),
        ("NodePressure", "n", "n"),
        ("ClockProblem", "n", "n"),
    ]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"applicationState": {"state": "SUBMISSION_FAILED", "errorMessage": "no such main class"}}, ("SubmissionFailed", "SUBMISSION_FAILED: no such main class")),
        ({"currentState": {"currentStateSummary": "SchedulingFailure", "message": "quota"}}, ("SubmissionFailed", "SchedulingFailure: quota")),
        ({"currentState": {"currentStateSummary": "DriverEvicted"}}, ("Evicted", "DriverEvicted")),
        ({"applicationState": {"state": "RUNNING"}}, None),
        ({"currentState": {"currentStateSummary": "RunningHealthy"}}, None),
        ({"applicationState": {"state": "FAILED", "errorMessage": "the driver ran"}}, ("DriverFailed", "FAILED: the driver ran")),
    ],
)  # fmt: skip
def test_a_spark_application_that_failed(
    status: dict[str, Any], expected: tuple[str, str] | None
) -> None:
    application = {"kind": "SparkApplication", "metadata": {"name": "billing"}, "status": status}
    text = json.dumps(application, indent=2)
    assert looks_like_kubectl(text)
    found = [(each.reason, each.text) for each in ended_containers(text)]
    assert found == ([expected] if expected else [])


def operator_events() -> tuple[Json, Json, Json, Json]:
    orders = resource("FlinkDeployment", "orders", "flink.apache.org/v1beta1")
    return (
        event(orders, "SavepointError", "Savepoint failed", at="2026-11-20T23:28:12Z"),
        event(orders, "RestartUnhealthyJob", "JobManager is unhealthy", at="2026-11-20T23:29:00Z"),
        event(orders, "ScalingReport", "Scaling execution enabled", at="2026-11-20T23:29:30Z"),
        event(orders, "Submit", "Starting deployment", kind="Normal"),
    )


@FORMS
def test_warnings_of_an_operator_about_its_resources(form: str) -> None:
    found = read(as_list(*operator_events()), form)
    assert [(each.reason, each.pod) for each in found] == [
        ("SavepointFailed", "orders"),
        ("OperatorWarning", "orders"),
    ]
    assert found[1].text == "RestartUnhealthyJob: JobManager is unhealthy"


def test_a_job_that_runs_again_resolves_the_warnings_of_its_operator() -> None:
    orders = resource("FlinkDeployment", "orders", "flink.apache.org/v1beta1")
    message = "Job status changed from RECONCILING to RUNNING"
    runs = event(orders, "JobStatusChanged", message, kind="Normal", at="2026-11-20T23:40:00Z")
    found = read(as_list(*operator_events(), runs), "json")
    assert [each.reason for each in found] == ["SavepointFailed"]


def test_events_on_one_line_and_one_event_per_line() -> None:
    events = operator_events()
    for text in (json.dumps(as_list(*events)), "\n".join(map(json.dumps, events))):
        assert looks_like_kubectl(text)
        assert [each.reason for each in ended_containers(text)] == [
            "SavepointFailed",
            "OperatorWarning",
        ]


@pytest.mark.parametrize("header", [True, False])
def test_printed_events_about_a_resource(header: bool) -> None:
    text = (
        "LAST SEEN   TYPE      REASON           OBJECT                   MESSAGE\n"
        * header
        + "3m          Warning   SavepointError   flinkdeployment/orders   Savepoint failed for nonce: 3\n"
        "5m          Normal    Submit           flinkdeployment/orders   Starting deployment\n"
    )
    assert looks_like_kubectl(text)
    (found,) = ended_containers(text)
    assert (found.reason, found.pod) == ("SavepointFailed", "orders")
    assert found.text == "SavepointError: Savepoint failed for nonce: 3"


@FORMS
@pytest.mark.parametrize("state", ["ROLLING_BACK", "ROLLED_BACK", "STABLE"])
def test_an_upgrade_that_the_operator_rolls_back(state: str, form: str) -> None:
    status = {"lifecycleState": state, "jobStatus": {"state": "RUNNING"}}
    orders = {"kind": "FlinkDeployment", "metadata": {"name": "orders"}, "status": status}
    text = as_yaml(orders) if form == "yaml" else json.dumps(orders, indent=2)
    assert looks_like_kubectl(text) == (state != "STABLE")
    found = [(each.reason, each.pod) for each in ended_containers(text)]
    assert found == ([] if state == "STABLE" else [("RolledBack", "orders")])
    assert all(text[each.offset :].startswith(state) for each in ended_containers(text))
