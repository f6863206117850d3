"""States, errors and events of the Kubernetes operators, version by version: `data/operators.toml` has the sources."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest

from flowdiag.parsers.flink.container_texts import ended_containers, looks_like_kubectl
from flowdiag.parsers.flink.options import read_options
from flowdiag.parsers.kubernetes.objects import EndedContainer
from flowdiag.parsers.live.k8s.permissions import APACHE_SPARK, CONTROLLERS
from tests.fake_kubernetes import Json, event, resource

TABLE: Final = tomllib.loads((Path(__file__).parent / "data/operators.toml").read_text())
FLINK: Final = TABLE["flink"]
MESSAGE: Final = (
    "Job could not be upgraded with savepoint while config key[state.savepoints.dir] is not set"
)
ORDERS: Final = resource("FlinkDeployment", "orders", "flink.apache.org/v1beta1")
BILLING: Final = resource("SparkApplication", "billing", "sparkoperator.k8s.io/v1beta2")


def number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def within(version: str, since: str, until: str = "99.0") -> bool:
    return number(since) <= number(version) <= number(until)


def read(*objects: Json) -> list[EndedContainer]:
    text = json.dumps({"kind": "List", "items": list(objects)}, indent=4)
    assert looks_like_kubectl(text)
    return list(ended_containers(text))


def deployment(version: str, reconciled: str, lifecycle: str, error: str | None = None) -> Json:
    """Return a deployment as an operator of this version writes it."""
    status: Json = {
        "jobManagerDeploymentStatus": "READY",
        "jobStatus": {"jobId": "fd72014d4c864993a2e5a9287b4a9c5d", "state": "RUNNING"},
        "reconciliationStatus": {"lastReconciledSpec": "{}", "state": reconciled},
    }
    if within(version, FLINK["lifecycle_since"]):
        status["lifecycleState"] = lifecycle
    if error is not None and within(version, FLINK["json_error_since"]):
        kind = "org.apache.flink.kubernetes.operator.exception.ValidationException"
        found = {"type": kind, "message": error, "additionalMetadata": {}, "throwableList": []}
        error = json.dumps(found)
    spec = {"flinkVersion": "v1_20", "job": {"state": "running"}}
    return ORDERS | {"spec": spec, "status": status | {"error": error}}


@pytest.mark.parametrize("version", FLINK["versions"])
def test_states_of_a_flink_deployment(version: str) -> None:
    for state, problem in FLINK["reconciliation"].items():
        lifecycle = state if problem else "STABLE"
        text = json.dumps(deployment(version, state, lifecycle, MESSAGE if problem else None), indent=4)  # fmt: skip
        assert looks_like_kubectl(text) == bool(problem), state
        found = list(ended_containers(text))
        assert [each.reason for each in found] == ([problem] if problem else []), state
        assert all(MESSAGE in each.text and "{" not in each.text for each in found)
        assert (read_options(text).trouble is not None) == bool(problem), state
    for state, row in FLINK["lifecycle"].items():
        if within(version, row["since"]):
            text = json.dumps(deployment(version, "DEPLOYED", state), indent=4)
            found = list(ended_containers(text)) if looks_like_kubectl(text) else []
            expected = [row["problem"]] if "problem" in row else []
            assert [each.reason for each in found] == expected, state


@pytest.mark.parametrize("version", FLINK["versions"])
def test_a_rejected_specification_of_a_running_job(version: str) -> None:
    text = json.dumps(deployment(version, "DEPLOYED", "STABLE", MESSAGE), indent=4)
    trouble = read_options(text).trouble
    assert trouble is not None and trouble.endswith(MESSAGE) and "{" not in trouble
    assert read_options(json.dumps(deployment(version, "DEPLOYED", "STABLE", ""))).trouble is None


@pytest.mark.parametrize("version", FLINK["versions"])
def test_events_of_flinks_operator(version: str) -> None:
    rows = [row for row in FLINK["event"] if within(version, row["since"], row.get("until", "99"))]
    for row in rows:
        warning = event(ORDERS, row["reason"], row["message"], kind=row.get("type", "Warning"))
        warning["source"] = {"component": row.get("component", "Operator")}
        found = read(warning)
        expected = [row["problem"]] if "problem" in row else []
        assert [each.reason for each in found] == expected, row["reason"]
        assert all(each.text == row["text"] for each in found if "text" in row)
    status = [
        reason for reason, span in FLINK["status_event"].items() if within(version, *span)
    ] or [None]
    failed = event(ORDERS, "RestartUnhealthyJob", "Restarting", at="2026-11-20T23:28:12Z")
    for reason in filter(None, status):
        message = "Job status changed from RECONCILING to RUNNING"
        runs = event(ORDERS, reason, message, kind="Normal", at="2026-11-20T23:40:00Z")
        assert read(failed, runs) == []


def test_a_new_specification_ends_a_rollback() -> None:
    rolled = event(ORDERS, "Rollback", "Rolling back failed deployment.", kind="Normal", at="2026-11-20T23:28:12Z")  # fmt: skip
    changed = event(ORDERS, "SpecChanged", "UPGRADE change(s) detected", kind="Normal", at="2026-11-20T23:40:00Z")  # fmt: skip
    assert len(read(rolled)) == 1
    assert read(rolled, changed) == []


@pytest.mark.parametrize("state", FLINK["snapshot"])
def test_states_of_a_flink_snapshot(state: str) -> None:
    status = {"state": state, "error": '{"type":"java.io.IOException","message":"disk"}'}
    snapshot = resource("FlinkStateSnapshot", "orders-1", "flink.apache.org/v1beta1", status=status)
    found = [(each.reason, each.pod, each.text) for each in read(snapshot)]
    known = FLINK["snapshot"][state]
    assert found == ([(known, "orders-1", f"{state}: IOException: disk")] if known else [])


@pytest.mark.parametrize("state", TABLE["kubeflow"]["state"])
def test_states_of_the_older_spark_operator(state: str) -> None:
    error = TABLE["kubeflow"]["error"]
    status = {
        "applicationState": {"state": state, "errorMessage": error},
        "driverInfo": {"podName": "billing-driver"},
    }
    found = [(each.reason, each.pod, each.text) for each in read(BILLING | {"status": status})]
    known = TABLE["kubeflow"]["state"][state].get("problem")
    assert found == ([(known, "billing-driver", f"{state}: {error}")] if known else [])


@pytest.mark.parametrize("row", TABLE["kubeflow"]["event"], ids=lambda row: str(row["reason"]))
def test_events_of_the_older_spark_operator(row: dict[str, Any]) -> None:
    found = [
        (each.reason, each.pod) for each in read(event(BILLING, row["reason"], row["message"]))
    ]
    assert found == ([(row["problem"], row["pod"])] if "problem" in row else [])


@pytest.mark.parametrize("state", TABLE["apache"]["state"])
@pytest.mark.parametrize("released", [False, True])
def test_states_of_the_newer_spark_operator(state: str, released: bool) -> None:
    """After a failure, the operator releases the resources, and only the history contains the failure."""
    known = TABLE["apache"]["state"][state].get("problem")
    failed = {"currentStateSummary": state, "message": "why", "lastTransitionTime": "2026-11-20T23:28:12Z"}  # fmt: skip
    last = {"currentStateSummary": "ResourceReleased"}
    history = {"0": {"currentStateSummary": "Submitted"}, "9": failed, "10": last}
    status = {"currentState": last if released else failed, "stateTransitionHistory": history if released else {}}  # fmt: skip
    found = [(each.reason, each.text) for each in read(BILLING | {"status": status})]
    assert found == ([(known, f"{state}: why")] if known else [])


@pytest.mark.parametrize("key", ["\N{SUPERSCRIPT TWO}", "7" * 5000])
def test_a_history_with_malformed_keys_is_read_without_them(key: str) -> None:
    failed = {"currentStateSummary": "Failed", "message": "why"}
    status = {"currentState": {}, "stateTransitionHistory": {"1": failed, key: {}}}
    assert [each.reason for each in read(BILLING | {"status": status})] == ["DriverFailed"]


def test_a_restarted_application_has_no_failure() -> None:
    states = ("DriverRequested", "Failed", "ScheduledToRestart", "DriverReady", "RunningHealthy")
    history = {str(n): {"currentStateSummary": state} for n, state in enumerate(states)}
    status = {"currentState": history["4"], "stateTransitionHistory": history}
    assert read(BILLING | {"status": status}) == []


def test_the_last_observed_status_of_a_driver() -> None:
    ended = {"reason": "OOMKilled", "exitCode": 137, "finishedAt": "2026-11-20T23:28:12Z"}
    driver = {"containerStatuses": [{"name": "spark", "state": {"terminated": ended}}]}
    failed = {"currentStateSummary": "Failed", "lastObservedDriverStatus": driver}
    (found,) = read(BILLING | {"status": {"currentState": failed}})
    assert (found.reason, found.exit_code, found.time_us) == ("OOMKilled", 137, 1_795_217_292_000_000)  # fmt: skip


def test_the_collector_requests_every_api_version() -> None:
    (versions,) = (
        listed for group, _, listed in CONTROLLERS["SparkApplication"] if group == APACHE_SPARK
    )
    assert set(versions) == set(TABLE["apache"]["api"])
