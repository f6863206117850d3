"""The rules judge any facts without errors, and their numbers never contradict each other."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flowdiag.analyses.checkpoints.rules import RULES as CHECKPOINT_RULES
from flowdiag.analyses.flink.job import ClusterFacts
from flowdiag.analyses.flink.tasks.placement import place
from flowdiag.analyses.model.finding import Confidence, weigh
from flowdiag.analyses.report.verdicts import judge

from .judged import outcomes_of
from .workbench import Bench

KINDS = (
    "task-failure",
    "job-failing",
    "job-failure",
    "taskmanager-lost",
    "out-of-memory",
    "restored",
    "started",
    "cancelled",
    "finished",
    "task-stuck",
    "not-triggered",
    "external-failure",
    "async-failure",
    "snapshot-failed",
    "taskmanager-registered",
)
CAUSES = (
    None,
    "",
    "java.lang.RuntimeException: x",
    "java.lang.OutOfMemoryError: Metaspace",
    "The heartbeat of TaskManager with id tm-1 timed out",
    "\x00 <script> ﻿",
)
SHARES = st.none() | st.floats(0, 1100, allow_nan=False)


@st.composite
def facts(draw: st.DrawFn) -> ClusterFacts:
    job = Bench(
        version=draw(st.sampled_from(["1.4.2", "1.9.3", "1.14.6", "2.3.0", None, "nonsense"])),
        timeout_s=draw(st.sampled_from([0.001, 8, 600])),
        interval_s=draw(st.sampled_from([0.1, 3, 60])),
        managers=draw(st.integers(1, 4)),
        with_graph=draw(st.booleans()),
    )
    who = st.sampled_from(job.everyone())
    for _ in range(draw(st.integers(0, 12))):
        action = draw(st.integers(0, 7))
        if action == 0:
            job.completes(1, lasted_s=draw(st.floats(0, 1e4)))
        elif action == 1:
            for checkpoint in job.expires(1):
                for task, index in draw(st.lists(who, max_size=6)):
                    job.is_late(checkpoint, task, index, draw(st.floats(-5, 1e5)))
        elif action == 2:
            for checkpoint in job.expires(1):
                missing = draw(st.lists(who, max_size=14))
                job.acknowledgements(
                    checkpoint,
                    missing,
                    async_ms=draw(st.none() | st.integers(-1, 10**9)),
                    bytes=draw(st.none() | st.integers(0, 10**12)),
                )
        elif action == 3:
            for checkpoint in job.declined(1, draw(st.sampled_from(CAUSES))):
                job.refuses(checkpoint, *draw(who), draw(st.sampled_from(CAUSES)) or "")
        elif action == 4:
            job.in_flight(1)
        elif action == 5:
            task, index = draw(who)
            job.happens(
                draw(st.sampled_from(KINDS)),
                task=draw(st.sampled_from([task, None])),
                subtask_index=draw(st.sampled_from([index, None])),
                taskmanager=draw(st.sampled_from(["tm-1", None])),
                checkpoint=draw(st.sampled_from([None, 1, 2])),
                cause=draw(st.sampled_from(CAUSES)),
            )
        elif action == 6:
            names = ("busy", "idle", "back_pressured", "records_in", "input_queue")
            job.loaded({draw(who): {name: draw(SHARES) for name in names}}, busy=draw(SHARES))
        else:
            job.run, job.next_id = job.run + 1, draw(st.integers(1, 5))
    made = job.job()
    if draw(st.booleans()):
        made = replace(made, attempts=(), settings=())
    return job.facts(jobs=(made,))


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(facts())
def test_any_facts(given_facts: ClusterFacts) -> None:
    outcomes = outcomes_of(CHECKPOINT_RULES, given_facts)
    judge(outcomes)
    for outcome in outcomes:
        for finding in outcome.findings:
            assert finding.title and finding.explain and finding.count >= 1
            if finding.votes and finding.confidence is Confidence.HIGH:
                assert weigh(finding.votes) is Confidence.HIGH
            if finding.why is not None:
                assert finding.subject.kind != "job" or finding.cause
    for job in given_facts.jobs:
        placed = place(job)
        assert sum(share.late for share in placed.shares) <= len(placed.observations)
        for share in placed.shares:
            assert share.p_value is None or 0 <= share.p_value <= 1
