"""Findings of `flowdiag queues` on synthetic metrics."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flowdiag.analyses.diagnosis import select_facts
from flowdiag.analyses.flink.job import Incident, Setting, SubtaskLoad
from flowdiag.analyses.flink.tasks.placement import SubtaskKey
from flowdiag.analyses.model.finding import Confidence, Severity, State, Verdict
from flowdiag.analyses.model.keys import JobKey, Ref
from flowdiag.analyses.queues import judging
from flowdiag.analyses.queues.assemble.owners import Places, Tasks
from flowdiag.analyses.queues.assemble.samples import samples_of
from flowdiag.analyses.queues.data import queue_vertices
from flowdiag.analyses.queues.facts import Flow, FlowPoint
from flowdiag.analyses.queues.flow import flow_of
from flowdiag.analyses.queues.measure import COUNTERS, GAUGES, OPERATOR_GAUGES
from flowdiag.analyses.queues.remedies import queue_remedies
from flowdiag.analyses.queues.root import find_spells
from flowdiag.analyses.queues.topic import QUEUES
from flowdiag.analyses.selection.options import Options
from flowdiag.analyses.selection.span import Moment, Selection

from .queues_workbench import FIRST, MINUTE, Queues, facts_of, findings, judged, reasons

Values = dict[str, Any]
WAITS: Values = {"back_pressured": 700.0, "is_back_pressured": 1.0, "out_pool": 1.0, "idle": 300.0}
WORKS: Values = {"busy": 990.0, "idle": 10.0, "input_queue": 16.0, "in_pool": 1.0}
FULL: Values = {"floating": 1.0, "exclusive": 1.0}


def hot_key(bench: Queues, **more: Any) -> Queues:
    bench.set_metrics("Source: orders", **WAITS)
    return bench.set_metrics("enrich", 2, **WORKS, **FULL, records_in=9000.0, **more)


def slow_sink(bench: Queues, minutes: range | None = None) -> Queues:
    for task in ("Source: orders", "enrich", "aggregate"):
        bench.set_metrics(task, minutes=minutes, **WAITS)
    return bench.set_metrics("Sink: deliver", minutes=minutes, **WORKS, **FULL)


def test_a_healthy_job_has_no_finding() -> None:
    job = Queues().job()
    assert (findings(job), reasons(job)) == ({}, [])
    assert judged(job).verdict is Verdict.HEALTHY


def test_a_hot_key_is_reported_with_its_taskmanager_and_ratio() -> None:
    job = hot_key(Queues()).job()
    culprit = judged(job).culprits[0]
    assert (culprit.code, judged(job).cause) == ("SK101", "data-skew")
    subject = culprit.subject
    assert (subject.task, subject.subtask_index, subject.taskmanager) == (
        "enrich",
        2,
        "taskmanager-1",
    )
    finding = findings(job)["SK101"]
    numbers = {m.name: m.value for m in finding.measurements}
    assert numbers["records-ratio"] == 9.0
    assert finding.confidence is Confidence.HIGH
    assert finding.severity is Severity.WARNING


def test_a_slow_task_is_reported_without_a_subtask() -> None:
    culprit = judged(slow_sink(Queues()).job()).culprits[0]
    assert culprit.code == "BP102"
    assert (culprit.subject.task, culprit.subject.subtask_index) == ("Sink: deliver", None)


def test_a_back_pressured_task_in_the_middle_is_never_the_culprit() -> None:
    bench = slow_sink(Queues())
    bench.set_metrics("aggregate", 3, busy=400.0, input_queue=20.0, records_in=9000.0, **FULL)
    assert [spell.task for spell in find_spells(bench.job())] == ["Sink: deliver"]


def test_one_sample_is_not_enough_evidence() -> None:
    assert judged(hot_key(Queues(minutes=1, per_minute=1)).job()).culprits == ()
    assert judged(hot_key(Queues(minutes=1, per_minute=6)).job()).culprits != ()


def test_samples_a_minute_apart_add_up_to_evidence() -> None:
    job = hot_key(Queues(minutes=6, per_minute=1)).job()
    assert judged(job).culprits[0].code == "SK101"


def test_several_roots_are_several_findings() -> None:
    tasks = (("Source: a", 1), ("left", 2), ("Source: b", 1), ("right", 2))
    bench = Queues(tasks=tasks, edges=(("Source: a", "left"), ("Source: b", "right")))
    for name in ("Source: a", "Source: b"):
        bench.set_metrics(name, **WAITS)
    for name in ("left", "right"):
        bench.set_metrics(name, **WORKS)
    assert {spell.task for spell in find_spells(bench.job())} == {"left", "right"}


def test_a_rate_limited_source_is_not_a_root() -> None:
    bench = Queues(legacy_sources=False).set_metrics("Source: orders", busy=1000.0, idle=0.0)
    assert judged(bench.job()).verdict is Verdict.HEALTHY


def test_a_busy_task_without_queue_or_back_pressure_is_harmless() -> None:
    bench = Queues().set_metrics("aggregate", 1, busy=950.0, idle=50.0)
    assert judged(bench.job()).culprits == ()


def test_a_busy_sibling_without_a_queue_is_left_out() -> None:
    bench = hot_key(Queues())
    bench.set_metrics("enrich", 0, busy=950.0, idle=50.0, input_queue=1.0)
    (spell,) = find_spells(bench.job())
    assert [load.key.subtask_index for load in spell.culprit_loads] == [2]


def test_busy_without_records_is_a_hang() -> None:
    bench = Queues().set_metrics("Source: orders", **WAITS)
    bench.set_metrics("enrich", 1, **WORKS, **FULL, records_in=0.0)
    verdict = judged(bench.job())
    assert (verdict.cause, verdict.culprits[0].subject.subtask_index) == ("task-hangs", 1)


def test_a_subtask_that_emits_records_does_not_hang() -> None:
    """Asynchronous state: before a checkpoint, all records in flight are processed, and no new ones received."""
    bench = Queues().set_metrics("Source: orders", **WAITS)
    bench.set_metrics("enrich", 1, **WORKS, **FULL, records_in=0.0, records_out=400.0)
    verdict = judged(bench.job())
    assert (verdict.cause, verdict.culprits[0].subject.subtask_index) == (None, 1)


def test_a_slow_taskmanager_is_distinguished_from_slow_subtasks() -> None:
    bench = Queues().set_metrics("Source: orders", **WAITS)
    for task in ("enrich", "aggregate"):
        for index in range(dict(bench.tasks)[task]):
            slow = bench.place(task, index) == "taskmanager-2"
            bench.set_metrics(task, index, busy=900.0 if slow else 150.0, idle=50.0)
            if slow:
                bench.set_metrics(task, index, input_queue=15.0, in_pool=0.9)
    culprit = judged(bench.job()).culprits[0]
    assert (culprit.code, culprit.subject.kind) == ("SK102", "taskmanager")
    assert culprit.subject.taskmanager == "taskmanager-2"


def test_a_throttled_taskmanager_is_reported_before_back_pressure() -> None:
    bench = Queues(managers=3)
    for index in range(6):
        slow = bench.place("aggregate", index) == "taskmanager-1"
        bench.set_metrics("aggregate", index, busy=800.0 if slow else 300.0, idle=200.0)
    assert judged(bench.job()).culprits[0].subject.taskmanager == "taskmanager-1"


def test_unequal_taskmanagers_are_not_slow() -> None:
    bench = Queues()
    for index in range(6):
        busy = {"taskmanager-1": 800.0, "taskmanager-2": 300.0, "taskmanager-3": 600.0}
        bench.set_metrics("aggregate", index, busy=busy[bench.place("aggregate", index)])
    assert judged(bench.job()).culprits == ()


# --- normal operation -----------------------------------------------------------------------------


def test_finished_catch_up_after_a_restore_is_information() -> None:
    job = slow_sink(Queues(minutes=20), range(4)).restored(0.0).job()
    assert {f.severity for f in findings(job).values()} <= {Severity.INFO}
    assert judged(job).verdict is Verdict.HEALTHY


def test_ongoing_catch_up_after_a_restore_is_information() -> None:
    job = slow_sink(Queues(minutes=8), range(4, 8)).restored(4.0).job()
    assert findings(job)["BP102"].severity is Severity.INFO
    assert judged(job).verdict is Verdict.HEALTHY
    flow = flow_of(job)
    assert flow is not None and flow.text.startswith(
        "sources wait for Sink: deliver, which is normal"
    )


def test_catch_up_is_limited_to_ten_minutes() -> None:
    job = slow_sink(Queues(minutes=20), range(4, 20)).restored(4.0).job()
    assert findings(job)["BP102"].severity is Severity.WARNING


def test_back_pressure_that_a_rescaling_ends_is_information() -> None:
    bench = slow_sink(Queues(minutes=30), range(10, 15))
    bench.starts.append(bench.at(15))
    assert judged(bench.job()).verdict is Verdict.HEALTHY


def test_a_shrinking_backlog_is_information() -> None:
    bench = slow_sink(Queues(minutes=12))
    for minute in range(12):
        bench.set_metrics("Source: orders", minutes=[minute], pending=50_000.0 - 4000.0 * minute)
    assert judged(bench.job()).verdict is Verdict.HEALTHY


def test_a_growing_backlog_is_a_problem() -> None:
    bench = slow_sink(Queues(minutes=12))
    for minute in range(12):
        bench.set_metrics("Source: orders", minutes=[minute], pending=10_000.0 + 4000.0 * minute)
    assert judged(bench.job()).culprits[0].subject.task == "Sink: deliver"


def test_warm_up_after_a_start_is_not_serious() -> None:
    bench = slow_sink(Queues(minutes=10, per_minute=4), range(1))
    bench.starts.append(bench.at(0))
    assert judged(bench.job()).verdict is Verdict.HEALTHY


def test_hot_keys_in_two_tasks_are_both_named() -> None:
    bench = hot_key(Queues(minutes=8)).set_metrics("enrich", (0, 1, 3), **WAITS)
    bench.set_metrics("aggregate", 5, **WORKS, **FULL, records_in=9000.0)
    found = [culprit.subject for culprit in judged(bench.job()).culprits]
    assert [(finding.task, finding.subtask_index) for finding in found] == [
        ("aggregate", 5),
        ("enrich", 2),
    ]


def test_skew_does_not_count_as_catch_up() -> None:
    job = hot_key(Queues(minutes=8)).restored(0.0).job()
    assert judged(job).cause == "data-skew"


def test_past_back_pressure_is_recovered() -> None:
    bench = Queues(minutes=30)
    bench.set_metrics("Source: orders", minutes=range(5, 15), **WAITS)
    bench.set_metrics("enrich", 2, range(5, 15), **WORKS, records_in=9000.0)
    finding = findings(bench.job())["SK101"]
    assert (finding.state, finding.count) == (State.RECOVERED, 10)


@pytest.mark.parametrize("lasting", [3, 10])
@pytest.mark.parametrize("fault", ["hot key", "slow sink", "unknown"])
def test_a_past_problem_remains_in_the_report(fault: str, lasting: int) -> None:
    minutes = range(5, 5 + lasting)
    bench = Queues(minutes=30)
    if fault == "slow sink":
        slow_sink(bench, minutes)
    else:
        bench.set_metrics("Source: orders", minutes=minutes, **WAITS)
    if fault == "hot key":
        bench.set_metrics("enrich", 2, minutes, **WORKS, **FULL, records_in=9000.0)
    serious = [f for f in findings(bench.job()).values() if f.severity is not Severity.INFO]
    assert judged(bench.job()).verdict is Verdict.DEGRADED
    assert {f.state for f in serious} == {State.RECOVERED}


def with_backlog(peak: int, drained_per_minute: float) -> Queues:
    """Return a source whose lag grows from minute 5 to a peak and then shrinks."""
    bench = Queues(minutes=30)
    for minute in range(30):
        grown = 6000.0 * max(0, min(minute, peak) - 5)
        left = max(0.0, grown - drained_per_minute * max(0, minute - peak))
        bench.set_metrics("Source: orders", minutes=[minute], pending=100.0 + left)
    return bench


def test_a_backlog_that_was_read_remains_in_the_report() -> None:
    job = with_backlog(10, 2000.0).job()
    finding = findings(job)["IO101"]
    assert (finding.state, finding.severity) == (State.RECOVERED, Severity.WARNING)
    measured = {each.name: each.value for each in finding.measurements}
    assert (measured["lag-at-start"], measured["lag"]) == (200, 60200)
    assert judged(job).verdict is Verdict.DEGRADED


def test_a_backlog_from_before_a_start_is_not_a_past_problem() -> None:
    assert "IO101" not in findings(with_backlog(10, 2000.0).restored(5.0).job())
    assert "IO101" not in findings(with_backlog(10, 2000.0).restored(8.0).job())


def test_a_lag_of_seconds_is_not_a_past_problem() -> None:
    bench = Queues(minutes=30)
    for minute in range(30):
        left = {10: 300.0, 11: 600.0}.get(minute, 100.0)
        bench.set_metrics("Source: orders", minutes=[minute], pending=left, records_out=6000.0)
    assert "IO101" not in findings(bench.job())


def test_a_lag_is_a_lower_bound_while_the_source_waits() -> None:
    """A client does not fetch while its source waits, so it does not learn about newer records."""
    bench = with_backlog(29, 0.0)
    assert "at least" not in findings(bench.job())["IO101"].title
    slow_sink(bench, range(30))
    finding = findings(bench.job())["IO101"]
    assert finding.title.count("at least") == 2 and "too low" in (finding.explain or "")


def test_a_shrinking_lag_is_not_growth() -> None:
    assert "IO101" in findings(with_backlog(29, 0.0).job())
    assert "IO101" not in findings(with_backlog(15, 2000.0).job())


def test_a_hot_key_whose_windows_show_it_only_together_is_not_over() -> None:
    bench = hot_key(Queues(minutes=10))
    later = range(5, 10)
    for minute in later:
        busy, waits = (450.0, 900.0) if minute % 2 else (950.0, 300.0)
        bench.set_metrics("enrich", 2, [minute], busy=busy, input_queue=1.0, in_pool=0.1)
        bench.set_metrics(
            "Source: orders", minutes=[minute], back_pressured=waits, is_back_pressured=0.0
        )
    assert findings(bench.job())["SK101"].state is State.ONGOING
    bench.set_metrics("Source: orders", minutes=later, back_pressured=300.0, out_pool=0.3)
    assert findings(bench.job())["SK101"].state is State.RECOVERED


def test_later_samples_of_other_tasks_do_not_show_that_a_culprit_recovered() -> None:
    job = hot_key(Queues(minutes=8)).job()
    spell = findings(job)["SK101"]
    assert spell.state is State.ONGOING
    kept = {
        key: tuple(s for s in each if key.task == "Sink: deliver" or s.window < FIRST + 4)
        for key, each in job.samples.items()
    }
    assert findings(replace(job, samples=kept))["SK101"].state is State.ONGOING


def test_a_record_ratio_names_its_window_and_is_proven_by_record_counts() -> None:
    finding = findings(hot_key(Queues(minutes=8)).job())["SK101"]
    assert "9.0 times the records of its siblings while the skew lasted" in (finding.why or "")
    first = finding.evidence[0].focus
    assert first is not None and first.metrics[0][0] == "numRecordsIn"


# --- versions -------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["1.9.3", "1.10.3", "1.12.5", "1.14.6", "1.20.5", "2.3.0"])
def test_a_hot_key_is_found_with_the_metrics_of_each_version(version: str) -> None:
    culprit = judged(hot_key(Queues(version=version)).job()).culprits[0]
    assert (culprit.subject.task, culprit.subject.subtask_index) == ("enrich", 2)


def test_hot_keys_in_two_branches_are_both_named() -> None:
    """One stream feeds two tasks with the same key, and each of them has a hot subtask."""
    tasks = (("Source: orders", 2), ("bill", 4), ("audit", 6))
    bench = Queues(
        tasks=tasks, edges=(("Source: orders", "bill"), ("Source: orders", "audit"))
    ).set_metrics("Source: orders", **WAITS)
    for task, index in (("bill", 2), ("audit", 1)):
        bench.set_metrics(task, index, **WORKS, **FULL, records_in=9000.0)
    named = judged(bench.job()).culprits
    assert {(c.cause, c.subject.task, c.subject.subtask_index, c.confidence) for c in named} == {
        ("data-skew", "bill", 2, Confidence.HIGH),
        ("data-skew", "audit", 1, Confidence.HIGH),
    }


def test_a_queue_of_local_channels_is_insufficient_evidence() -> None:
    """From Flink 1.9 on, the queue length includes data that waits at local producers."""
    bench = Queues(version="1.9.3", managers=1).set_metrics("enrich", 2, input_queue=20.0)
    assert judged(bench.job()).culprits == ()


def test_full_pools_of_old_versions_are_weak_evidence() -> None:
    bench = Queues(version="1.8.0").set_metrics("enrich", in_pool=1.0, floating=1.0, exclusive=1.0)
    assert judged(bench.job()).verdict is Verdict.HEALTHY
    assert findings(bench.job())["BP103"].severity is Severity.INFO


def test_without_credits_neighbours_may_be_blocked() -> None:
    bench = Queues(version="1.4.2")
    bench.set_metrics("Source: orders", out_pool=1.0).set_metrics(
        "enrich", 1, in_pool=1.0, input_queue=12.0
    )
    found = findings(bench.job())
    assert found["BP203"].confidence is Confidence.LOW
    assert found["BP203"].severity is Severity.INFO


# --- the network ----------------------------------------------------------------------------------


def test_full_outputs_before_empty_inputs_are_a_network_bottleneck() -> None:
    bench = Queues().set_metrics("Source: orders", **WAITS)
    found = findings(bench.job())
    assert found["BP201"].cause == "slow-network"
    assert found["BP201"].confidence is not Confidence.HIGH
    assert "BP102" not in found


def test_receivers_that_wait_for_a_barrier_do_not_blame_the_network() -> None:
    """Their inputs are full: they read other channels only after the barrier of a slow subtask."""
    bench = Queues().set_metrics("Source: orders", **WAITS).set_metrics("enrich", input_queue=20.0)
    assert "BP201" not in findings(bench.job())


def test_unequal_keys_of_a_slow_task_blame_the_task() -> None:
    """The subtask with the most keys has the longest queue, and its siblings are almost as busy."""
    bench = (
        Queues()
        .set_metrics("Source: orders", **WAITS)
        .set_metrics("enrich", busy=880.0, idle=120.0)
    )
    bench.set_metrics("enrich", 1, busy=1000.0, idle=0.0, input_queue=18.0)
    finding = findings(bench.job())["BP102"]
    assert (finding.cause, finding.subject.task) == ("slow-operator", "enrich")
    assert "BP104" not in findings(bench.job())


CHAIN = "Source: clicks -> score -> Sink: ledger"


def chain(*, cpu: float, moving: bool = True, busy: float | None = 1000.0) -> Queues:
    """Return a job with a single task. Without a busy time, its source is a legacy source."""
    bench = Queues(tasks=((CHAIN, 2),), edges=(), managers=1, legacy_sources=busy is None)
    bench.set_metrics(CHAIN, idle=0.0, records_in=0.0, records_out=0.0)
    if busy is not None:
        bench.set_metrics(CHAIN, busy=busy, idle=1000.0 - busy)
    bench.machines = {"taskmanager-1": {"cpu": cpu}}
    bench.cores = {"taskmanager-1": 4.0}
    begin = FIRST * MINUTE
    points = tuple(
        FlowPoint(
            time, time + MINUTE * 5 // 6, 100.0 if moving or not minute else 0.0, Ref(0, minute)
        )
        for minute in range(5)
        for time in [begin + minute * MINUTE]
    )
    bench.flows = (Flow(task=CHAIN, operator="score", name="numRecordsIn", points=points),)
    return bench


def test_a_chain_that_waits_all_the_time_limits_its_job() -> None:
    finding = findings(chain(cpu=0.05).job())["BP102"]
    assert (finding.cause, finding.subject.task) == ("slow-operator", CHAIN)


def test_a_chain_that_passes_on_no_record_hangs() -> None:
    finding = findings(chain(cpu=0.05, moving=False).job())["BP102"]
    assert (finding.cause, finding.severity) == ("task-hangs", Severity.CRITICAL)


def test_a_chain_that_computes_all_the_time_may_read_a_backlog() -> None:
    job = chain(cpu=0.5).job()
    assert not findings(job)
    (reason,) = reasons(job)
    assert "no input shows whether it keeps up" in reason.reason
    assert judged(job).verdict is Verdict.INCONCLUSIVE


def test_nothing_shows_whether_a_chain_without_busy_time_keeps_up() -> None:
    job = chain(cpu=0.05, busy=None).job()
    (reason,) = reasons(job)
    assert "reports no busy time" in reason.reason
    assert judged(job).verdict is Verdict.INCONCLUSIVE


def test_a_job_that_has_read_its_input_needs_no_more_samples() -> None:
    bench = Queues(minutes=1, per_minute=2)
    assert judged(bench.job()).verdict is Verdict.INCONCLUSIVE
    bench.incidents.append(Incident(kind="finished", time_us=bench.at(1), job=bench.key))
    assert judged(bench.job()).verdict is Verdict.HEALTHY


def test_a_chain_with_time_left_is_healthy() -> None:
    job = chain(cpu=0.05, busy=700.0).job()
    assert (findings(job), reasons(job)) == ({}, [])


def test_times_of_a_minute_are_those_at_its_end() -> None:
    """From Flink 1.18 on, Flink averages them over a minute: earlier samples cover the time before."""
    gauge = {"n": 5, "total": 2500.0, "low": 200.0, "high": 900.0, "latest": 900.0}
    row = dict.fromkeys((*GAUGES, *OPERATOR_GAUGES, *COUNTERS)) | {
        "busy": gauge,
        "input_queue": gauge,
        "task": CHAIN,
        "vertex_id": None,
        "subtask_index": 0,
        "window": FIRST,
        "samples": 5,
        "resets": 0,
        "source": None,
    }
    row |= dict.fromkeys(("taskmanager", "host", "first_us", "last_us", "cluster", "job_id"))
    job = chain(cpu=0.5).job()
    for last, busy in ((True, 900.0), (False, 500.0)):
        ((sample,),) = samples_of(
            [row], Tasks(job.job, job.topology), Places(job.job), of_a_minute=last
        ).values()
        assert (sample.gauges["busy"].mean, sample.gauges["input_queue"].mean) == (busy, 500.0)


@pytest.mark.parametrize(("polled_s", "known"), [(0.0, True), (30.0, False)])
def test_the_backlog_of_a_consumer_that_does_not_poll_is_unknown(
    polled_s: float, known: bool
) -> None:
    def gauge(value: float) -> dict[str, float]:
        return {"n": 5, "total": 5 * value, "low": value, "high": value, "latest": value}

    row: dict[str, object] = dict.fromkeys((*GAUGES, *OPERATOR_GAUGES, *COUNTERS))
    row |= dict.fromkeys(("taskmanager", "host", "first_us", "last_us", "cluster", "job_id"))
    row |= {"task": CHAIN, "vertex_id": None, "subtask_index": 0, "window": FIRST, "samples": 5}
    row |= {"resets": 0, "source": None, "pending": gauge(0.0), "last_poll_s": gauge(polled_s)}
    job = chain(cpu=0.5).job()
    ((sample,),) = samples_of([row], Tasks(job.job, job.topology), Places(job.job)).values()
    assert ("pending" in sample.gauges) is known


def test_insufficient_network_memory_is_a_warning_if_tasks_wait() -> None:
    tight = {"segments_requested": 140.0, "segments": 100.0, "segments_free": 20.0}
    idle = Queues(machines={"taskmanager-1": tight}).job()
    assert findings(idle)["BP202"].severity is Severity.INFO
    waits = Queues(machines={"taskmanager-1": tight})
    waits.set_metrics("enrich", 0, back_pressured=200.0)
    assert findings(waits.job())["BP202"].severity is Severity.WARNING
    assert judged(waits.job()).cause == "network-memory"


@pytest.mark.parametrize(("samples", "warns"), [(6, True), (4, False)])
def test_a_burst_of_a_minute_shows_that_insufficient_network_memory_matters(
    samples: int, warns: bool
) -> None:
    tight = {"segments_requested": 140.0, "segments": 100.0, "segments_free": 20.0}
    burst = Queues(machines={"taskmanager-1": tight}, per_minute=samples)
    burst.set_metrics("enrich", 0, minutes=[1], back_pressured=200.0)
    assert (findings(burst.job())["BP202"].severity is Severity.WARNING) == warns


@pytest.mark.parametrize(
    ("minutes", "confidence"), [([1], Confidence.LOW), ([1, 3], Confidence.MEDIUM)]
)
def test_a_single_minute_of_waiting_is_weak_evidence(
    minutes: list[int], confidence: Confidence
) -> None:
    tight = {"segments_requested": 140.0, "segments": 100.0, "segments_free": 20.0}
    burst = Queues(machines={"taskmanager-1": tight}, minutes=60)
    burst.set_metrics("enrich", 0, minutes=minutes, back_pressured=200.0)
    assert findings(burst.job())["BP202"].confidence is confidence


def test_exhausted_segments_are_reported_without_request_metrics() -> None:
    empty = {"segments": 64.0, "segments_free": 0.0}
    assert judged(Queues(version="1.14.6", machines={"tm": empty}).job()).cause == "network-memory"
    slow = slow_sink(Queues(version="1.14.6", machines={"tm": empty})).job()
    assert (
        findings(slow)["BP202"].severity is Severity.INFO
    )  # all queues upstream of a slow sink fill up


def test_full_inputs_are_listed_with_their_capacity() -> None:
    finding = findings(hot_key(Queues()).job())["BP103"]
    assert finding.subject.subtask_index == 2
    assert finding.measurements[0].value == 1.0
    assert finding.why is None


# --- who else is uneven ---------------------------------------------------------------------------


def test_garbage_collection_is_reported() -> None:
    busy = {"gc_ms": 30_000.0, "heap_used": 95.0, "heap_max": 100.0}
    calm = {"gc_ms": 300.0, "heap_used": 50.0, "heap_max": 100.0}
    job = Queues(machines={"taskmanager-1": busy, "taskmanager-2": calm}).job()
    assert judged(job).culprits[0].subject.taskmanager == "taskmanager-1"
    assert findings(job)["SK104"].measurements[0].value == 0.5


def test_uneven_records_without_back_pressure_are_information() -> None:
    bench = Queues().set_metrics("aggregate", 4, records_in=9000.0, busy=400.0)
    assert findings(bench.job())["SK103"].severity is Severity.INFO
    assert judged(bench.job()).verdict is Verdict.HEALTHY


def test_a_watermark_that_lags_is_information() -> None:
    bench = Queues()
    for minute in range(5):
        bench.set_metrics("aggregate", None, [minute], watermark=1.7e12 + 60_000 * minute)
        bench.set_metrics("aggregate", 3, [minute], watermark=1.7e12 - 300_000)
    finding = findings(bench.job())["SK106"]
    assert (finding.subject.subtask_index, finding.severity) == (3, Severity.INFO)
    assert finding.measurements[0].value == 300_000


# --- what is missing ------------------------------------------------------------------------------


def test_no_metrics_at_all_is_inconclusive() -> None:
    job = Queues(minutes=0).job()
    assert judged(job).verdict is Verdict.INCONCLUSIVE
    assert "no task metrics" in reasons(job)[0].reason


def test_back_pressure_with_missing_downstream_metrics_has_no_culprit() -> None:
    bench = Queues().set_metrics("Source: orders", **WAITS)
    bench.absent = {("enrich", 2), ("enrich", 1)}
    verdict = judged(bench.job())
    assert (verdict.verdict, verdict.culprits) == (Verdict.INCONCLUSIVE, ())


def test_missing_subtasks_do_not_hide_the_others() -> None:
    bench = hot_key(Queues())
    bench.absent = {("aggregate", 5)}
    assert judged(bench.job()).culprits[0].subject.subtask_index == 2


def test_totals_since_the_start_lower_the_confidence() -> None:
    def load(task: str, index: int, busy: float, waits: float, records: float) -> SubtaskLoad:
        return SubtaskLoad(
            job=None,
            task=task,
            subtask_index=index,
            taskmanager="taskmanager-1",
            host=None,
            samples=0,
            busy=busy,
            back_pressured=waits,
            records_in=records,
        )

    bench = Queues(minutes=0)
    bench.totals = [load("Source: orders", index, 20, 800, 0) for index in range(2)]
    bench.totals += [load("enrich", index, 50, 0, 1000) for index in range(3)]
    bench.totals += [load("enrich", 3, 980, 0, 30_000)]
    verdict = judged(bench.job())
    assert verdict.culprits[0].subject.subtask_index == 3
    assert verdict.culprits[0].confidence is not Confidence.HIGH


def test_a_full_input_without_a_graph_has_lower_confidence() -> None:
    bench = hot_key(Queues(linked=False))
    (spell,) = find_spells(bench.job())
    assert (spell.task, [load.key.subtask_index for load in spell.culprit_loads]) == ("enrich", [2])
    assert "no-graph" in {vote.signal for vote in spell.votes}


# --- the tables -----------------------------------------------------------------------------------


def test_values_of_a_vertex_are_maxima_and_roles_follow_the_pressure() -> None:
    rows = {row.name: row for row in queue_vertices(facts_of(hot_key(Queues()).job()), 100)}
    assert {name: row.role for name, row in rows.items()} == {
        "Source: orders": "back-pressured",
        "enrich": "root",
        "aggregate": "fed-by-root",
        "Sink: deliver": "fed-by-root",
    }
    assert rows["enrich"].busy == 0.99
    assert rows["enrich"].subtasks[0].culprit
    assert rows["enrich"].subtasks[0].capacity == 22  # a remote and a local channel: 10 + 10 + 2
    assert rows["Source: orders"].busy is None


def test_truncated_rows_keep_culprits_first() -> None:
    row = queue_vertices(facts_of(hot_key(Queues()).job()), 80)[1]
    assert not row.truncated
    cut = queue_vertices(
        facts_of(hot_key(Queues(tasks=(("Source: orders", 2), ("enrich", 4)))).job()), 20
    )
    assert [(len(r.subtasks), r.total, r.truncated) for r in cut] == [(2, 2, False), (2, 4, True)]
    assert cut[1].subtasks[0].subtask_index == 2


def test_two_jobs_are_judged_separately() -> None:
    sick, well = hot_key(Queues()).job(), Queues().job()
    well = replace(well, job=replace(well.job, key=replace_key(well.job.key)))
    both = findings(sick, well)
    assert both["SK101"].job == sick.job.key


def replace_key(key: JobKey) -> JobKey:
    return key._replace(job_id="b" * 32)


# --- what would change if -------------------------------------------------------------------------


def test_remedies_are_simulated_only_with_a_slow_task() -> None:
    assert queue_remedies(facts_of(Queues().job())) == []


def test_a_model_without_parameters_forecasts_nothing() -> None:
    (remedy,) = queue_remedies(facts_of(hot_key(Queues(linked=False)).job()))
    assert remedy.forecasts == []
    assert remedy.problem


def test_back_pressure_without_a_graph_and_without_busy_times_is_inconclusive() -> None:
    bench = Queues(version="1.10.3", linked=False, minutes=1)
    bench.set_metrics("Source: orders", is_back_pressured=1.0, out_pool=1.0)
    (reason,) = reasons(bench.job())
    assert "order of the tasks" in reason.reason
    assert judged(bench.job()).verdict is Verdict.INCONCLUSIVE


def test_a_selection_keeps_the_windows_in_its_time() -> None:
    bench = hot_key(Queues(minutes=10))
    facts = facts_of(bench.job())
    late = select_facts(
        QUEUES, facts, (), Options(selection=Selection(since=Moment(before_end_us=4 * MINUTE)))
    )
    assert [w - FIRST for w in late.jobs[0].windows] == [5, 6, 7, 8, 9]
    none = select_facts(
        QUEUES, facts, (), Options(selection=Selection(until=Moment(utc_us=bench.at(-5))))
    )
    assert judged(*none.jobs).verdict is Verdict.INCONCLUSIVE


# --- over time ------------------------------------------------------------------------------------


def moving(*stages: tuple[int, range]) -> Queues:
    """Return a job whose hot key moves from one subtask of enrich to another."""
    bench = Queues(minutes=max(span.stop for _, span in stages) + 1)
    for index, minutes in stages:
        bench.set_metrics("Source: orders", minutes=minutes, **WAITS)
        bench.set_metrics("enrich", index, minutes=minutes, **WORKS, **FULL, records_in=9000.0)
    return bench


def culprits(bench: Queues) -> list[tuple[int | None, State, Severity]]:
    spells = sorted(find_spells(bench.job()), key=lambda spell: spell.windows)
    return [
        (
            spell.culprit.suspect.subtask_index,
            spell.state,
            judging.severity_of(bench.job(), spell),
        )
        for spell in spells
    ]


def test_a_moving_hot_key_is_reported_for_each_period() -> None:
    bench = moving((2, range(1, 5)), (0, range(5, 9)))
    bench.minutes = 9
    assert culprits(bench) == [
        (2, State.RECOVERED, Severity.WARNING),
        (0, State.ONGOING, Severity.WARNING),
    ]
    first = judged(bench.job()).culprits
    assert [c.subject.subtask_index for c in first] == [0, 2]
    over = find_spells(bench.job())[1]
    assert over.then is not None and over.then.suspect.subtask_index == 0


def test_one_minute_at_another_subtask_is_not_a_move() -> None:
    bench = moving((2, range(1, 4)), (0, range(4, 5)), (2, range(5, 9)))
    bench.minutes = 9
    assert [index for index, *_ in culprits(bench)] == [2]


def test_few_samples_are_never_healthy() -> None:
    quiet = Queues(minutes=1, per_minute=3).job()
    assert judged(quiet).verdict is Verdict.INCONCLUSIVE
    (found,) = reasons(quiet)
    assert found.reason == "each subtask has at most 3 samples, too few to rule out back pressure"


def test_a_busy_task_below_a_waiting_one_is_a_suspect_from_the_first_sample() -> None:
    job = hot_key(Queues(minutes=1, per_minute=1)).job()
    found = judged(job)
    assert (found.verdict, found.culprits) == (Verdict.INCONCLUSIVE, ())


def test_a_task_with_waiting_upstream_tasks_has_no_headroom() -> None:
    for samples in (1, 2, 3, 6):
        job = hot_key(Queues(minutes=1, per_minute=samples)).job()
        assert not [f for f in findings(job).values() if "it has room" in f.explain]


def test_two_samples_of_a_busy_task_below_a_waiting_one_are_evidence() -> None:
    found = judged(hot_key(Queues(minutes=1, per_minute=2)).job())
    assert [(c.subject.task, c.subject.subtask_index) for c in found.culprits] == [("enrich", 2)]
    assert found.culprits[0].confidence is not Confidence.LOW


def test_one_more_sample_does_not_change_a_small_input() -> None:
    """Two samples of a counter cover one interval, three samples cover two."""
    bench = Queues(minutes=1, per_minute=2).set_metrics("Source: orders", **WAITS)
    bench.set_metrics("enrich", **WORKS, **FULL, records_in=1000.0)
    job = bench.job()
    key = SubtaskKey("enrich", 1)
    (sample,) = job.samples[key]
    more = replace(sample, samples=3, increases={**sample.increases, "records_in": 2000.0})
    job = replace(job, samples={**job.samples, key: (more,)})
    assert judged(job).cause != "data-skew"


def test_bursts_that_saturate_all_tasks_have_no_culprit() -> None:
    """In ten of every thirty seconds, all tasks are busy and back-pressured; otherwise they are idle."""
    bench = Queues(minutes=8)
    for task in ("Source: orders", "enrich"):
        bench.set_metrics(task, back_pressured=300.0, is_back_pressured=0.3, idle=450.0, busy=250.0)
    bench.set_metrics("aggregate", busy=500.0, idle=500.0, input_queue=6.0, in_pool=0.4)
    found = judged(bench.job())
    assert (found.verdict, found.culprits) == (Verdict.HEALTHY, ())


@pytest.mark.parametrize("samples", [2, 4, 5, 7, 12])
@pytest.mark.parametrize("started", [-3.0, -1.5, -0.5])
def test_the_same_minute_gives_the_same_verdict_with_any_number_of_samples(
    samples: int, started: float
) -> None:
    bench = Queues(minutes=1, per_minute=samples)
    bench.starts.append(bench.at(started))
    found = judged(slow_sink(bench).job())
    assert (found.verdict, found.cause) == (Verdict.DEGRADED, "slow-operator")


def saturated(bench: Queues, **upstream: float) -> Queues:
    """Return a job in which all of `aggregate` is busy with full inputs, and `enrich` waits part of the time."""
    bench.set_metrics("aggregate", busy=990.0, idle=10.0, in_pool=0.9)
    return bench.set_metrics("enrich", None, None, busy=700.0, idle=120.0, **upstream)


@pytest.mark.parametrize("waits", [0.0, 180.0])
def test_a_task_with_only_busy_subtasks_is_the_culprit_although_no_task_waits_most_of_the_time(
    waits: float,
) -> None:
    job = saturated(Queues(), back_pressured=waits).job()
    finding = findings(job)["BP102"]
    assert (finding.severity, finding.subject.task) == (Severity.WARNING, "aggregate")
    assert ("while upstream tasks wait" in (finding.why or "")) is bool(waits)


def test_a_busy_task_that_empties_its_input_is_not_the_culprit() -> None:
    bench = Queues().set_metrics("aggregate", busy=950.0, idle=50.0, in_pool=0.1)
    assert findings(bench.job()) == {}


def busy_with_timers(cpu: float, *, legacy: bool = True, **values: Any) -> Queues:
    """Return a job in which all of `aggregate` is busy all the time, with empty inputs."""
    bench = Queues(managers=1, legacy_sources=legacy, **values).set_metrics(
        "aggregate", busy=995.0, idle=5.0, in_pool=0.0
    )
    bench.machines = {"taskmanager-1": {"cpu": cpu}}
    bench.cores = {"taskmanager-1": 4.0}
    return bench


def test_a_task_whose_timers_wait_all_the_time_is_the_culprit() -> None:
    finding = findings(busy_with_timers(0.05).job())["BP102"]
    assert (finding.cause, finding.subject.task) == ("slow-operator", "aggregate")
    assert finding.title.endswith("is busy all the time, although no task waits for it")


def test_a_task_whose_timers_compute_all_the_time_may_keep_up() -> None:
    job = busy_with_timers(0.9).job()
    assert not findings(job)
    assert [reason.reason.partition(":")[0] for reason in reasons(job)] == [
        "aggregate is busy all the time"
    ]


def test_a_task_that_computes_all_the_time_while_sources_are_idle_is_the_culprit() -> None:
    finding = findings(busy_with_timers(0.9, legacy=False).job())["BP102"]
    assert (finding.cause, finding.subject.task) == ("slow-operator", "aggregate")


@pytest.mark.parametrize("cpu", [0.05, 0.9])
def test_tasks_that_start_count_as_busy(cpu: float) -> None:
    bench = busy_with_timers(cpu, minutes=1)
    bench.starts.append(bench.at(0.3))
    assert (findings(bench.job()), reasons(bench.job())) == ({}, [])


def test_the_only_subtask_of_a_task_with_a_full_input_is_too_slow() -> None:
    tasks = (("Source: orders", 2), ("clean", 3), ("rank", 1), ("Sink: deliver", 2))
    bench = Queues(tasks=tasks, minutes=1).set_metrics("rank", busy=840.0, idle=160.0, in_pool=0.8)
    finding = findings(bench.job())["BP102"]
    assert (finding.cause, finding.subject.task) == ("slow-operator", "rank")


def test_a_busy_task_is_not_the_culprit_right_after_a_start() -> None:
    bench = Queues(minutes=1)
    bench.starts.append(bench.at(-0.1))
    assert findings(saturated(bench).job())["BP102"].severity is Severity.INFO


@pytest.mark.parametrize("per_minute", [5, 7, 12])
def test_a_source_that_always_waits_is_more_than_information(per_minute: int) -> None:
    """The result for the first minute of a job is independent of the number of samples."""
    bench = slow_sink(Queues(minutes=1, per_minute=per_minute))
    bench.set_metrics("Source: orders", back_pressured=1000.0, idle=0.0, is_back_pressured=1.0)
    bench.starts.append(bench.at(-0.1))
    assert judged(bench.job()).verdict is Verdict.DEGRADED
    assert all(f.severity is not Severity.INFO for f in findings(bench.job()).values())


def test_a_full_heap_that_is_collected_a_third_of_the_time_is_a_warning_after_four_samples() -> (
    None
):
    machine = {"gc_ms": 18_000.0, "heap_used": 95.0, "heap_max": 100.0}
    finding = findings(Queues(minutes=1, per_minute=4, machines={"taskmanager-1": machine}).job())[
        "SK104"
    ]
    assert finding.severity is Severity.WARNING
    assert finding.title.endswith("30% of its time in garbage collection, and its heap is 95% full")


def quiet(bench: Queues, **window: float) -> Queues:
    """Return a job in which `aggregate` receives records but emits none."""
    bench.set_metrics("Source: orders", records_out=1000.0)
    bench.set_metrics("enrich", records_out=1000.0)
    bench.set_metrics("Sink: deliver", records_in=0.0, records_out=0.0)
    return bench.set_metrics("aggregate", None, None, records_out=0.0, **window)


def test_a_task_whose_watermark_does_not_advance_emits_nothing() -> None:
    finding = findings(quiet(Queues(minutes=2), watermark=1.68e12).job())["BP105"]
    assert (finding.severity, finding.cause) == (Severity.WARNING, "stuck-watermark")
    assert (
        finding.title
        == "aggregate has emitted nothing for 1 min 50 s: its watermark does not advance"
    )


def test_a_job_without_output_is_not_healthy() -> None:
    bench = quiet(Queues(minutes=2))
    for minute in range(2):
        bench.set_metrics("aggregate", minutes=[minute], watermark=1.68e12 + minute * 60_000)
    for job in (bench.job(), quiet(Queues(minutes=2)).job()):
        assert judged(job).verdict is Verdict.INCONCLUSIVE
        assert reasons(job)[0].reason.startswith("aggregate received 12 000 records in 1 min 50 s")


def test_a_job_in_which_no_record_moves_is_not_healthy() -> None:
    bench = Queues(minutes=2)
    for task, _ in bench.tasks:
        bench.set_metrics(task, records_in=0.0, records_out=0.0)
    assert judged(bench.job()).verdict is Verdict.INCONCLUSIVE
    bench.set_metrics("Source: orders", 0, records_out=1.0)
    assert judged(bench.job()).verdict is Verdict.HEALTHY


def test_advice_fits_the_exhausted_resource() -> None:
    def advice(cpu: float) -> str:
        machines = {f"taskmanager-{n}": {"cpu": cpu} for n in (1, 2, 3)}
        finding = findings(slow_sink(Queues(machines=machines)).job())["BP102"]
        return " ".join(action.text for action in finding.actions)

    assert "asynchronously" in advice(0.3)
    assert "asynchronously" not in advice(0.97)
    assert "more cores: they already use 97% of their cores" in advice(0.97)


def test_an_operator_with_state_in_rocksdb_gets_advice_about_its_memory() -> None:
    bench = slow_sink(Queues())
    bench.settings.append(
        Setting(job=bench.key, key="state.backend.type", value="rocksdb", source="rest")
    )
    texts = [action.text for action in findings(bench.job())["BP102"].actions]
    assert any("more managed memory per slot" in text for text in texts[:2])


def test_tasks_that_wait_in_turn_are_no_finding_without_a_task() -> None:
    bench = Queues(minutes=10)
    for minute in range(10):
        bench.set_metrics("enrich", minute % 4, minutes=[minute], back_pressured=550.0, busy=0.0)
    assert findings(bench.job()) == {}


def test_back_pressure_that_began_late_has_the_shares_of_its_own_time() -> None:
    bench = Queues(minutes=20)
    bench.set_metrics("enrich", minutes=range(16, 20), back_pressured=900.0, busy=0.0)
    assert (
        findings(bench.job())["BP101"].title
        == "1 task is back-pressured up to 90% of the time: enrich"
    )


def test_a_blocked_sibling_does_not_make_a_subtask_skewed() -> None:
    queues = Queues()
    for task, _ in queues.tasks[:-1]:
        queues.set_metrics(task, busy=50.0, idle=50.0, back_pressured=900.0)
    sink = queues.tasks[-1][0]
    queues.set_metrics(sink, busy=980.0, idle=20.0, input_queue=9.0, records_in=6000.0)
    queues.set_metrics(sink, 0, records_in=0.0, bytes_in=0.0)
    assert "SK101" not in findings(queues.job())
