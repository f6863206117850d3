"""The published limits decide, and findings count all their evidence: startup, memory, queues."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flowdiag.analyses.flink.job import Incident, JobFacts
from flowdiag.analyses.memory.facts import MemoryFacts, MemoryProcess
from flowdiag.analyses.memory.options import derive
from flowdiag.analyses.memory.out_of_memory import RULE as RAN_OUT
from flowdiag.analyses.memory.rules.tight_network_memory import RULE as TIGHT
from flowdiag.analyses.memory.rules.too_few_network_buffers import RULE as BUFFERS
from flowdiag.analyses.model.finding import MAX_CITED, Finding
from flowdiag.analyses.model.keys import Ref
from flowdiag.analyses.model.rule import Rule
from flowdiag.analyses.queues.rules.back_pressure import RULE as PRESSURE
from flowdiag.analyses.queues.rules.garbage_collection import RULE as GARBAGE
from flowdiag.analyses.queues.rules.network_bottleneck import RULE as NETWORK
from flowdiag.analyses.queues.rules.network_memory_exhausted import RULE as USED_UP
from flowdiag.analyses.queues.rules.uneven_load import RULE as LOAD
from flowdiag.analyses.queues.rules.watermark_lag import RULE as WATERMARK
from flowdiag.analyses.startup.facts import Restore
from flowdiag.analyses.startup.lost_processes import RULE as HEARTBEATS
from flowdiag.analyses.startup.rules.crowded_taskmanager import RULE as CROWDED
from flowdiag.analyses.startup.rules.held_start import RULE as HELD
from flowdiag.analyses.startup.rules.leadership_lost import RULE as LEADERSHIP
from flowdiag.analyses.startup.rules.missing_slots import RULE as SLOTS
from flowdiag.analyses.startup.rules.missing_workers import RULE as WORKERS
from flowdiag.analyses.startup.rules.slow_initialization import RULE as INITIALIZATION
from flowdiag.analyses.startup.rules.start_loop import RULE as LOOP
from tests.analyses import startup_workbench as w
from tests.analyses.judged import cases_of
from tests.analyses.queues_workbench import Queues

WAITS: dict[str, Any] = {"back_pressured": 700.0, "is_back_pressured": 1.0, "out_pool": 1.0}


def findings_of(rule: Rule, facts: Any, **limits: float) -> list[Finding]:
    """Return the findings of a rule with overridden limits."""
    cases = (facts,) if rule.whole else cases_of(facts)
    return [
        item
        for case in cases
        for item in rule.judge(case, rule.limits(**limits))
        if isinstance(item, Finding)
    ]


def queue_findings(rule: Rule, queues: Queues, **limits: float) -> list[Finding]:
    """Return the findings of a rule on the queues of a job, with overridden limits."""
    found = rule.judge(queues.job(), rule.limits(**limits))
    return [item for item in found if isinstance(item, Finding)]


# --- startup --------------------------------------------------------------------------------------


def _revoked(*times: float) -> Any:
    lost = tuple(
        w.incident("leadership", at, text={"template": "leadership-revoked"}) for at in times
    )
    return w.facts(w.job(w.start(w.task(0)), incidents=lost))


def test_a_leadership_that_ends_with_the_input_is_not_lost() -> None:
    assert not findings_of(LEADERSHIP, _revoked(590))
    assert findings_of(LEADERSHIP, _revoked(590), shutdown=5)


def test_all_lost_leaderships_are_evidence() -> None:
    (finding,) = findings_of(LEADERSHIP, _revoked(*range(100, 130)))
    assert (finding.evidence_count, len(finding.reported_evidence), finding.count) == (
        30,
        MAX_CITED,
        30,
    )


def test_few_tasks_are_not_an_uneven_placement() -> None:
    workers = tuple(w.worker(f"tm-{n}") for n in range(5))
    seen = w.facts(w.job(w.start(*(w.task(n) for n in range(3)))), workers=workers)
    assert not findings_of(CROWDED, seen)
    (finding,) = findings_of(CROWDED, seen, tasks=3)
    assert finding.evidence_count == 3


def test_a_job_that_fails_soon_never_ran() -> None:
    failed = w.start(w.task(0), failed_us=w.BEGIN + 10 * w.SECOND)
    again = w.start(w.task(0, at=100, running_us=None), number=1, at=100.0)
    seen = w.facts(w.job(failed, again))
    (finding,) = findings_of(HELD, seen)
    assert finding.title.endswith("for 10 min")
    (finding,) = findings_of(HELD, seen, stable=5)
    assert finding.title.endswith("for 8 min 20 s")


def test_restarts_near_the_last_failure_belong_to_the_loop() -> None:
    failures = tuple(
        w.incident("task-failure", 10.0 + n / 10, "java.lang.IllegalStateException") for n in (0, 1)
    )
    starts = [w.start(w.task(0), number=n, at=at) for n, at in ((0, 0), (1, 9.5), (2, 10), (3, 11))]
    seen = w.facts(w.job(*starts, incidents=failures))
    (finding,) = findings_of(LOOP, seen)
    assert finding.count == 3
    assert not findings_of(LOOP, seen, slack=0.1)


def test_events_near_a_loss_explain_it() -> None:
    lost = w.incident(
        "taskmanager-lost",
        60,
        "The heartbeat of TaskManager with id tm-1 timed out",
        taskmanager="tm-1",
        text={"template": "heartbeat-timed-out"},
    )
    ended = w.worker("tm-1", ended_us=w.BEGIN + 130 * w.SECOND)
    seen = w.facts(w.job(w.start(w.task(0)), incidents=(lost,)), workers=(ended,))
    assert not findings_of(HEARTBEATS, seen)[0].votes
    (finding,) = findings_of(HEARTBEATS, seen, timeout_window=80)
    assert [vote.signal for vote in finding.votes] == ["container-ended"]


def test_a_process_may_notice_late() -> None:
    lost = w.incident(
        "taskmanager-lost",
        60,
        taskmanager="tm-1",
        text={"template": "heartbeat-timed-out"},
    )
    own = w.trouble("master-heartbeat-lost", 500, taskmanager="tm-1")
    seen = w.facts(w.job(w.start(w.task(0)), incidents=(lost,)), troubles=(own,))
    assert findings_of(HEARTBEATS, seen)[0].cause == "process-paused"
    assert findings_of(HEARTBEATS, seen, resume_window=300)[0].cause == "taskmanager-lost"


def test_reading_state_is_the_reason_above_a_share_of_the_time() -> None:
    slow = w.task(0, running_us=w.BEGIN + 101 * w.SECOND)
    read = Restore(
        taskmanager="tm-1",
        host=None,
        started_us=w.BEGIN + w.SECOND,
        finished_us=w.BEGIN + 41 * w.SECOND,
        handles=1,
    )
    seen = w.facts(w.job(w.start(slow, restores=(read,))))
    assert findings_of(INITIALIZATION, seen)[0].cause == "slow-open"
    assert findings_of(INITIALIZATION, seen, read_share=0.4)[0].cause == "slow-restore"


def test_all_rejected_slot_requests_are_counted() -> None:
    refused = tuple(w.incident("no-resource", 1.0 + n, "no slots") for n in range(40))
    held = w.start(number=0, steps=(), held="slots")
    (finding,) = findings_of(SLOTS, w.facts(w.job(held, incidents=refused)))
    assert (finding.evidence_count, len(finding.reported_evidence)) == (40, 6)
    assert finding.actions[0].option == "taskmanager.numberOfTaskSlots"


def test_all_workers_that_ended_are_evidence() -> None:
    workers = tuple(w.worker(f"w-{n}", ended_us=w.BEGIN + n, ref=Ref(0, n)) for n in range(20))
    dead = tuple(replace(worker, registered_us=None) for worker in workers)
    (finding,) = findings_of(WORKERS, w.facts(workers=dead))
    assert (finding.evidence_count, len(finding.reported_evidence)) == (20, MAX_CITED)


# --- memory ---------------------------------------------------------------------------------------


def _memory(*incidents: Incident, **more: Any) -> MemoryFacts:
    job = JobFacts(key=w.JOB, name="orders", version="1.20.5", incidents=incidents)
    made: dict[str, Any] = {"processes": (), **more}
    return MemoryFacts(jobs=(job,), **made)


def test_all_failures_for_buffers_are_counted() -> None:
    failures = [w.incident("network-buffers", float(n), "Insufficient number") for n in range(30)]
    (finding,) = findings_of(BUFFERS, _memory(*failures))
    assert (finding.evidence_count, len(finding.reported_evidence)) == (30, 8)


def test_all_warnings_of_tight_memory_are_evidence() -> None:
    warned = [w.incident("network-memory", float(n), text={"usage": "120"}) for n in range(30)]
    (finding,) = findings_of(TIGHT, _memory(*warned))
    assert (finding.evidence_count, finding.severity.value) == (30, "info")
    assert findings_of(TIGHT, _memory(*warned), usage=110)[0].severity.value == "warning"


def test_a_larger_pool_leaves_enough_heap_or_the_process_grows() -> None:
    options = {"taskmanager.memory.process.size": "1728m"}
    process = MemoryProcess(
        role="taskmanager",
        taskmanager="tm-1",
        version="1.20",
        configured=options,
        derived=derive("taskmanager", options, "1.20", False),
    )
    full = w.incident(
        "out-of-memory", 5.0, "java.lang.OutOfMemoryError: Metaspace", taskmanager="tm-1"
    )
    facts = _memory(full, processes=(process,))
    (finding,) = findings_of(RAN_OUT, facts)
    (larger,) = findings_of(RAN_OUT, facts, heap_left=1)
    assert "stays the same" in finding.actions[0].text
    assert "process grows" in larger.actions[0].text


# --- queues ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "metrics", "limits"),
    [
        (NETWORK, WAITS, {"output_usage": 1.1}),
        (NETWORK, WAITS, {"input_usage": 0.0}),
        (NETWORK, WAITS, {"busy": 0.0}),
        (NETWORK, WAITS, {"samples": 1000}),
    ],
)
def test_limits_of_the_network(
    rule: Rule, metrics: dict[str, Any], limits: dict[str, float]
) -> None:
    bench = Queues().set_metrics("Source: orders", **metrics)
    assert queue_findings(rule, bench)
    assert not queue_findings(rule, bench, **limits)


def test_limits_of_garbage_collection() -> None:
    bench = Queues(machines={"taskmanager-1": {"gc_ms": 30_000.0}})
    (finding,) = queue_findings(GARBAGE, bench)
    assert finding.severity.value == "warning"
    assert queue_findings(GARBAGE, bench, warning_share=0.9)[0].severity.value == "info"
    assert not queue_findings(GARBAGE, bench, samples=1000)
    assert not queue_findings(GARBAGE, bench, duration=1000)
    full = Queues(
        machines={"taskmanager-1": {"gc_ms": 18_000.0, "heap_used": 95.0, "heap_max": 100.0}}
    )
    assert queue_findings(GARBAGE, full)[0].severity.value == "warning"
    assert queue_findings(GARBAGE, full, heap_usage=0.99)[0].severity.value == "info"
    assert finding.evidence_count == len(
        {m.ref for m in bench.job().taskmanagers["taskmanager-1"]} - {None}
    )


def test_limits_of_network_memory() -> None:
    empty = Queues(machines={"tm": {"segments": 64.0, "segments_free": 0.0}})
    assert queue_findings(USED_UP, empty)
    assert not queue_findings(USED_UP, empty, samples=1000)
    queues = Queues(machines={"taskmanager-1": {"segments_requested": 140.0, "segments": 100.0}})
    queues.set_metrics("enrich", 0, back_pressured=200.0)
    assert queue_findings(USED_UP, queues)[0].severity.value == "warning"
    assert queue_findings(USED_UP, queues, wait_share=0.3)[0].severity.value == "info"


def test_limits_of_an_uneven_load() -> None:
    bench = Queues().set_metrics("aggregate", 4, records_in=9000.0, busy=400.0)
    assert queue_findings(LOAD, bench)
    assert not queue_findings(LOAD, bench, idle=0.5)


def test_limits_of_watermarks() -> None:
    bench = Queues()
    for minute in range(5):
        bench.set_metrics("aggregate", None, [minute], watermark=1.7e12 + 60_000 * minute)
        bench.set_metrics("aggregate", 3, [minute], watermark=1.7e12 - 300_000)
    (finding,) = queue_findings(WATERMARK, bench)
    assert finding.evidence_count == len(
        {
            s.ref
            for k, e in bench.job().samples.items()
            if k.task == "aggregate" and k.subtask_index == 3
            for s in e
        }
        - {None}
    )
    assert not queue_findings(WATERMARK, bench, samples=1000)


def test_limits_of_back_pressure_without_an_end() -> None:
    bench = Queues().set_metrics("Source: orders", **WAITS)
    assert queue_findings(PRESSURE, bench)
    assert not queue_findings(PRESSURE, bench, duration=1e6)
    assert not queue_findings(PRESSURE, bench, samples=1e6)
    over = Queues().set_metrics("Source: orders", minutes=range(2), **WAITS)
    assert queue_findings(PRESSURE, over)
    assert not queue_findings(PRESSURE, over, burst_share=0.9)
