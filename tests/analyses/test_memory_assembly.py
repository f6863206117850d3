"""Assembly of processes from rows, without a JVM."""

from __future__ import annotations

from typing import Any

from flowdiag.analyses.flink.job import ClusterFacts
from flowdiag.analyses.memory.assemble import assemble_memory
from flowdiag.analyses.memory.facts import MemoryFacts
from flowdiag.analyses.memory.out_of_memory import RULE as RAN_OUT
from flowdiag.analyses.memory.rules.rejected_memory_options import RULE as REFUSED
from flowdiag.analyses.memory.rules.sizes_not_in_effect import RULE as SIZES
from flowdiag.analyses.memory.rules.unused_managed_memory import RULE as UNUSED

from .judged import results_of

MIB = 1024 * 1024


def _row(template: str, offset: int = 0, **more: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "what": "memory",
        "event": "worker",
        "template": template,
        "source": 0,
        "offset": offset,
        "owner": None,
        "taskmanager": None,
        "host": None,
        "bytes": None,
        "thread": None,
        "fields": {},
    }
    return values | more


def _facts(
    *rows: dict[str, Any], options: dict[str, str] | None = None, version: str
) -> MemoryFacts:
    return assemble_memory(
        rows, ClusterFacts(jobs=(), processes=()), given=options, version=version
    )


SPEC = (
    "TaskExecutorProcessSpec {cpuCores=1.0, frameworkHeapSize=128.000mb (134217728 bytes), "
    "frameworkOffHeapSize=128.000mb (134217728 bytes), taskHeapSize=384.000mb (402653174 bytes), "
    "taskOffHeapSize=0 bytes, networkMemSize=128.000mb (134217730 bytes), managedMemorySize="
    "512.000mb (536870920 bytes), jvmMetaspaceSize=256.000mb (268435456 bytes), "
    "jvmOverheadSize=192.000mb (201326592 bytes)}"
)


def test_a_yarn_container_up_to_1_9() -> None:
    """The JobManager of 1.9 prints the container and the heap; both match the options."""
    spec = "container size 2048 MB, JVM heap size 1304 MB, JVM direct memory limit 744 MB"
    row = _row("yarn-taskmanager-starting", taskmanager="c_2", fields={"spec": spec})
    facts = _facts(row, version="1.9.3")
    (process,) = facts.processes
    assert process.observed == {"taskmanager.heap.size": 2048 * MIB, "heap": 1304 * MIB}
    assert process.container


def test_a_pod_smaller_than_its_process() -> None:
    started = _row("yarn-taskmanager-starting", taskmanager="tm-1", fields={"spec": SPEC})
    for megabytes, expected in (("1728", 0), ("1024", 1)):
        pod = _row("pod-creating", 5, taskmanager="tm-1", fields={"resource": f"{megabytes},1.0"})
        facts = _facts(started, pod, version="1.20.5")
        assert facts.processes[0].container_limit == int(megabytes) * MIB
        assert len(list(results_of(SIZES, facts))) == expected


def test_the_operator_reports_kills() -> None:
    row = _row(
        "operator-status-error",
        thread="default/orders",
        fields={"state": "DEPLOYED", "said": '{"message":"[main] OOMKilled"}'},
    )
    facts = _facts(row, row, version="1.20.5")
    assert [kill.reason for kill in facts.kills] == ["OOMKilled"]
    assert len(list(results_of(RAN_OUT, facts))) == 1


def test_a_fragment_of_a_log_lists_some_of_the_options() -> None:
    """A process that writes a log has started; only files and the command line describe a planned start."""
    option = {"key": "taskmanager.memory.process.size", "value": "400m"}
    row = _row("configuration", event="configuration", fields=option)
    started = _row("process-started", event="process_started", fields={"component": "TaskManager"})
    facts = _facts(started, row, version="1.20.5")
    assert facts.processes[0].derived is not None
    assert facts.processes[0].derived.error
    assert not list(results_of(REFUSED, facts))
    options = {"taskmanager.memory.managed.fraction": "0.4"}
    assert list(results_of(REFUSED, _facts(started, row, options=options, version="1.20.5")))


def test_managed_memory_that_python_workers_use_is_not_unused() -> None:
    started = _row("process-started", event="process_started", fields={"component": "TaskManager"})
    options = {"taskmanager.memory.process.size": "2g", "state.backend": "hashmap"}
    rows = [started] + [
        _row("configuration", event="configuration", fields={"key": key, "value": value})
        for key, value in options.items()
    ]
    assert len(list(results_of(UNUSED, _facts(*rows, version="2.1.1")))) == 1
    python = {"key": "python.fn-execution.memory.managed", "value": "true"}
    rows.append(_row("python-memory", event="configuration", fields=python))
    assert not list(results_of(UNUSED, _facts(*rows, version="2.1.1")))
