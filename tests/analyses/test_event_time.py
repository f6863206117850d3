"""Watermarks that do not advance or are wrong, and the tasks that hold them back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from flowdiag.analyses.flink.job import Incident
from flowdiag.analyses.flink.tasks.placement import SubtaskKey
from flowdiag.analyses.model.finding import Finding
from flowdiag.analyses.model.keys import Ref
from flowdiag.analyses.queues.event_time import constant_period
from flowdiag.analyses.queues.facts import Flow, FlowPoint, JobQueues, Mark, MarkPoint

from .queues_workbench import FIRST, MINUTE, Queues, findings, judged, reasons

ORDERS, PAYMENTS, WINDOW, SINK = "Source: orders", "Source: payments", "window", "Sink: deliver"
TASKS = ((ORDERS, 2), (PAYMENTS, 2), (WINDOW, 2), (SINK, 1))
EDGES = ((ORDERS, WINDOW), (PAYMENTS, WINDOW), (WINDOW, SINK))
TICKS = 8
START = FIRST * MINUTE
NOW_MS = START / 1000

Value = Callable[[int], float | None]


def time_of(tick: int) -> int:
    return START + tick * MINUTE // 4


def advancing(tick: int) -> float:
    return NOW_MS + tick * 15_000 - 1000


def never(tick: int) -> None:
    return None


def at(value: float) -> Value:
    return lambda tick: value


class Bench:
    """Two sources, a window and a sink. By default, all watermarks advance."""

    def __init__(self, tasks: Sequence[tuple[str, int]] = TASKS, version: str = "2.3.0") -> None:
        self.queues = Queues(tasks=tuple(tasks), edges=EDGES, version=version, minutes=2)
        self.queues.descriptions[WINDOW] = (
            "Window(TumblingEventTimeWindows(5000), EventTimeTrigger, F)"
        )
        self.marks: dict[tuple[str, int, str, str], Value] = {}
        self.counts: dict[tuple[str, str, str], float] = {}
        for task, size in tasks:
            for index in range(size):
                if task.startswith("Source"):
                    self.output(task, index, advancing)
                    self.marks[task, index, task, "sourceIdleTime"] = at(5)
                else:
                    self.input(task, index, advancing)
                    self.output(task, index, advancing)
            self.queues.set_metrics(task, records_out=10.0)
        self.window(received=1000, emitted=1000)

    def output(self, task: str, index: int, value: Value) -> Bench:
        self.marks[task, index, task, "currentOutputWatermark"] = value
        return self

    def input(self, task: str, index: int, value: Value) -> Bench:
        self.marks[task, index, "", "currentInputWatermark"] = value
        return self

    def stuck(self, value: Value = never) -> Bench:
        """Keep the window at this watermark, without output."""
        for index in range(2):
            self.input(WINDOW, index, value).output(WINDOW, index, value)
        self.queues.set_metrics(WINDOW, records_out=0.0)
        return self.window(received=1000, emitted=0)

    def split(self, task: str, index: int, name: str, value: Value, idle: float = 0.0) -> Bench:
        self.marks[task, index, task, f"split.{name}.watermark.currentWatermark"] = value
        self.marks[task, index, task, f"split.{name}.watermark.idleTimeMsPerSecond"] = at(idle)
        return self

    def quiet(self, task: str, *indices: int) -> Bench:
        """Make these subtasks read no records."""
        for index in indices:
            self.marks[task, index, task, "sourceIdleTime"] = lambda tick: tick * 15_000
            self.queues.set_metrics(task, index, records_out=0.0)
        return self

    def window(self, received: float, emitted: float, late: float = 0.0) -> Bench:
        self.counts |= {
            (WINDOW, "window", "numRecordsIn"): received,
            (WINDOW, "window", "numRecordsOut"): emitted,
            (WINDOW, "window", "numLateRecordsDropped"): late,
        }
        return self

    def job(self) -> JobQueues:
        marks = tuple(
            Mark(
                key=SubtaskKey(task, index),
                operator=operator or None,
                name=name,
                points=tuple(self._point(tick, value(tick)) for tick in range(TICKS)),
            )
            for (task, index, operator, name), value in self.marks.items()
        )
        flows = tuple(
            Flow(
                task=task,
                operator=operator or None,
                name=name,
                points=tuple(
                    FlowPoint(time_of(tick), time_of(tick), count * (tick > 0), Ref(0, tick))
                    for tick in range(TICKS)
                ),
            )
            for (task, operator, name), count in self.counts.items()
        )
        return replace(self.queues.job(), marks=marks, flows=flows)

    @staticmethod
    def _point(tick: int, value: float | None) -> MarkPoint:
        time = time_of(tick)
        return MarkPoint(
            time, time, int(value is not None), value, value, value, value, Ref(0, tick)
        )

    def found(self, code: str = "BP105") -> Finding:
        return findings(self.job())[code]


def test_advancing_watermarks_are_healthy() -> None:
    job = Bench().job()
    assert not {"BP105", "BP106"} & findings(job).keys()
    assert not reasons(job)


def test_a_silent_split_is_named() -> None:
    bench = Bench().stuck().output(ORDERS, 1, never)
    bench.split(ORDERS, 1, "orders-1", advancing).split(ORDERS, 1, "orders-3", never)
    finding = bench.found()
    assert (finding.subject.task, finding.subject.subtask_index) == (ORDERS, 1)
    assert finding.cause == "stuck-watermark" and finding.confidence == "high"
    assert finding.title == (
        "window has emitted nothing for 1 min 45 s: split orders-3 of Source: orders (2/2) holds it back"
    )
    assert finding.why == (
        "Source: orders (2/2): split orders-3 has no watermark and is not declared idle; "
        "the other split advances there"
    )
    assert "withIdleness" in finding.actions[0].text
    assert judged(bench.job()).cause == "stuck-watermark"


@pytest.mark.parametrize(
    ("delay_s", "since_s"),
    [
        (5, 75),  # it reached this value 5 s after that time, in the middle of a minute
        (600, 110),  # a replay: only the last sample of that minute is certain
    ],
)
def test_a_watermark_that_stops_within_a_minute_of_a_log(delay_s: float, since_s: int) -> None:
    stopped_ms = (75 - delay_s) * 1000.0

    def minute(begin_s: int, *values_ms: float) -> MarkPoint:
        until_us = (begin_s + 50) * 1_000_000
        low, high = min(values_ms), max(values_ms)
        ref = Ref(0, begin_s)
        return MarkPoint(
            begin_s * 1_000_000,
            until_us,
            len(values_ms),
            low,
            high,
            values_ms[0],
            values_ms[-1],
            ref,
        )

    points = (
        minute(0, (0 - delay_s) * 1000.0, (50 - delay_s) * 1000.0),
        minute(60, (60 - delay_s) * 1000.0, stopped_ms),
        minute(120, stopped_ms, stopped_ms),
    )
    mark = Mark(
        key=SubtaskKey(WINDOW, 0), operator=None, name="currentInputWatermark", points=points
    )
    held = constant_period(mark)
    assert held is not None
    assert (held.since_us, held.until_us) == (since_s * 1_000_000, 170_000_000)


def test_before_2_1_the_subtask_is_named() -> None:
    finding = Bench(version="1.20.5").stuck().output(ORDERS, 1, never).found()
    assert (finding.subject.task, finding.subject.subtask_index) == (ORDERS, 1)
    assert "one of its splits has no records" in (finding.why or "")


def test_a_subtask_that_stops_reading() -> None:
    bench = Bench().stuck(at(NOW_MS)).output(ORDERS, 0, at(NOW_MS)).quiet(ORDERS, 0)
    finding = bench.found()
    assert (finding.subject.task, finding.subject.subtask_index) == (ORDERS, 0)
    assert finding.title.endswith("Source: orders (1/2) has no records")


def test_metric_reports_merge_a_task_with_its_only_operator() -> None:
    bench = Bench().stuck().output(ORDERS, 1, never)
    for name in ("numRecordsIn", "numRecordsOut"):
        bench.counts[WINDOW, "", name] = bench.counts.pop((WINDOW, "window", name))
    assert bench.found().subject.subtask_index == 1


def without_late_metric(bench: Bench) -> Bench:
    """Replace windows with timers, so that no metric shows that the operator needs event time."""
    del bench.counts[WINDOW, "window", "numLateRecordsDropped"]
    return bench


def test_an_operator_in_the_chain_of_its_source() -> None:
    """Local aggregation of SQL is chained to the source, and emits nothing without a watermark."""
    bench = Bench()
    bench.counts = {
        (ORDERS, "", "numRecordsOut"): 0,
        (ORDERS, "aggregate", "numRecordsIn"): 1000,
        (ORDERS, "aggregate", "numRecordsOut"): 0,
    }
    (reason,) = reasons(bench.job())
    assert reason.reason.startswith("aggregate received")
    bench.counts[ORDERS, "aggregate", "numLateRecordsDropped"] = 0
    bench.queues.descriptions[ORDERS] = "LocalWindowAggregate(window=[TUMBLE(time_col=[ts])])"
    for index in range(2):
        bench.output(ORDERS, index, never)
    finding = bench.found()
    assert (finding.cause, finding.subject.task) == ("no-watermarks", ORDERS)


def test_back_pressure_delays_watermarks_but_never_prevents_the_first() -> None:
    for value, found in ((at(NOW_MS), False), (never, True)):
        bench = Bench().stuck(value).output(ORDERS, 1, value)
        bench.queues.set_metrics(ORDERS, back_pressured=950.0, idle=0.0, is_back_pressured=1.0)
        bench.queues.set_metrics(WINDOW, busy=1000.0, idle=0.0, in_pool=1.0, input_queue=50.0)
        assert ("BP105" in findings(bench.job())) is found
        assert "BP101" in findings(bench.job())


def test_a_task_downstream_assigns_wrong_times() -> None:
    tasks = ((ORDERS, 2), ("assign", 2), (WINDOW, 2), (SINK, 1))
    bench = Bench(tasks)
    bench.queues.edges = ((ORDERS, "assign"), ("assign", WINDOW), (WINDOW, SINK))
    for task in ("assign", WINDOW):
        for index in range(2):
            bench.output(task, index, at(NOW_MS * 1000))
    assert bench.found("BP106").subject.task == "assign"


@pytest.mark.parametrize(
    ("speed", "drift", "found"), [(1, 590e3, True), (3, 590e3, False), (1, None, False)]
)
def test_a_source_that_alignment_pauses(speed: float, drift: float | None, found: bool) -> None:
    """Another source of its group is ten minutes behind, and does not catch up."""
    bench = Bench().quiet(ORDERS, 0, 1)
    for index in range(2):
        bench.output(ORDERS, index, at(NOW_MS - 1000))
        bench.output(PAYMENTS, index, lambda tick: NOW_MS - 600e3 + tick * 15_000 * speed)
        if drift is not None:
            bench.marks[ORDERS, index, ORDERS, "watermarkAlignmentDrift"] = at(drift)
    finding = findings(bench.job()).get("BP105")
    assert (finding is not None) is found
    if finding is not None:
        assert (finding.cause, finding.subject.task) == ("alignment-pause", PAYMENTS)
        assert finding.title.startswith("Watermark alignment pauses Source: orders")


def test_a_source_without_records_hides_no_join_without_output() -> None:
    """A join waits for its quiet input; no metric shows that it needs event time."""
    bench = without_late_metric(Bench().stuck(at(NOW_MS)).quiet(PAYMENTS, 0, 1))
    bench.queues.set_metrics(PAYMENTS, records_in=0.0)
    bench.queues.set_metrics(WINDOW, watermark=NOW_MS)
    for index in range(2):
        bench.output(PAYMENTS, index, at(NOW_MS))
    assert bench.found().subject.task == PAYMENTS


def test_timers_wait_for_a_watermark_that_other_subtasks_have() -> None:
    finding = without_late_metric(Bench().stuck().output(ORDERS, 1, never)).found()
    assert (finding.subject.subtask_index, finding.confidence) == (1, "medium")


def test_timers_without_any_watermark_are_inconclusive() -> None:
    bench = without_late_metric(Bench().stuck())
    for task in (ORDERS, PAYMENTS):
        for index in range(2):
            bench.output(task, index, never)
    (reason,) = reasons(bench.job())
    assert "No source emits a watermark" in reason.reason


def test_more_subtasks_than_splits() -> None:
    bench = Bench().stuck().output(ORDERS, 1, never).quiet(ORDERS, 1)
    finding = bench.split(ORDERS, 0, "orders-0", advancing).found()
    assert finding.subject.subtask_index == 1
    assert (finding.why or "").endswith("it has no split")
    assert any("as many source subtasks as there are partitions" in a.text for a in finding.actions)


def test_a_quiet_source_of_a_join() -> None:
    bench = Bench().stuck().quiet(PAYMENTS, 0, 1)
    finding = bench.output(PAYMENTS, 0, never).output(PAYMENTS, 1, never).found()
    assert (finding.subject.kind, finding.subject.task) == ("task", PAYMENTS)
    assert finding.title.endswith("Source: payments has no records")


def without_watermarks(emitted: float) -> Bench:
    bench = Bench().stuck().window(received=1000, emitted=emitted)
    for task in (ORDERS, PAYMENTS):
        for index in range(2):
            bench.output(task, index, never)
    return bench


@pytest.mark.parametrize("emitted", [0, 500])
def test_windows_of_processing_time_need_no_watermark(emitted: float) -> None:
    bench = without_watermarks(emitted)
    bench.queues.descriptions[WINDOW] = "Window(TumblingProcessingTimeWindows(5000), F)"
    assert not findings(bench.job()).keys() & {"BP105", "BP106"}


def test_the_description_of_a_window_may_be_only_its_name() -> None:
    """Flink describes the windows of all keys together only in their default name."""
    bench = without_watermarks(500)
    bench.queues.descriptions[WINDOW] = "rank-all<br/>"
    assert not findings(bench.job()).keys() & {"BP105", "BP106"}


def test_without_a_plan_windows_may_be_of_processing_time() -> None:
    bench = without_watermarks(0)
    bench.queues.descriptions.clear()
    assert "BP105" not in findings(bench.job())
    (reason,) = reasons(bench.job())
    assert "No source emits a watermark" in reason.reason


@pytest.mark.parametrize(
    ("hours", "drift", "found"),
    [
        (2, 0, True),
        (-8, 0, True),
        (-5.5, 0, True),
        (-5.75, 0, True),
        (12.75, 0, True),
        (0.75, 0, False),
        (2.25, 0, False),
        (1.5, 0, False),
        (0, 0, False),
        (2, 10_000, False),
    ],
)
def test_local_times(hours: float, drift: float, found: bool) -> None:
    """A source that reads old records catches up with the clock. Local times keep a constant offset
    from it."""
    bench = Bench()
    for index in range(2):
        bench.output(ORDERS, index, lambda tick: advancing(tick) - hours * 3_600_000 + drift * tick)
    finding = findings(bench.job()).get("BP106")
    assert (finding is not None) is found
    if finding is not None:
        assert (finding.cause, finding.subject.task) == ("wrong-event-time", ORDERS)
        assert "local times" in finding.title


@pytest.mark.parametrize("named", [True, False])
def test_a_source_without_a_strategy(named: bool) -> None:
    bench = Bench().stuck()
    for task in (ORDERS, PAYMENTS):
        for index in range(2):
            bench.output(task, index, never)
            if named:
                bench.split(task, index, f"{task}-{index}", never)
    finding = bench.found()
    assert (finding.cause, finding.subject.task) == ("no-watermarks", ORDERS)
    assert "WatermarkStrategy.forBounded" in finding.actions[0].text
    assert len(finding.actions) == (1 if named else 2)


def test_the_walk_passes_tasks_that_forward_the_watermark() -> None:
    tasks = ((ORDERS, 2), ("parse", 2), (WINDOW, 2), (SINK, 1))
    bench = Bench(tasks)
    bench.queues.edges = ((ORDERS, "parse"), ("parse", WINDOW), (WINDOW, SINK))
    bench.stuck(at(NOW_MS)).output(ORDERS, 1, at(NOW_MS)).quiet(ORDERS, 1)
    for index in range(2):
        bench.input("parse", index, at(NOW_MS)).output("parse", index, at(NOW_MS))
    assert bench.found().subject.task == ORDERS


def test_a_task_that_holds_back_the_watermark_itself() -> None:
    tasks = ((ORDERS, 2), ("assign", 2), (WINDOW, 2), (SINK, 1))
    bench = Bench(tasks)
    bench.queues.edges = ((ORDERS, "assign"), ("assign", WINDOW), (WINDOW, SINK))
    bench.stuck(at(NOW_MS)).output("assign", 0, at(NOW_MS))
    finding = bench.found()
    assert (finding.subject.task, finding.subject.subtask_index) == ("assign", 0)


def test_a_task_after_the_source_assigns_the_watermarks() -> None:
    """With `assignTimestampsAndWatermarks` in a task of its own, no source ever has a watermark."""
    stopped, assigner = at(NOW_MS - 600_000), "watermarks"
    tasks = ((ORDERS, 2), (assigner, 2), (WINDOW, 2), (SINK, 1))
    bench = Bench(tasks).stuck(stopped)
    bench.queues.edges = ((ORDERS, assigner), (assigner, WINDOW), (WINDOW, SINK))
    for index in range(2):
        bench.output(ORDERS, index, never).input(assigner, index, never)
    bench.output(assigner, 1, stopped)
    bench.queues.set_metrics(assigner, 1, records_out=0.0)
    finding = bench.found()
    assert finding.cause == "stuck-watermark"
    assert (finding.subject.task, finding.subject.subtask_index) == (assigner, 1)


def test_an_idle_split_does_not_hold_back_the_watermark() -> None:
    bench = Bench().stuck(at(NOW_MS))
    bench.output(ORDERS, 0, at(NOW_MS - 5000)).split(ORDERS, 0, "orders-0", at(0), idle=1000.0)
    bench.output(PAYMENTS, 1, at(NOW_MS))
    assert bench.found().subject.task == PAYMENTS


def test_without_a_culprit_the_operator_is_named() -> None:
    finding = Bench().stuck(at(NOW_MS)).found()
    assert (finding.subject.task, finding.confidence) == (WINDOW, "medium")


def test_few_records_or_a_short_time_give_no_finding() -> None:
    few = Bench().stuck(at(NOW_MS)).window(received=2, emitted=0)
    few.queues.set_metrics(WINDOW, records_in=2.0)
    assert "BP105" not in findings(few.job())
    late = Bench().stuck(lambda tick: advancing(min(tick, TICKS - 2)))
    assert "BP105" not in findings(late.job())


def test_a_bounded_job_ends_with_a_last_watermark() -> None:
    ended = Bench().stuck(at(9.223372036854775e18))
    assert "BP105" not in findings(ended.job())
    finished = Bench().stuck()
    finished.queues.incidents.append(
        Incident(kind="finished", time_us=time_of(7), job=finished.queues.key, ref=Ref(9, 0))
    )
    assert "BP105" not in findings(finished.job())


def test_a_cancelled_job_is_judged() -> None:
    bench = Bench().stuck().output(ORDERS, 1, never)
    bench.queues.incidents.append(
        Incident(kind="cancelled", time_us=time_of(7), job=bench.queues.key, ref=Ref(9, 0))
    )
    assert bench.found().subject.subtask_index == 1


@pytest.mark.parametrize(
    ("factor", "unit"), [(1e3, "microseconds"), (1e6, "nanoseconds"), (1e-3, "seconds")]
)
def test_event_times_in_another_unit(factor: float, unit: str) -> None:
    bench = Bench()
    late = 1000.0 if factor > 1 else 0.0
    bench.stuck(at(NOW_MS * factor)).window(received=1000, emitted=0, late=late)
    for index in range(2):
        bench.output(ORDERS, index, at(NOW_MS * factor))
    finding = bench.found("BP106")
    assert (finding.cause, finding.subject.task) == ("wrong-event-time", ORDERS)
    assert unit in finding.title and ("100% of its records" in finding.title) is (factor > 1)
    if factor > 1:
        assert judged(bench.job()).cause == "wrong-event-time"


@pytest.mark.parametrize("sources", [True, False])
@pytest.mark.parametrize("minutes", [20, 5 * 60 + 20, 40 * 60])
def test_a_watermark_that_one_event_moved_into_the_future(minutes: int, sources: bool) -> None:
    """The clock will pass the watermark. Until then, all records are late and no window fires."""
    future = at(NOW_MS + minutes * 60_000)
    bench = Bench().stuck(future).window(received=1000, emitted=0, late=1000)
    for task in (ORDERS, PAYMENTS):
        for index in range(2):
            bench.output(task, index, future)
    if not sources:  # an input with the metrics of tasks only
        bench.marks = {key: value for key, value in bench.marks.items() if not key[2]}
    found = findings(bench.job())
    assert found.keys() == {"BP106"}
    assert found["BP106"].cause == "future-watermark"
    assert found["BP106"].subject.task in ((ORDERS, PAYMENTS) if sources else (WINDOW,))
    assert "in the future" in found["BP106"].title


@pytest.mark.parametrize("minutes", [1, 5])
def test_a_clock_may_be_minutes_behind(minutes: int) -> None:
    bench = Bench()
    for index in range(2):
        bench.output(ORDERS, index, lambda tick: advancing(tick) + minutes * 60_000)
    assert "BP106" not in findings(bench.job())


def test_one_split_from_the_future() -> None:
    year = NOW_MS + 20 * 365 * 86_400_000
    finding = Bench().split(ORDERS, 1, "orders-1", at(year)).found("BP106")
    assert (finding.cause, finding.subject.subtask_index) == ("future-watermark", 1)
    assert "split orders-1" in (finding.why or "")


def falling_behind(speed: float = 0.5, first_ms: float = 600e3, **gauges: float) -> Bench:
    """Return a job whose event times advance at this speed; 1 is the speed of the clock."""
    bench = Bench()
    for index in range(2):
        bench.output(ORDERS, index, lambda tick: NOW_MS - first_ms + tick * 15_000 * speed)
    bench.queues.set_metrics(ORDERS, None, None, **gauges)
    return bench


@pytest.mark.parametrize(
    ("gauges", "words", "confidence"),
    [
        ({"pending": 0.0, "fetch_lag_ms": 650e3, "emit_lag_ms": 650e3}, "arrive up to", "high"),
        ({"fetch_lag_ms": 5e3, "emit_lag_ms": 650e3}, "wait 10 min 45 s in the source", "high"),
        ({"pending": 0.0, "emit_lag_ms": 2e3}, "its newest records are 2 s old", "high"),
        ({"emit_lag_ms": 2e3, "records_out": 0.0}, "Either they arrive late", "medium"),
        ({}, "Either they arrive late, or the source reads too slowly", "medium"),
    ],
)
def test_why_event_times_fall_behind(gauges: dict[str, float], words: str, confidence: str) -> None:
    finding = falling_behind(**gauges).found("BP106")
    assert (finding.cause, finding.subject.task) == ("event-time-behind", ORDERS)
    assert words in (finding.why or "") and finding.confidence == confidence


def test_what_other_rules_explain_is_not_late_event_time() -> None:
    """Records that wait in the source, back pressure, and alignment each have a rule of their own."""
    unread = falling_behind()
    for minute in range(2):
        unread.queues.set_metrics(ORDERS, None, [minute], pending=5000.0 + 90_000.0 * minute)
    assert findings(unread.job())["IO101"]
    pressed = falling_behind(back_pressured=950.0, idle=0.0, is_back_pressured=1.0)
    pressed.queues.set_metrics(WINDOW, busy=1000.0, idle=0.0, in_pool=1.0, input_queue=50.0)
    assert findings(pressed.job())["BP101"]
    for bench in (unread, pressed):
        assert "BP106" not in findings(bench.job())


@pytest.mark.parametrize(
    ("speed", "first_ms"),
    [(3, 600e3), (1, 600e3), (0.95, 600e3), (0.5, 2e3)],
    ids=["replay", "constant delay", "jitter", "seconds"],
)
def test_event_times_that_do_not_fall_behind(speed: float, first_ms: float) -> None:
    assert "BP106" not in findings(falling_behind(speed, first_ms).job())


def test_few_events_do_not_fall_behind() -> None:
    """Each event brings the watermark back to the usual delay."""
    bench = Bench()
    for index in range(2):
        bench.output(ORDERS, index, lambda tick: NOW_MS - 65e3 + (tick // 3) * 45_000)
    assert "BP106" not in findings(bench.job())


@pytest.mark.parametrize(("late", "found"), [(500.0, True), (10.0, False)])
def test_late_records(late: float, found: bool) -> None:
    job = Bench().window(received=1000, emitted=900, late=late).job()
    assert ("BP106" in findings(job)) is found


def test_a_chain_whose_last_operator_receives_no_records() -> None:
    bench = Bench()
    bench.counts = {
        (SINK, "filter", "numRecordsIn"): 1000,
        (SINK, "filter", "numRecordsOut"): 0,
        (SINK, "Sink: deliver", "numRecordsIn"): 0,
        (SINK, "Sink: deliver", "numRecordsOut"): 0,
    }
    (reason,) = reasons(bench.job())
    assert reason.reason.startswith("filter received")


def test_a_sink_emits_nothing_and_its_committer_receives_nothing() -> None:
    bench = Bench()
    bench.counts = {
        (SINK, "map", "numRecordsIn"): 1000,
        (SINK, "map", "numRecordsOut"): 1000,
        (SINK, "deliver: Writer", "numRecordsIn"): 1000,
        (SINK, "deliver: Writer", "numRecordsOut"): 0,
        (SINK, "deliver: Committer", "numRecordsIn"): 0,
        (SINK, "deliver: Committer", "numRecordsOut"): 0,
    }
    assert not reasons(bench.job())


def test_hours_without_output_are_a_finding() -> None:
    """A filter that no record passes for two hours is a fault."""
    for minutes, found in ((110, False), (130, True)):
        queues = Queues(minutes=minutes)
        for minute in range(minutes):
            queues.set_metrics("aggregate", minutes=[minute], records_out=0.0, records_in=10.0)
        assert (findings(queues.job()).get("BP105") is not None) is found


def two_ticks(bench: Bench, begun_s: int) -> JobQueues:
    """Return a job with two samples 10 s apart, which started this long before the first."""
    job, again = bench.job(), START + 10_000_000
    return replace(
        job,
        marks=tuple(
            replace(m, points=(m.points[0], m.points[1]._replace(time_us=again, until_us=again)))
            for m in job.marks
        ),
        flows=tuple(
            replace(f, points=(f.points[0], f.points[1]._replace(time_us=again, until_us=again)))
            for f in job.flows
        ),
        samples={},
        starts_us=(START - begun_s * 1_000_000,),
    )


def about_watermarks(job: JobQueues) -> list[str]:
    return [reason.reason for reason in reasons(job) if "watermark" in reason.reason]


@pytest.mark.parametrize(
    ("bench", "begun_s", "found"),
    [
        (Bench().stuck().output(ORDERS, 1, never), 60, True),  # no watermark since the start
        (Bench().stuck().output(ORDERS, 1, never), 5, False),
        (Bench().stuck(at(NOW_MS)).output(ORDERS, 0, at(NOW_MS)), 600, False),
    ],
)
def test_two_samples_show_a_watermark_that_was_never_set(
    bench: Bench, begun_s: int, found: bool
) -> None:
    job = two_ticks(bench, begun_s)
    assert ("BP105" in findings(job)) is found
    assert ["the input covers only 10 s" in reason for reason in about_watermarks(job)] == (
        [] if found else [True]
    )


@pytest.mark.parametrize(("idle_ms", "found"), [(45_000, True), (15_000, False)])
def test_the_idle_time_of_a_source_dates_the_stalled_watermark(idle_ms: float, found: bool) -> None:
    bench = Bench().stuck(at(NOW_MS)).output(ORDERS, 0, at(NOW_MS)).quiet(ORDERS, 0)
    bench.marks[ORDERS, 0, ORDERS, "sourceIdleTime"] = lambda tick: idle_ms + tick * 1000
    assert ("BP105" in findings(two_ticks(bench, 600))) is found


def test_a_watermark_that_pauses_at_the_end_stays_healthy() -> None:
    bench = Bench()
    for index in range(2):
        bench.input(WINDOW, index, lambda tick: advancing(min(tick, TICKS - 2)))
    assert not about_watermarks(bench.job())
