"""The published limits of the rules of `rate` decide, and findings cite all their evidence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flowdiag.analyses.model.finding import Finding
from flowdiag.analyses.rate.facts import ApplicationFacts, Executor, Output, StageLoad
from flowdiag.analyses.rate.model import Job, Settings
from flowdiag.analyses.rate.pid import Gains

from . import rate_workbench as w

JOB = Job(fixed_ms=60, per_record_ms=5)
PERMITTED = w.simulated(
    JOB, Settings(interval_ms=1000, gains=Gains(min_rate=5.0), max_rate=500), [500] * 60
)
FIXED = w.simulated(JOB, Settings(interval_ms=1000, max_rate=40, back_pressure=False), [500] * 60)
LATE = w.simulated(JOB, Settings(interval_ms=1000, back_pressure=False), [220] * 40)
TIGHT = w.application([w.batch(n, processing_ms=700) for n in range(30)])
FULL = w.application([w.batch(n, processing_ms=900) for n in range(30)])
SKEWED = w.application(
    [
        w.batch(
            n,
            processing_ms=900,
            stage=StageLoad(
                stage=n,
                name=None,
                tasks=4,
                total_ms=1000,
                longest_ms=700,
                index=2,
                executor="1",
                host="worker-1",
                slowest_records=70,
                records=100,
            ),
        )
        for n in range(30)
    ]
)
LAGGING = w.application([w.batch(n, submission_ms=w.T0 + n * 1000 + 800) for n in range(30)])
FAILING = replace(
    w.application([w.batch(n, failed_outputs=n % 8 == 7) for n in range(40)]),
    outputs=tuple(
        Output(
            batch_ms=w.T0 + n * 1000,
            output=0,
            name="save",
            duration_ms=5,
            failure="java.io.IOException: no",
            ref=w.batch(n).ref,
        )
        for n in range(7, 40, 8)
    ),
)
LOST = w.application(
    [w.batch(n) for n in range(30)],
    executors=(
        Executor(executor="1", removed_us=(w.T0 + 9000) * 1000, reason="Container exited, 137"),
    ),
)
CAPPED = w.application(
    queries=(
        w.query([w.trigger(n, 500) for n in range(30)], file_limit=2, files_taken=(2, 2, 1) * 10),
    )
)
REGULAR = w.application(
    queries=(w.query([w.trigger(n, 1400 if n % 10 == 9 else 500) for n in range(45)]),)
)
OVERRUN = w.application(
    queries=(w.query([w.trigger(n, 2500 if n % 4 else 1500) for n in range(40)]),)
)


def findings(app: ApplicationFacts, code: str, **limits: float) -> list[Finding]:
    overrides = {code: {name.replace("_", "-"): value for name, value in limits.items()}}
    return [x for o in w.outcomes(app, limits=overrides) if o.code == code for x in o.findings]


@pytest.mark.parametrize(
    "code, app, limits",
    [
        ("RT101", LATE, {"delay": 50, "high-delay": 50}),
        ("RT101", LATE, {"delay-growth": 50, "high-delay": 50}),
        ("RT105", LAGGING, {"min-batches": 100}),
        ("RT106", FULL, {"use": 0.95}),
        ("RT203", PERMITTED, {"share": 1.01}),
        ("RT203", PERMITTED, {"at-limit": 3}),
        ("RT204", FIXED, {"share": 1.01}),
        ("RT204", FIXED, {"at-limit": 1.5}),
        ("RT303", SKEWED, {"batch-share": 0.9}),
        ("RT304", LOST, {"shutdown": 600_000}),
        ("RT101", OVERRUN, {"overrun-share": 0.9}),
        ("RT408", REGULAR, {"long-batches": 9}),
        ("RT408", REGULAR, {"difference": 2000}),
        ("RT408", REGULAR, {"ratio": 4}),
    ],
)
def test_a_stricter_limit_suppresses_the_finding(
    code: str, app: ApplicationFacts, limits: dict[str, float]
) -> None:
    app = replace(app, ended_us=app.last_us)
    assert findings(app, code) and not findings(app, code, **limits)


@pytest.mark.parametrize(
    "code, app, limits",
    [
        ("RT106", TIGHT, {"use": 0.6}),
        ("RT204", CAPPED, {"share": 0.6}),
    ],
)
def test_a_laxer_limit_causes_a_finding(
    code: str, app: ApplicationFacts, limits: dict[str, float]
) -> None:
    assert not findings(app, code) and findings(app, code, **limits)


def test_limits_decide_the_severity() -> None:
    (found,) = findings(LATE, "RT101")
    (worse,) = findings(LATE, "RT101", critical_delay=1)
    assert (found.severity, worse.severity) == ("warning", "critical")
    (found,) = findings(FAILING, "RT103")
    (milder,) = findings(FAILING, "RT103", failed_share=0.5, last_batches=3)
    assert (found.severity, milder.severity) == ("critical", "warning")
    (over,) = findings(LOST, "RT304", recovery_time=1000)
    assert over.state == "recovered"


def test_the_text_names_the_deciding_limit() -> None:
    (found,) = findings(SKEWED, "RT303", ratio=2.5)
    assert found.measurements[0].threshold == 2.5


def test_evidence_is_complete() -> None:
    (late,) = findings(LATE, "RT101")
    assert late.ranked and late.evidence_count == late.count and len(late.reported_evidence) == 10
    (tight,) = findings(FULL, "RT106")
    assert tight.ranked and tight.evidence_count == 12
    (failed,) = findings(FAILING, "RT103")
    assert failed.evidence_count == failed.count == 5


def test_a_repeated_batch_cites_every_run() -> None:
    events = tuple(
        w.record(kind="spark_query", at=n * 1000 + step, what=what, run_id=f"r{n}")
        for n in range(12, 20)
        for step, what in ((0, "started"), (500, "terminated"))
    )
    triggers = [w.trigger(n, 500, interval=1000) for n in range(12)]
    app = w.application(queries=(w.query(triggers, tries={12: 8}, events=events),))
    (found,) = findings(app, "RT409")
    times = [one.time_us or 0 for one in found.evidence]
    assert found.evidence_count == 17 and times == sorted(times)
