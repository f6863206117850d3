"""Rescales of the adaptive scheduler and events of the autoscaler, judged without Spark."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from flowdiag.analyses.flink.assemble.incidents import mark_rescales
from flowdiag.analyses.flink.job import Graph, Vertex
from flowdiag.analyses.model.finding import Severity, State
from flowdiag.analyses.startup.assemble.rescales import Runs, rescale_times
from flowdiag.analyses.startup.facts import JobStarts, Rescale, Usage
from flowdiag.analyses.startup.rules.below_parallelism import RULE as BELOW
from flowdiag.analyses.startup.rules.blocked_autoscaler import RULE as BLOCKED
from flowdiag.analyses.startup.rules.ineffective_scaling import RULE as INEFFECTIVE
from flowdiag.analyses.startup.rules.operator_refusal import RULE as OPERATOR
from flowdiag.analyses.startup.rules.rescale_loop import RULE as LOOP
from flowdiag.parsers.flink.rest_rows import READERS, Context
from flowdiag.parsers.flink.rest_shapes import Kind, kind_of

from . import startup_workbench as w

VERTEX = "5bda4a5c663fa16b9cf7ba8c7b446f3e"


def _at(seconds: float) -> int:
    return w.BEGIN + round(seconds * w.SECOND)


def _rescale(seconds: float, before: int, after: int, **more: Any) -> Rescale:
    values = {"cause": "failure" if after < before else "new-resources", **more}
    return Rescale(time_us=_at(seconds), before=before, after=after, **values)


def _job(**more: Any) -> JobStarts:
    return w.job(w.start(w.task(0)), **more)


# --- rescale loops -------------------------------------------------------------------------------


def test_a_taskmanager_that_comes_and_goes() -> None:
    lost = {"taskmanager": "tm-2", "host": "host-2", "failure": "taskmanager-lost"}
    rescales = tuple(
        _rescale(30 * n, 4, 2, **lost) if n % 2 else _rescale(30 * n, 2, 4) for n in range(1, 7)
    )
    (finding,) = w.findings(LOOP, w.facts(_job(rescales=rescales)))
    assert (finding.severity, finding.cause) == (Severity.WARNING, "rescale-loop")
    assert finding.subject.taskmanager == "tm-2"
    assert "between 2 and 4 slots" in finding.title
    assert finding.actions[0].text.startswith("Find out why")


@pytest.mark.parametrize(
    "widths",
    [
        pytest.param([1, 2, 4, 8, 12], id="grows"),
        pytest.param([4, 2, 4], id="one-lost-and-replaced"),
        pytest.param([4, 2, 4, 2], id="twice"),
        pytest.param([], id="none"),
    ],
)
def test_rescales_that_are_not_a_loop(widths: list[int]) -> None:
    rescales = tuple(_rescale(60 * n, *pair) for n, pair in enumerate(pairwise(widths)))
    assert w.findings(LOOP, w.facts(_job(rescales=rescales))) == []


def test_a_rolling_restart_has_no_culprit() -> None:
    rescales = tuple(
        _rescale(30 * n, 4, 2, taskmanager=f"tm-{min(n, 7) // 2}")
        if n % 2
        else _rescale(30 * n, 2, 4)
        for n in range(10)
    )
    (finding,) = w.findings(LOOP, w.facts(_job(rescales=rescales)))
    assert finding.subject.taskmanager is None


def test_rare_rescales_are_not_a_loop() -> None:
    rescales = tuple(_rescale(4000 * n, *((4, 2), (2, 4))[n % 2]) for n in range(8))
    assert w.findings(LOOP, w.facts(_job(rescales=rescales))) == []


def test_an_autoscaler_that_reverts_its_own_decisions() -> None:
    rescales = tuple(
        _rescale(60 * n, *((4, 2), (2, 4))[n % 2], cause="requirements") for n in range(8)
    )
    seen = w.facts(_job(rescales=rescales), troubles=(_event("ScalingReport", "begin scaling"),))
    (finding,) = w.findings(LOOP, seen)
    assert finding.actions[0].option == "job.autoscaler.target.utilization.boundary"
    (finding,) = w.findings(LOOP, w.facts(_job(rescales=rescales)))
    assert not any("TaskManager" in action.text for action in finding.actions)


# --- fewer slots than requested ------------------------------------------------------------------


def _usage(used: int, desired: int, seconds: float | None = 300) -> Usage:
    since = None if seconds is None else _at(600 - seconds)
    return Usage(used=used, desired=desired, since_us=since, last_us=_at(600))


def test_a_job_below_its_parallelism() -> None:
    (finding,) = w.findings(BELOW, w.facts(_job(usage=_usage(3, 4))))
    assert (finding.cause, finding.severity) == ("not-enough-slots", Severity.WARNING)
    assert finding.title == "The job has run with 3 of 4 requested slots for 5 min"


@pytest.mark.parametrize(
    "usage", [None, _usage(4, 4), _usage(5, 4), _usage(3, 4, 20), _usage(3, 4, None)]
)
def test_jobs_with_enough_slots_or_for_too_short_a_time(usage: Usage | None) -> None:
    assert w.findings(BELOW, w.facts(_job(usage=usage))) == []


# --- the autoscaler ------------------------------------------------------------------------------


def _event(reason: str, message: str, at: float = 5, kind: str = "Normal") -> Any:
    values = {"key": w.JOB.job_id, "reason": reason, "said": message, "kind": kind}
    return w.trouble("autoscaler-event", at, values=values)


INCREASE = (
    f"Ineffective scaling detected for {VERTEX} (expected increase: 48.3, actual increase 0.2). "
    "Blocking of ineffective scaling decisions is {}"
)


@pytest.mark.parametrize(("state", "actions"), [("enabled", 1), ("disabled", 2)])
def test_a_scale_up_without_effect(state: str, actions: int) -> None:
    event = _event("IneffectiveScaling", INCREASE.format(state))
    (finding,) = w.findings(INEFFECTIVE, w.facts(_job(), troubles=(event,)))
    assert finding.title.endswith("had no effect: 0.2 records/s more instead of 48.3")
    assert finding.subject.task == VERTEX
    assert len(finding.actions) == actions


@pytest.mark.parametrize(
    ("reason", "message", "severity", "words"),
    [
        ("MemoryPressure", "Heap Usage 0.97 is above the allowed limit", "warning", "memory"),
        ("ResourceQuotaReached", "Resource usage is above the limit", "warning", "quota"),
        (
            "ScalingLimited",
            f"Scaling limited detected for {VERTEX} (expected",
            "info",
            "key groups",
        ),
        (
            "ScalingReport",
            "Scaling execution disabled by config job.autoscaler.scaling.enabled:false, recommended",
            "info",
            "only makes recommendations",
        ),
        (
            "ScalingReport",
            "Scaling execution disabled by config job.autoscaler.excluded.periods:[9:00-17:00], rec",
            "info",
            "excluded period",
        ),
    ],
)
def test_reasons_for_not_scaling(reason: str, message: str, severity: str, words: str) -> None:
    (finding,) = w.findings(BLOCKED, w.facts(_job(), troubles=(_event(reason, message),)))
    assert (finding.severity.value, finding.state) == (severity, State.ONGOING)
    assert words in finding.title


def test_a_later_scaling_ends_a_reason() -> None:
    pressure = _event("MemoryPressure", "Heap Usage 0.97 is above the allowed limit")
    scaled = _event("ScalingReport", "Scaling execution enabled, begin scaling vertices:", at=60)
    (finding,) = w.findings(BLOCKED, w.facts(_job(), troubles=(pressure, scaled)))
    assert finding.state is State.RECOVERED


def test_operator_events_are_not_declined_scalings() -> None:
    event = _limited("default/orders")
    assert w.findings(OPERATOR, w.facts(troubles=(event,))) == []
    assert len(w.findings(BLOCKED, w.facts(_job(), troubles=(event,)))) == 1


def test_a_normal_scaling_report_gives_no_finding() -> None:
    message = (
        f"Scaling execution enabled, begin scaling vertices:{{ Vertex ID {VERTEX} | Parallelism 1 -> 3"
        " | Processing capacity 33.10 -> 95.00 | Target data rate 60.00}"
    )
    event = _event("ScalingReport", message)
    for rule in (BLOCKED, INEFFECTIVE, LOOP, BELOW):
        assert w.findings(rule, w.facts(_job(), troubles=(event,))) == []


def _limited(resource: str) -> Any:
    values = {"reason": "SCALINGLIMITED", "said": f"Scaling limited detected for {VERTEX}"}
    return w.trouble("operator-event-warning", resource=resource, values=values)


def test_events_about_other_jobs_are_no_findings() -> None:
    other = w.trouble(
        "autoscaler-event", values=_event("MemoryPressure", "").values | {"key": VERTEX}
    )
    assert w.findings(BLOCKED, w.facts(_job(), troubles=(other,))) == []
    several = (_limited("default/payments"), _limited("default/shipments"))
    assert w.findings(BLOCKED, w.facts(_job(), troubles=several)) == []
    (finding,) = w.findings(BLOCKED, w.facts(_job(), troubles=(*several, _limited("prod/orders"))))
    assert finding.count == 1


def test_the_only_deployment_may_have_another_name() -> None:
    seen = w.facts(_job(), troubles=(_limited("default/payments"),))
    assert len(w.findings(BLOCKED, seen)) == 1


# --- from records --------------------------------------------------------------------------------


def test_a_cancelled_job_that_runs_again_was_rescaled() -> None:
    found = [
        w.incident("job-running", 0),
        w.incident("cancelled", 30),
        w.incident("cancelled", 30.5),
        w.incident("job-running", 31),
        w.incident("restart", 60),
        w.incident("cancelled", 60.1),
        w.incident("job-running", 66),
        w.incident("cancelled", 90),
    ]
    kinds = [incident.kind for incident in mark_rescales(found)]
    assert kinds[1:3] == ["rescaled", "rescaled"]
    assert (kinds[5], kinds[7]) == ("job-restarting", "cancelled")
    again = [w.incident("cancelled", 1), w.incident("submitted", 5), w.incident("job-running", 9)]
    assert mark_rescales(again)[0].kind == "cancelled"


def _declared(at: float, slots: int) -> dict[str, Any]:
    text = f"[ResourceRequirement{{resourceProfile=X, numberOfRequiredSlots={slots}}}]"
    return {
        "template": "slots-required",
        "time_us": _at(at),
        "source": 0,
        "offset": round(at),
        "fields": {"requirements": text},
    }


def _allocated(slot: int) -> dict[str, Any]:
    return _declared(1, 1) | {"template": "slot-allocation", "fields": {"slot": str(slot)}}


def test_the_runs_of_a_job() -> None:
    incidents = (
        w.incident("job-running", 0),
        w.incident("rescaled", 29),
        w.incident("job-running", 30),
        w.incident("restart", 55),
        w.incident("taskmanager-lost", 54, taskmanager="tm-2"),
        w.incident("job-running", 60),
        w.incident("rescaled", 89),
        w.incident("job-running", 90),
    )
    facts = _job(incidents=incidents).job
    tasks = [
        replace(w.task(n, at=30 * n + 0.5), parallelism=width)
        for n, width in enumerate((1, 4, 2, 4))
    ]
    slots = [_allocated(n) for n in range(4)]
    runs = Runs(facts, [_declared(0, 1), _declared(25, 4), *slots], tasks)
    # With two slot sharing groups, the widest task does not show the number of slots.
    assert Runs(facts, [_declared(0, 8), *slots, _allocated(4)], tasks).usage() is None
    found = [(r.cause, r.before, r.after, r.taskmanager) for r in runs.rescales()]
    assert found == [
        ("requirements", 1, 4, None),
        ("failure", 4, 2, "tm-2"),
        ("new-resources", 2, 4, None),
    ]
    usage = runs.usage()
    assert usage is not None and (usage.used, usage.desired, usage.lasts_ms) == (4, 4, 510_000)
    assert rescale_times(facts) == [_at(29), _at(89)]


def test_the_requested_slots_in_rest() -> None:
    def declared(at: float, slots: int) -> dict[str, Any]:
        fields = {"desired": str(slots)}
        return _declared(at, 1) | {"template": "rest-resource-requirements", "fields": fields}

    facts = _job(incidents=(w.incident("job-running", 0),)).job
    vertices = tuple(
        Vertex(job=w.JOB, vertex_id=None, task=f"t{width}", parallelism=width) for width in (4, 2)
    )
    facts = replace(facts, graph=Graph(job=w.JOB, vertices=vertices, edges=(), source="plan"))
    # The job has run with fewer slots only since the request for more.
    usage = Runs(facts, [declared(100, 4), declared(400, 8), declared(500, 8)], []).usage()
    assert usage is not None
    assert (usage.used, usage.desired, usage.lasts_ms) == (4, 8, 200_000)


def test_the_history_of_rescales_in_rest() -> None:
    details = {
        "rescaleUuid": "01",
        "triggerCause": "NEW_RESOURCE_AVAILABLE",
        "terminalState": "COMPLETED",
        "endTimestampInMillis": 1_700_000_001_000,
        "slots": {"a": {"desiredSlots": 4, "preRescaleSlots": 2, "postRescaleSlots": 4}},
    }
    assert kind_of(details, "x.json") == Kind.RESCALE
    assert kind_of([details], "x.json") == Kind.RESCALES
    rows = [
        *READERS[Kind.RESCALE](details, Context()),
        *READERS[Kind.RESCALES]([details], Context()),
    ]
    marks = [row | {"time_us": row["utc_us"], "source": 0, "offset": 0} for row in rows]
    (rescale,) = Runs(_job().job, marks, []).rescales()
    assert (rescale.cause, rescale.before, rescale.after, rescale.desired) == (
        "new-resources",
        2,
        4,
        4,
    )


def test_requirements_in_rest() -> None:
    body = {VERTEX: {"parallelism": {"lowerBound": 1, "upperBound": 8}}}
    assert kind_of(body, "x.json") == Kind.RESOURCE_REQUIREMENTS
    (row,) = READERS[Kind.RESOURCE_REQUIREMENTS](body, Context())
    assert row["fields"]["desired"] == "8"
    assert kind_of({VERTEX: {"name": "x"}}, "x.json") is None
