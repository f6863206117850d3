"""Ended and waiting containers in YARN's answers, and in what its commands print."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowdiag.parsers.flink.container_texts import ended_containers, reports_ended_containers
from flowdiag.parsers.yarn.answers import looks_like_yarn

APP = "application_1700000000000_0007"
WORKER = "container_1700000000000_0007_01_000003"
NOT_ACTIVATED = (
    "[Tue Nov 14 22:14:50 +0000 2023] Application is added to the scheduler and is not yet activated. Queue's AM"
    " resource limit exceeded.  Details : AM Partition = <DEFAULT_PARTITION>; AM Resource Request ="
    " <memory:1024, vCores:1>; Queue Resource Limit for AM = <memory:1024, vCores:1>; "
)
KILLED_MASTER = (
    f"Application {APP} failed 2 times due to AM Container for appattempt_1700000000000_0007_000002 exited with "
    " exitCode: {code}\nFailing this attempt.Diagnostics: {text}\n. Failing the application."
)


def container(status: int, diagnostics: str = "", **more: Any) -> dict[str, Any]:
    return {
        "containerId": WORKER,
        "allocatedMB": "1024",
        "finishedTime": 1700000050000,
        "diagnosticsInfo": diagnostics,
        "containerExitStatus": status,
        "containerState": "COMPLETE",
        "nodeHttpAddress": "http://worker-1:8042",
    } | more


@pytest.mark.parametrize(
    ("status", "diagnostics", "reason"),
    [
        (
            -104,
            "Container [pid=4,containerID=c] is running 9MB beyond the 'PHYSICAL' memory limit",
            "OOMKilled",
        ),
        (137, "Killed by external signal", "Killed"),
        (143, "is running 1MB beyond the 'PHYSICAL' memory limit. Killed on request", "OOMKilled"),
        (-103, "beyond the 'VIRTUAL' memory limit", "OOMKilled"),
        (-102, "Container preempted by scheduler", "Preempted"),
        (-101, "", "DisksFailed"),
        (-1000, "File does not exist: hdfs://nn/job.jar", "LocalizationFailed"),
        (-100, "Container released on a *lost* node", "NodeLost"),
        (-100, "Container released by application", None),
        (-105, "Container killed by the ApplicationMaster.", None),
        (-106, "Container killed by the ResourceManager", None),
        (143, "Container killed on request. Exit code is 143", None),
        (0, "", None),
        (1, "Exception from container-launch.", None),
    ],
)
def test_exit_statuses_of_containers(status: int, diagnostics: str, reason: str | None) -> None:
    answer = {"containers": {"container": [container(status, diagnostics)]}}
    text = json.dumps(answer, indent=2)
    assert reports_ended_containers(text)
    found = list(ended_containers(text))
    assert [each.reason for each in found] == ([reason] if reason else [])
    for each in found:
        assert (each.pod, each.time_us) == (WORKER, 1700000050000000)
        assert text.encode()[each.offset :].startswith(f'"{WORKER}"'.encode())
        if each.reason == "OOMKilled":
            assert each.text.endswith("memory limit") and "pid" not in each.text
        assert each.memory_limit == (1 << 30 if reason == "OOMKilled" else None)


def test_a_running_container_has_not_ended() -> None:
    running = container(-1000, containerState="RUNNING")
    assert not list(ended_containers(json.dumps({"container": [running]})))


@pytest.mark.parametrize(
    ("code", "text", "reason", "pod"),
    [
        (-104, "x beyond the 'PHYSICAL' memory limit.", "OOMKilled", "master"),
        (-1000, "File does not exist: hdfs://nn/a.jar", "LocalizationFailed", "master"),
        (1, "token (HDFS_DELEGATION_TOKEN token 8 for flink) can't be found in cache", "TokenExpired", "master"),
        (1, "Exception from container-launch.", "AttemptsExhausted", "application"),
    ],
)  # fmt: skip
def test_a_failed_application(code: int, text: str, reason: str, pod: str) -> None:
    diagnostics = KILLED_MASTER.format(code=code, text=text)
    answer = {"app": {"id": APP, "state": "FAILED", "finalStatus": "FAILED", "diagnostics": diagnostics, "amContainerLogs": ""}}  # fmt: skip
    printed = f"Application Report : \n\tApplication-Id : {APP}\n\tState : FAILED\n\tDiagnostics : {diagnostics}\n"
    names = {"master": "container_1700000000000_0007_02_000001", "application": APP}
    for form in (json.dumps(answer), printed):
        (found,) = ended_containers(form)
        assert (found.reason, found.pod, found.exit_code, found.count) == (reason, names[pod], code, 2)  # fmt: skip


def test_an_application_that_waits_for_its_queue() -> None:
    answer = {"app": {"id": APP, "state": "ACCEPTED", "finalStatus": "UNDEFINED", "queue": "etl", "diagnostics": NOT_ACTIVATED, "amContainerLogs": ""}}  # fmt: skip
    (found,) = ended_containers(json.dumps(answer))
    assert (found.reason, found.pod) == ("Unscheduled", APP)
    assert found.text == (
        "queue etl: Queue's AM resource limit exceeded. AM Resource Request = <memory:1024, vCores:1>; Queue Resource"
        " Limit for AM = <memory:1024, vCores:1>;"
    )
    (found,) = ended_containers(f"Diagnostics : {NOT_ACTIVATED}")
    assert found.reason == "Unscheduled"
    running = {"app": answer["app"] | {"state": "RUNNING"}}
    assert not list(ended_containers(json.dumps(running)))


def test_bad_nodes() -> None:
    states = ("RUNNING", "LOST", "UNHEALTHY", "DECOMMISSIONED")
    nodes = [
        {"id": f"n{i}:45454", "nodeHostName": f"n{i}", "nodeHTTPAddress": f"n{i}:8042", "state": state, "healthReport": "1/1 local-dirs are bad"}
        for i, state in enumerate(states)
    ]  # fmt: skip
    found = list(ended_containers(json.dumps({"nodes": {"node": nodes}})))
    assert [(each.pod, each.reason) for each in found] == [
        ("n1", "NodeLost"),
        ("n2", "NodeUnhealthy"),
        ("n3", "NodeDecommissioned"),
    ]


def test_other_json_and_logs_are_not_from_yarn() -> None:
    for text in ('{"jobs": [{"id": "1", "state": "FAILED"}]}', "2026-01-01 INFO Application-Id"):
        assert not looks_like_yarn(text)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from([*container(0), "id", "finalStatus", "state", "diagnostics", "app"]), inner, max_size=6),
    max_leaves=20,
)  # fmt: skip


@given(_JSON | st.text())
def test_any_answer_is_read_without_an_error(value: object) -> None:
    text = value if isinstance(value, str) else json.dumps(value)
    for form in (
        text,
        f'{{"containerExitStatus": 1, "x": {text}}}',
        f"Application-Id : {APP}\n{text}",
    ):
        for found in ended_containers(form):
            assert 0 <= found.offset <= len(form.encode("utf-8", "replace"))
