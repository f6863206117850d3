"""`flowdiag simulate pid`: from flags and a saved report to a model's outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from flowdiag.analyses.rate import replay as rate_pid
from flowdiag.analyses.rate.model import Job, Outcome, Settings, simulate
from flowdiag.analyses.report.wire import RateApplication
from flowdiag.cli.console import write_report
from flowdiag.cli.exit_codes import ExitCode
from flowdiag.cli.reading import read_report
from flowdiag.cli.simulations.values import length
from flowdiag.parsers.errors import FlowdiagError

DEFAULT_INTERVAL_MS: Final = 1000
DEFAULT_BATCHES: Final = 60
MOST_BATCHES: Final = 100_000
ENDLESS: Final = 1e9  # records per second of a source that always has more


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The flags as given; None where one was not."""

    report: str | None
    interval: str | None
    cost_per_batch: str | None
    cost_per_record: str | None
    offered: str | None
    batches: int | None
    proportional: float | None
    integral: float | None
    derived: float | None
    min_rate: float | None
    max_rate: float | None
    initial_rate: float | None
    back_pressure: bool
    as_json: bool


def run_pid(wanted: Wanted) -> ExitCode:
    """Simulate and write the outcome.

    Raises:
        FlowdiagError: a value makes no sense, or the report holds nothing to simulate.
    """
    job, before = workload(wanted)
    after = tried(before, wanted)
    offers = offered_per_s(wanted.offered, wanted.batches)
    outcomes = {"tried": simulate(job, after, offers)}
    if wanted.report is not None and before != after:
        outcomes = {"as it is": simulate(job, before, offers), **outcomes}
    settings = {"as it is": before, "tried": after}
    if wanted.as_json:
        text = _document(job, outcomes, settings)
    else:
        from flowdiag.cli.views.pid_simulation import page_of

        text = page_of(job, outcomes, settings)
    write_report(text, None)
    return ExitCode.CLEAR


def workload(wanted: Wanted) -> tuple[Job, Settings]:
    """What a batch costs, and the settings as they are.

    Raises:
        FlowdiagError: nothing tells the cost of a record.
    """
    fixed = _length(wanted.cost_per_batch, "--cost-per-batch")
    each = _length(wanted.cost_per_record, "--cost-per-record")
    error = 0.0
    interval = _length(wanted.interval, "--interval")
    settings = Settings(interval_ms=round(interval) if interval else DEFAULT_INTERVAL_MS)
    if wanted.report is not None:
        app = _application(wanted.report)
        settings = settings_of(app, round(interval) if interval else None)
        keeping = app.keeping
        if keeping is not None and each is None and keeping.cost_per_record_ms is not None:
            fixed = keeping.cost_per_batch_ms if fixed is None else fixed
            each, error = keeping.cost_per_record_ms, keeping.cost_error_ms or 0.0
    if each is None:
        raise FlowdiagError(
            "what a record costs is not known",
            hint="give --cost-per-record, or a report whose batches differ enough in size",
        )
    if settings.interval_ms < 1:
        raise FlowdiagError("--interval must be at least 1 ms")
    return Job(fixed_ms=fixed or 0.0, per_record_ms=each, error_ms=error), settings


def _application(path: str) -> RateApplication:
    report = read_report(path)
    apps = [app for app in report.data.applications or () if app.batches]
    if len(apps) != 1:
        raise FlowdiagError(
            f"the report holds {len(apps)} applications with batches, not one",
            hint="flowdiag rate --application APP --format json",
        )
    return apps[0]


def settings_of(app: RateApplication, interval_ms: int | None = None) -> Settings:
    """The settings of an application, Spark's defaults where nothing was set."""
    told = app.settings
    return Settings(
        interval_ms=interval_ms or app.batch_interval_ms or DEFAULT_INTERVAL_MS,
        gains=rate_pid.gains_of(told),
        max_rate=rate_pid.number(told.get(rate_pid.MAX_RATE)),
        initial_rate=rate_pid.number(told.get(rate_pid.INITIAL_RATE)),
        back_pressure=app.back_pressure is not False,
    )


def tried(settings: Settings, wanted: Wanted) -> Settings:
    """The settings with what was given on the command line.

    Raises:
        FlowdiagError: a value that Spark refuses to start with.
    """
    names = ("proportional", "integral", "derived", "min_rate")
    gains = {name: value for name in names if (value := getattr(wanted, name)) is not None}
    try:
        changed = replace(settings.gains, **gains)
    except ValueError as error:
        raise FlowdiagError(f"Spark refuses to start: {error}") from None
    for name, value in (("--max-rate", wanted.max_rate), ("--initial-rate", wanted.initial_rate)):
        if value is not None and value <= 0:
            raise FlowdiagError(f"{name} must be above 0")
    return replace(
        settings,
        gains=changed,
        max_rate=settings.max_rate if wanted.max_rate is None else wanted.max_rate,
        initial_rate=settings.initial_rate if wanted.initial_rate is None else wanted.initial_rate,
        back_pressure=wanted.back_pressure and (settings.back_pressure or bool(gains)),
    )


def offered_per_s(text: str | None, batches: int | None) -> list[float]:
    """The rate that comes in, per batch.

    Raises:
        FlowdiagError: it is no rate, or no number of batches.

    >>> offered_per_s("2x400,1x20", None), offered_per_s("7", 2)
    ([400.0, 400.0, 20.0], [7.0, 7.0])
    """
    if batches is not None and not 1 <= batches <= MOST_BATCHES:
        raise FlowdiagError(f"--batches must be 1 to {MOST_BATCHES}")
    if text is None:
        return [ENDLESS] * (batches or DEFAULT_BATCHES)
    rates: list[float] = []
    for part in text.split(","):
        times, _, rate = part.strip().rpartition("x")
        try:
            count, value = int(times) if times else 1, float(rate)
        except ValueError:
            count, value = 0, -1.0
        if count < 1 or not 0 <= value < 1e15 or len(rates) + count > MOST_BATCHES:
            raise FlowdiagError(f"'{part}' is no rate", hint="write 400, or 60x400,30x20")
        rates += [value] * count
    count = batches or (DEFAULT_BATCHES if len(rates) == 1 else len(rates))
    return [rates[min(i, len(rates) - 1)] for i in range(count)]


def _length(text: str | None, option: str) -> float | None:
    return None if text is None else length(text, option, below=1e12)


def _document(job: Job, outcomes: Mapping[str, Outcome], settings: Mapping[str, Settings]) -> str:
    document = {
        "schema": "flowdiag.simulation/1",
        "job": msgspec.to_builtins(job),
        "outcomes": [
            {"name": name, "settings": msgspec.to_builtins(settings[name]), **_wire(outcome)}
            for name, outcome in outcomes.items()
        ],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def _wire(outcome: Outcome) -> dict[str, object]:
    return {
        "steady_per_s": round(outcome.steady_per_s, 3),
        "delay_ms": outcome.delay_ms,
        "settling_ms": outcome.settling_ms,
        "overshoot": round(outcome.overshoot, 4),
        "queued": outcome.queued,
        "batches": [
            {
                "time_ms": batch.time_ms,
                "records": batch.records,
                "scheduling_delay_ms": batch.scheduling_ms,
                "processing_delay_ms": batch.processing_ms,
                "new_rate": batch.step.new_rate if batch.step else None,
            }
            for batch in outcome.batches
        ],
    }
