"""The line of code behind a slow task, on synthetic metrics and thread dumps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from flowdiag.analyses.model.finding import Confidence, Finding, Severity, Verdict
from flowdiag.analyses.model.keys import Ref
from flowdiag.analyses.queues.facts import JobQueues
from flowdiag.analyses.stacks import Stack

from .queues_workbench import Queues, findings, judged
from .test_queue_rules import WAITS, WORKS, slow_sink

FRAME = "com.shop.Deliver.invoke(Deliver.java:31)"


def stacks(kinds: Iterable[str], task: str = "Sink: deliver", **more: Any) -> list[Stack]:
    """Return one sample per kind, alternating between the two subtasks of the sink."""
    return [
        Stack(
            dump=f"dump-{number // 2}",
            thread=f"{task} ({number % 2 + 1}/2)#0",
            task=task,
            subtask_index=number % 2,
            activity=kind if kind != "external" else "socket",
            kind=kind,
            frame=FRAME if kind not in ("idle", "output") else None,
            ref=Ref(0, number),
            **more,
        )
        for number, kind in enumerate(kinds)
    ]


def with_stacks(job: JobQueues, found: Iterable[Stack]) -> JobQueues:
    return replace(job, job=replace(job.job, stacks=tuple(found)))


def code_of(job: JobQueues) -> Finding | None:
    return findings(job).get("BP107")


@pytest.mark.parametrize(
    ("kinds", "cause", "confidence"),
    [
        (["external"] * 6, "slow-external-call", Confidence.MEDIUM),
        (["external"] * 2, "slow-external-call", Confidence.LOW),
        (["lock", "cpu"] * 3, "lock-contention", Confidence.HIGH),
        (["sleep", "idle"] * 3, "sleeping-in-operator", Confidence.MEDIUM),
        (["async-queue"] * 6, "async-queue-full", Confidence.MEDIUM),
        (["state", "state", "cpu", "serialization"], "state-access-bound", Confidence.LOW),
    ],
)
def test_most_samples_name_the_cause(kinds: list[str], cause: str, confidence: Confidence) -> None:
    job = with_stacks(slow_sink(Queues()).job(), stacks(kinds))
    found = code_of(job)
    assert found is not None
    assert (found.cause, found.confidence) == (cause, confidence)
    assert found.subject.task == "Sink: deliver"
    culprit = judged(job).culprits[0]
    assert (judged(job).cause, culprit.subject.task) == (cause, "Sink: deliver")
    assert FRAME in culprit.why


def in_python(code: str = "lookup (lookups.py:14)") -> list[Stack]:
    """Return samples of a task that waits for Python, and `py-spy` dumps of its worker."""
    waiting = [replace(s, frame=None, activity="python-worker") for s in stacks(["python"] * 6)]
    worker: dict[str, Any] = {"activity": "python-call", "call": "urllib.urlopen", "frame": code}
    return [*waiting, *(replace(s, task=None, subtask_index=None, **worker) for s in waiting)]


def test_a_task_waits_for_its_python_worker() -> None:
    job = slow_sink(Queues()).job()
    finding = code_of(with_stacks(job, in_python()[:6]))
    assert finding is not None
    assert finding.cause == "python-worker-bound"
    assert "waits for Python code" in (finding.why or "")
    assert [a.text for a in finding.actions if "py-spy dump" in a.text]
    found = code_of(with_stacks(job, in_python()))
    assert found is not None and found.cause == "python-worker-bound"
    assert "waits for another system in lookup (lookups.py:14)" in (found.why or "")
    assert found.subject.task == "Sink: deliver"
    assert not [action.text for action in found.actions if "py-spy" in action.text]


def test_python_workers_of_several_tasks_name_no_line() -> None:
    other = [replace(stack, task="enrich") for stack in in_python()[:6]]
    found = code_of(with_stacks(slow_sink(Queues()).job(), [*in_python(), *other]))
    assert found is not None and "lookups.py" not in (found.why or "")


def test_the_first_advice_fits_the_code_and_no_flame_graph_is_needed() -> None:
    call = "sun.net.www.protocol.http.HttpURLConnection.getInputStream"
    job = with_stacks(slow_sink(Queues()).job(), stacks(["external"] * 6, call=call))
    texts = [action.text for action in findings(job)["BP102"].actions]
    assert "instead of HttpURLConnection.getInputStream in com.shop.Deliver.invoke" in texts[0]
    assert not [text for text in texts if "flame graph of this task" in text]
    without = [action.text for action in findings(slow_sink(Queues()).job())["BP102"].actions]
    assert [text for text in without if "flame graph of this task" in text]


@pytest.mark.parametrize(
    "kinds",
    [
        ["idle"] * 6,
        ["output"] * 6,
        ["cpu", "idle", "idle", "idle", "idle", "idle"],  # rarely works
        ["cpu", "external", "sleep", "state", "logging", "serialization"],  # nothing in common
        ["snapshot"] * 6,
    ],
)
def test_samples_that_disagree_name_no_cause(kinds: list[str]) -> None:
    job = with_stacks(slow_sink(Queues()).job(), stacks(kinds))
    assert code_of(job) is None
    assert judged(job).cause == "slow-operator"


def test_stacks_of_a_healthy_or_busy_job_give_no_finding() -> None:
    healthy = with_stacks(Queues().job(), stacks(["external"] * 6))
    assert (findings(healthy), judged(healthy).verdict) == ({}, Verdict.HEALTHY)
    busy = Queues().set_metrics("Sink: deliver", busy=700.0, idle=300.0).job()
    assert code_of(with_stacks(busy, stacks(["cpu"] * 6))) is None


def test_the_threads_of_other_tasks_do_not_count() -> None:
    others = [*stacks(["idle"] * 30, task="enrich"), *stacks(["sleep"] * 30, task="Source: orders")]
    found = code_of(with_stacks(slow_sink(Queues()).job(), [*stacks(["external"] * 6), *others]))
    assert found is not None and found.cause == "slow-external-call"


def test_a_task_that_always_waits_needs_no_back_pressured_upstream() -> None:
    """A source and a slow function in one task: no task is before it."""
    bench = Queues().set_metrics("Sink: deliver", busy=1000.0, idle=0.0)
    job = with_stacks(bench.job(), stacks(["external"] * 6, chained=True))
    found = code_of(job)
    assert found is not None and found.cause == "slow-external-call"
    assert (
        code_of(with_stacks(bench.job(), stacks(["external"] * 6))) is None
    )  # waits for its own input
    assert code_of(with_stacks(bench.job(), stacks(["sleep"] * 6, chained=True))) is None
    some = ["external", "idle"] * 3
    assert code_of(with_stacks(bench.job(), stacks(some, chained=True))) is None


def test_locks_need_no_back_pressure() -> None:
    waiting = stacks(["lock", "cpu"] * 3, lock="java.lang.Class@2a", owner="Sink: deliver (2/2)#0")
    found = code_of(with_stacks(Queues().job(), waiting))
    assert found is not None and found.severity is Severity.WARNING
    assert "java.lang.Class@2a" in found.title and "Sink: deliver (2/2)#0" in found.title
    once = code_of(with_stacks(Queues().job(), waiting[:2]))
    assert once is None  # in a single dump the wait may be short


def test_a_lock_is_reported_with_the_work_of_its_owner() -> None:
    owner = {"owner_activity": "socket", "owner_frame": "com.acme.Cache.load(Cache.java:7)"}
    waiting = stacks(["lock", "cpu"] * 3, owner="Sink: deliver (2/2)#0", **owner)
    found = code_of(with_stacks(Queues().job(), waiting))
    assert found is not None
    assert "; its owner waits for a response in com.acme.Cache.load(Cache.java:7)" in (
        found.why or ""
    )


def test_a_single_dump_shows_a_deadlock() -> None:
    names = ("Sink: deliver (1/2)#0", "Sink: deliver (2/2)#0")
    found = code_of(with_stacks(Queues().job(), stacks(["lock"] * 2, deadlock=names)))
    assert found is not None
    assert (found.cause, found.severity) == ("deadlock", Severity.CRITICAL)


def test_the_thread_of_a_legacy_source_replaces_the_thread_of_its_task() -> None:
    bench = Queues().set_metrics("Source: orders", **WAITS)
    bench.set_metrics("enrich", **WORKS, floating=1.0, exclusive=1.0)
    own = stacks(["checkpoint-lock"] * 6, task="enrich")
    legacy = stacks(["sleep"] * 6, task="enrich", legacy=True)
    found = code_of(with_stacks(bench.job(), [*own, *legacy]))
    assert found is not None and found.cause == "sleeping-in-operator"


def test_the_time_per_record_limits_the_throughput() -> None:
    bench = slow_sink(Queues())
    bench.set_metrics("Sink: deliver", records_in=1000.0)
    found = code_of(with_stacks(bench.job(), stacks(["external"] * 6)))
    assert found is not None
    (latency,) = [m for m in found.measurements if m.name == "time-per-record"]
    assert latency.value == pytest.approx(59.4, rel=0.2)
    assert "records/s" in found.explain


@pytest.mark.parametrize(
    ("crowds", "found"),
    [((600, 600), True), ((120, 180), True), ((150, 150), False), ((20, 60), False)],
)
def test_threads_with_similar_names_are_a_leak(crowds: tuple[int, int], found: bool) -> None:
    dumps = [
        replace(
            stack,
            dump=str(n),
            taskmanager="tm-1",
            time_us=n,
            crowd=crowd,
            crowd_name="pool-#-thread-#",
        )
        for n, (stack, crowd) in enumerate(zip(stacks(["idle", "idle"]), crowds, strict=True))
    ]
    leak = findings(with_stacks(Queues().job(), dumps)).get("BP108")
    assert (leak is not None) is found
    assert leak is None or f"{crowds[1]} threads named pool-#-thread-#" in leak.title
