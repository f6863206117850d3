"""Not assessed is never healthy, and a rule with nothing to judge is never clear."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from flowdiag.analyses.checkpoints.topic import CHECKPOINTS, why_not_healthy
from flowdiag.analyses.contract import report as wire
from flowdiag.analyses.diagnosis import InspectedInputs, judge_topic, report_on
from flowdiag.analyses.flink.assemble import assemble
from flowdiag.analyses.flink.clocks.settle import Clock, Segment, _given_clock
from flowdiag.analyses.flink.job import ClusterFacts, Incident, SubtaskLoad
from flowdiag.analyses.flink.understood import recognized_kinds
from flowdiag.analyses.memory.facts import MemoryFacts, MemoryProcess
from flowdiag.analyses.memory.topic import MEMORY
from flowdiag.analyses.model.finding import RecognizedRecords, Status, Verdict
from flowdiag.analyses.model.keys import JobKey
from flowdiag.analyses.queues.facts import QueueFacts
from flowdiag.analyses.queues.topic import QUEUES
from flowdiag.analyses.rate.assemble.late import (
    ended_overload,
    late_triggers,
    without_inconclusive_late_triggers,
)
from flowdiag.analyses.rate.facts import RateFacts
from flowdiag.analyses.rate.topic import RATE
from flowdiag.analyses.report import build, verdicts
from flowdiag.analyses.report.build import unrecognized
from flowdiag.analyses.selection.options import MemoryOptions, Options
from flowdiag.analyses.selection.span import Moment, Selection
from flowdiag.analyses.startup.facts import StartupFacts
from flowdiag.analyses.startup.topic import STARTUP
from flowdiag.analyses.topic import Measured
from flowdiag.cli.render import table
from flowdiag.cli.text.page import Page
from flowdiag.parsers.discover import discover
from flowdiag.parsers.rows import Event

from ..cli import reports
from .queues_workbench import Queues, facts_of
from .workbench import SECOND, T0, Bench

LONG_AFTER = Options(selection=Selection(since=Moment(utc_us=T0 + 10**15)))


def measured(facts: ClusterFacts) -> Measured:
    return Measured(facts={"checkpoints": facts})


def verdict_of(bench: Bench, options: Options | None = None) -> verdicts.Judgement:
    return verdicts.judge(
        judge_topic(CHECKPOINTS, measured(bench.facts()), options or Options()).outcomes
    )


@pytest.mark.parametrize("ends", ["in_flight", "aborted"])
def test_without_a_completed_checkpoint_no_job_is_healthy(ends: str) -> None:
    bench = Bench()
    bench.in_flight() if ends == "in_flight" else bench.aborted("suspending")
    assert verdict_of(bench).verdict is Verdict.INCONCLUSIVE


def test_a_completed_checkpoint_proves_health() -> None:
    bench = Bench(
        interval_s=10
    )  # a checkpoint takes a tenth of it, so the log may well end with one
    bench.completes(3)
    bench.in_flight()
    assert verdict_of(bench).verdict is Verdict.HEALTHY
    assert why_not_healthy(bench.job()) is None


@pytest.mark.parametrize(
    ("durations", "verdict"),
    [
        ((8, 21, 31, 22), Verdict.INCONCLUSIVE),  # the first minutes of a job with a slow task
        ((6, 15, 36), Verdict.INCONCLUSIVE),
        ((8, 21), Verdict.INCONCLUSIVE),  # the configured interval is not known from two triggers
        ((40, 12, 1, 1), Verdict.HEALTHY),  # a usual start
        ((40, 21, 9), Verdict.HEALTHY),  # it gets faster
        ((9, 1, 1, 1), Verdict.HEALTHY),
        ((1, 1, 1, 9), Verdict.HEALTHY),  # a single one is a coincidence
        ((1.5, 1.9, 1.9), Verdict.HEALTHY),  # below two seconds
    ],
)
def test_slow_checkpoints_of_a_start_that_has_not_ended_do_not_prove_health(
    durations: tuple[float, ...], verdict: Verdict
) -> None:
    bench = Bench(interval_s=5)
    for lasted_s in durations:
        bench.completes(1, lasted_s=lasted_s)
    assert verdict_of(bench).verdict is verdict


@pytest.mark.parametrize(
    ("lasted_s", "verdict"),
    [(100, Verdict.INCONCLUSIVE), (35, Verdict.INCONCLUSIVE), (25, Verdict.HEALTHY)],
)
def test_an_overdue_checkpoint_that_a_cancel_aborts_does_not_prove_health(
    lasted_s: float, verdict: Verdict
) -> None:
    bench = Bench(interval_s=5)
    bench.completes(8)
    bench.aborted("suspending", lasted_s=lasted_s)
    assert verdict_of(bench).verdict is verdict


def test_slow_checkpoints_after_a_past_loss_are_inconclusive() -> None:
    bench = Bench(interval_s=5)
    bench.completes(8)
    bench.happens("taskmanager-lost", taskmanager="tm-1")
    bench.happens("restart")
    bench.happens("restored")
    bench.completes(3, lasted_s=22)
    (core, *_) = judge_topic(CHECKPOINTS, measured(bench.facts()), Options()).outcomes
    reasons = [item.reason for item in core.inconclusive]
    assert any("3 checkpoints after the start took up to 22 s" in reason for reason in reasons)


def test_failure_counts_do_not_prove_health() -> None:
    bench = Bench()
    bench.incidents.append(
        Incident(
            kind="checkpoint-counts",
            time_us=None,
            job=bench.key,
            text={"failed": "124", "completed": "0"},
        )
    )
    assert why_not_healthy(bench.job()) == "no checkpoint completed: 124 checkpoints failed"
    assert verdict_of(bench).verdict is Verdict.INCONCLUSIVE


def test_a_deliberate_stop_is_reported_as_such() -> None:
    bench = Bench()
    bench.aborted("suspending")
    bench.incidents.append(Incident(kind="cancelled", time_us=T0 + SECOND, job=bench.key))
    assert (why_not_healthy(bench.job()) or "").endswith("the job was stopped on purpose")


def test_a_time_range_outside_the_input_is_not_assessed() -> None:
    bench = Bench()
    bench.expires(4)
    part = judge_topic(CHECKPOINTS, measured(bench.facts()), LONG_AFTER)
    assert not part.assessed
    assert {outcome.status for outcome in part.outcomes} == {Status.NOT_ASSESSED}
    assert all("requested time range" in (o.not_assessed_reason or "") for o in part.outcomes)


@pytest.mark.parametrize(
    "topic, facts",
    [
        (CHECKPOINTS, ClusterFacts(jobs=(), processes=())),
        (STARTUP, StartupFacts(common=ClusterFacts(jobs=(), processes=()), jobs=())),
        (MEMORY, MemoryFacts(processes=())),
        (QUEUES, QueueFacts(common=ClusterFacts(jobs=(), processes=()), jobs=())),
        (RATE, RateFacts(applications=())),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_no_rule_is_clear_without_anything_to_judge(topic: Any, facts: Any) -> None:
    part = judge_topic(topic, Measured(facts={topic.name: facts}), Options())
    assert not part.assessed
    assert Status.CLEAR not in {outcome.status for outcome in part.outcomes}


def test_rules_about_ended_checkpoints_need_one() -> None:
    bench = Bench()
    bench.in_flight()
    outcomes = judge_topic(CHECKPOINTS, measured(bench.facts()), Options()).outcomes
    status = {outcome.code: outcome.status for outcome in outcomes}
    assert status["CP102"] is status["CP104"] is Status.NOT_ASSESSED
    assert status["CP311"] is Status.CLEAR


def test_diagnose_does_not_ask_about_queues_that_no_input_shows() -> None:
    bench = Bench()
    bench.completes(3)
    for waits, expected in ((20, "healthy"), (800, "inconclusive")):
        load = partial(SubtaskLoad, job=None, taskmanager="taskmanager-1", host=None, samples=0)
        queues = Queues(minutes=0)
        queues.totals = [
            load(
                task="Source: orders", subtask_index=0, busy=20, back_pressured=waits, records_in=9
            ),
            load(task="enrich", subtask_index=0, busy=waits + 100, back_pressured=0, records_in=9),
        ]
        facts = {"checkpoints": bench.facts(), "queues": facts_of(queues.job())}
        inputs = InspectedInputs(sources=(), to_scan=(), side_inputs={}, notes=())
        report = report_on(
            (CHECKPOINTS, QUEUES), inputs, Measured(facts=facts), Options(everything=True)
        )
        (topic,) = (each for each in report.topics if each.topic == "queues")
        assert report.summary.verdict == expected
        if expected == "healthy":
            assert topic.status == "nothing" and "no samples over time" in (topic.reason or "")
            assert "no samples over time" in table.render(report, Page(width=200))
            alone = report_on((QUEUES,), inputs, Measured(facts=facts))
            assert alone.summary.verdict == "inconclusive"


def test_calculated_is_not_healthy() -> None:
    process = MemoryProcess(
        role="taskmanager", configured={"taskmanager.memory.process.size": "4g"}
    )
    part = judge_topic(
        MEMORY, Measured(facts={"memory": MemoryFacts(processes=(process,))}), Options()
    )
    assert part.assessed
    assert part.calculated
    seen = build.ReportBuilder(
        command="memory",
        inputs=(),
        outcomes=part.outcomes,
        names={},
        data=part.data,
        located={},
        assessed=part.assessed,
        calculated=part.calculated,
    ).build()
    assert seen.summary.verdict is Verdict.CALCULATED


def test_processes_without_a_job_are_not_a_healthy_job() -> None:
    size = {"taskmanager.memory.process.size": "4g"}
    process = MemoryProcess(role="taskmanager", configured=size, observed={"process": 4 << 30})
    common = ClusterFacts(jobs=(), processes=())
    idle = {
        "memory": MemoryFacts(processes=(process,)),
        "startup": StartupFacts(common=common, jobs=()),
    }
    inputs = InspectedInputs(sources=(), to_scan=(), side_inputs={}, notes=())
    report = report_on((MEMORY, STARTUP), inputs, Measured(facts=idle), Options(everything=True))
    assert report.summary.verdict == "inconclusive"
    job = reports.job_facts(is_failing=False)
    with_job = idle | {"memory": MemoryFacts(processes=(process,), jobs=(job,))}
    report = report_on(
        (MEMORY, STARTUP), inputs, Measured(facts=with_job), Options(everything=True)
    )
    assert report.summary.verdict == "healthy"


def test_unknown_versions_and_options_are_warnings() -> None:
    options = Options(memory=MemoryOptions(given={"managed.fraktion": "0.2"}, version="9.9"))
    notes = list(MEMORY.notes(MemoryFacts(processes=()), MemoryFacts(processes=()), options))
    assert list(map(str, notes)) == [
        "flowdiag does not know Flink 9.9: sizes are calculated as for the nearest version, 2.3",
        "Flink has no option managed.fraktion: did you mean taskmanager.memory.managed.fraction?",
    ]


def test_named_inputs_must_be_recognised() -> None:
    known, _, other = reports.inputs()
    assert unrecognized([known, other], ["logs/jobmanager.log", "logs/core.4711"]) == [
        "logs/core.4711"
    ]
    assert unrecognized([known, other], ["logs/"]) == []
    assert unrecognized([other], [other.source], logs=[other.source]) == []
    kept = build.ReportBuilder(
        command="checkpoints",
        inputs=[known],
        outcomes=(),
        names={},
        data=wire.Data(),
        located={},
        assessed=True,
        doubts=["-: nothing in it was understood"],
    ).build()
    assert kept.summary.verdict is Verdict.INCONCLUSIVE
    assert kept.summary.reason == "-: nothing in it was understood"


ROW = dict.fromkeys(
    (
        *("job_id", "job_name", "fields", "from_state", "to_state", "template", "thread", "logger"),
        *("taskmanager", "host", "task", "subtask_index", "parallelism", "cause", "checkpoint"),
        *("duration_ms", "attempt_id", "owner"),
    )
)


def row(event: Event, offset: int, **fields: Any) -> dict[str, Any]:
    notes = {"what": "incident", "event": event, "cluster": "", "role": "jobmanager", "source": 0}
    return {**ROW, **notes, "time_us": T0, "offset": offset, **fields}


def test_a_failure_without_a_job_belongs_to_the_unnamed_job() -> None:
    rows = [
        row(Event.TASKMANAGER_LOST, 0, cause="heartbeat timed out"),
        row(Event.TASKMANAGER_LOST, 90, taskmanager="tm-3", host="worker-3"),
        row(Event.TASK_STATE, 200, to_state="FAILED", cause="java.io.IOException: broken"),
    ]
    facts = assemble(rows, [], ())
    (job,) = facts.jobs
    assert job.key == JobKey("", "")
    assert [i.kind for i in job.incidents] == ["taskmanager-lost"] * 2 + ["task-failure"]
    assert job.incidents[0].taskmanager == "tm-3"  # by the name in the next record
    assert not facts.incidents
    assert [(one.kind, one.count) for one in recognized_kinds(facts)] == [
        ("lost TaskManagers", 2),
        ("task failures", 1),
    ]


def test_records_without_a_job_create_none() -> None:
    assert not assemble([row(Event.LEADERSHIP, 0)], [], ()).jobs


def test_a_log_at_warn_shows_trigger_durations() -> None:
    def warned(at_s: float, spent_ms: int) -> dict[str, Any]:
        return {
            **row(Event.SPARK_INCIDENT, int(at_s), template="falling-behind"),
            "time_us": T0 + round(at_s * SECOND),
            "fields": {"interval_ms": "2000", "spent_ms": str(spent_ms)},
        }

    late = late_triggers(
        without_inconclusive_late_triggers([warned(10, 9500), warned(20, 9800)], None)
    )
    assert [trigger.duration_ms for trigger in late] == [9500, 9800]
    # Two late triggers in an hour are no evidence about all the others.
    assert without_inconclusive_late_triggers([warned(10, 9500), warned(3600, 9800)], None) == []
    # A series that ended long before the log.
    once = warned(200, 3000)
    series = [warned(600 + 11 * n, 10_000) for n in range(4)]
    begin, silent = T0, T0 + 1200 * SECOND
    ended = ended_overload([once, *series], begin, silent)
    assert [trigger.duration_ms for trigger in ended] == [10_000] * 4
    assert ended_overload(series, begin, T0 + 650 * SECOND) == ()  # it may last
    assert ended_overload(series, T0 + 580 * SECOND, silent) == ()  # a start


def test_a_time_zone_that_contradicts_the_input_is_a_warning() -> None:
    chosen = Clock(segments=(Segment(0, 0, 8 * 3_600_000),), known_from="--tz")
    shown = Clock(segments=(Segment(0, 0, 0),), known_from="trigger-timestamps")
    row = {"shown_us": 0, "clock": "date"}
    clock = _given_clock(row, "Etc/GMT-8", shown, None)
    assert clock.zone_ms == chosen.zone_ms
    assert (clock.inferred_ms, clock.inferred_from) == (0, "trigger-timestamps")
    for other in (replace(shown, known_from="assumed"), replace(chosen, known_from="transitions")):
        assert _given_clock(row, "Etc/GMT-8", other, None).inferred_ms is None


def test_understood_is_part_of_the_summary() -> None:
    seen = build.ReportBuilder(
        command="checkpoints",
        inputs=(),
        outcomes=(),
        names={},
        data=wire.Data(),
        located={},
        assessed=False,
        understood=[RecognizedRecords(kind="task failures", count=2, first_us=T0)],
    ).build()
    (kind,) = seen.summary.understood
    assert (kind.kind, kind.count, kind.first) == ("task failures", 2, wire.iso(T0))


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("[2026-11-28 08:48:17,253] INFO [Broker id=1] Created (kafka.server.Broker)\n", "healthy"),
        ("something else\n", "inconclusive"),
    ],
)
def test_the_log_of_a_broker_does_not_make_a_healthy_job_inconclusive(
    text: str, verdict: str, tmp_path: Path
) -> None:
    file = tmp_path / "server.log"
    file.write_text(text * 3)
    report = build.report_of(
        "diagnose",
        wire.Data(),
        Options(named=(str(file),)),
        sources=discover([str(file)]).sources,
        assessed=True,
    )
    assert report.summary.verdict == verdict
