"""`flowdiag simulate pid`: simulates the rate estimator with flags and a saved report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from flowdiag.analyses.contract.report import RateApplication
from flowdiag.analyses.rate import advice
from flowdiag.analyses.rate import replay as rate_pid
from flowdiag.analyses.rate.assessment.batches import concurrent_jobs
from flowdiag.analyses.rate.model import Job, Outcome, Settings, Workload, simulate
from flowdiag.cli.exit_codes import ExitCode
from flowdiag.cli.options.values import check_positive, parse_duration_ms
from flowdiag.cli.output.console import check_output, write_report
from flowdiag.cli.output.saved import read_report
from flowdiag.cli.simulations import CHANGED, RECORDED
from flowdiag.parsers.errors import FlowdiagError

DEFAULT_INTERVAL_MS: Final = 1000
DEFAULT_BATCHES: Final = 60
MOST_BATCHES: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PidFlags:
    """The values of the command-line flags; None if a flag was not used."""

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
    back_pressure: bool | None
    output: str | None
    as_json: bool


def run_pid(flags: PidFlags) -> ExitCode:
    """Run the simulation and write the outcome.

    Raises:
        FlowdiagError: a value is invalid, or the report contains nothing to simulate.
    """
    check_output(flags.output)
    load = workload(flags)
    before, after = load.settings, override_settings(load.settings, flags, load.streams)
    outcomes = {CHANGED: simulate(load.job, after, load.offered_per_s)}
    if flags.report is not None and before != after:
        outcomes = {RECORDED: simulate(load.job, before, load.offered_per_s), **outcomes}
    settings = {RECORDED: before, CHANGED: after}
    if flags.as_json:
        text = _document(load, outcomes, settings)
    else:
        from flowdiag.cli.simulations.pid_page import page_of

        text = page_of(load, outcomes, settings)
    write_report(text, flags.output)
    return ExitCode.CLEAR


def workload(flags: PidFlags) -> Workload:
    """Return the cost of a batch, the input rate and the current settings.

    Raises:
        FlowdiagError: the cost of a record is unknown, or a value is invalid.
    """
    app = None if flags.report is None else _application(flags.report)
    interval = _duration_ms(flags.interval, "--interval")
    if interval is not None and interval < 1:
        raise FlowdiagError("--interval must be at least 1 ms")
    interval_ms = None if interval is None else round(interval)
    streams = 1 if app is None else max(1, len(app.streams))
    if app is None:
        settings = Settings(interval_ms=interval_ms or DEFAULT_INTERVAL_MS)
    else:
        settings = settings_of(app, interval_ms)
    job = _job(flags, app)
    offers, source = _input_rates(flags, app, job.sustains_per_s(settings.interval_ms), job)
    return Workload(
        job=job,
        settings=settings,
        streams=streams,
        offered_per_s=tuple(offers),
        offered_from=source,
    )


def _job(flags: PidFlags, app: RateApplication | None) -> Job:
    """Return the cost of a batch from the flags, falling back to the report."""
    fixed = _duration_ms(flags.cost_per_batch, "--cost-per-batch")
    each = _duration_ms(flags.cost_per_record, "--cost-per-record")
    if each is not None and each <= 0:
        raise FlowdiagError("--cost-per-record must be above 0")
    keeping, error = (app.keeping, 0.0) if app is not None else (None, 0.0)
    if keeping is not None and each is None and keeping.cost_per_record_ms is not None:
        fixed = keeping.cost_per_batch_ms if fixed is None else fixed
        each, error = keeping.cost_per_record_ms, keeping.cost_error_ms or 0.0
    if each is None or each <= 0:
        raise FlowdiagError(
            "the cost of a record is unknown",
            hint="pass --cost-per-record, or a report whose batches differ enough in size",
        )
    slots = 1 if app is None else concurrent_jobs(app.settings)
    return Job(fixed_ms=max(0.0, fixed or 0.0), per_record_ms=each, error_ms=error, at_once=slots)


def _input_rates(
    flags: PidFlags, app: RateApplication | None, sustains_per_s: float, job: Job
) -> tuple[list[float], str]:
    """Return the input rate of each batch, estimated as in `flowdiag rate`, and where the rate comes from.

    Raises:
        FlowdiagError: `--offered` is not a rate, or the number of batches is invalid.
    """
    if flags.offered is not None:
        return offered_per_s(flags.offered, flags.batches), "as given"
    keeping = None if app is None else app.keeping
    if app is None or keeping is None or not keeping.records_per_s:
        # If the fixed cost exceeds the interval, no rate is sustainable: use the cost of records alone.
        fits = sustains_per_s or 1000 * job.at_once / job.per_record_ms
        rate = advice.offered_per_s(None, fits, held=True)
        source = "twice the sustainable rate, because --offered is not given"
    else:
        held = app.back_pressure is True and any(s.held_by != "source" for s in app.streams)
        held = held or any(stream.limit is not None for stream in app.streams)
        taken = keeping.records_per_s
        rate = advice.offered_per_s(taken, keeping.sustainable_per_s, held=held)
        source = "the rate of the report's last batches"
        if held:
            source += ", which were rate-limited"
        if rate > taken:
            source = "twice the sustainable rate, because the report's batches were rate-limited"
    return offered_per_s(repr(rate), flags.batches), source


def _application(path: str) -> RateApplication:
    report = read_report(path)
    if report.tool.command != "rate":
        raise FlowdiagError(
            f"'{path}' is a report of flowdiag {report.tool.command}, not of rate",
            hint="create one with flowdiag rate … --output report.json",
        )
    found = report.data.applications or []
    apps = [app for app in found if app.batches]
    if not apps and any(app.queries for app in found):
        raise FlowdiagError(
            "the report contains Structured Streaming queries, which have no rate estimator",
            hint="flowdiag simulate pid supports DStreams only",
        )
    if len(apps) != 1:
        raise FlowdiagError(
            f"the report contains {len(apps)} applications with batches instead of one",
            hint="flowdiag rate --application APP --format json",
        )
    interval = apps[0].batch_interval_ms
    if interval is not None and interval < 1:
        raise FlowdiagError(f"'{path}' has a batch interval of {interval} ms")
    return apps[0]


def settings_of(app: RateApplication, interval_ms: int | None = None) -> Settings:
    """Return the settings of an application, with Spark's defaults for unset options."""
    return advice.settings_from(
        app.settings,
        interval_ms=interval_ms or app.batch_interval_ms or DEFAULT_INTERVAL_MS,
        streams=len(app.streams),
        gains=rate_pid.gains_of(app.settings),
        back_pressure=app.back_pressure is True,
    )


_GAINS: Final = ("proportional", "integral", "derived", "min_rate")


def override_settings(settings: Settings, flags: PidFlags, streams: int = 1) -> Settings:
    """Return the settings with the values of the command line.

    Args:
        settings: before any changes.
        flags: minimum rates and limits apply to each stream.
        streams: number of streams.

    Raises:
        FlowdiagError: Spark refuses a value, or gains are given without an estimator.
    """
    gains = {name: value for name in _GAINS if (value := getattr(flags, name)) is not None}
    if flags.back_pressure is False and gains:
        option = "--" + next(iter(gains)).replace("_", "-")
        raise FlowdiagError(f"{option} has no effect with --no-back-pressure")
    for name, value in gains.items():
        if not value < 1e15:
            raise FlowdiagError(f"--{name.replace('_', '-')} must be a number below 1e15")
    if "min_rate" in gains:
        gains["min_rate"] *= streams
    try:
        changed = replace(settings.gains, **gains)
    except ValueError as error:
        raise FlowdiagError(f"Spark refuses to start: {error}") from None
    most = check_positive(flags.max_rate, "--max-rate")
    first = check_positive(flags.initial_rate, "--initial-rate")
    on = settings.back_pressure or bool(gains)
    return replace(
        settings,
        gains=changed,
        max_rate=settings.max_rate if most is None else most * streams,
        initial_rate=settings.initial_rate if first is None else first * streams,
        back_pressure=on if flags.back_pressure is None else flags.back_pressure,
    )


def offered_per_s(text: str, batches: int | None) -> list[float]:
    """Return the input rate of each batch.

    Raises:
        FlowdiagError: the text is not a rate, or the number of batches is invalid.
    >>> offered_per_s("2x400,1x20", None), offered_per_s("7", 2)
    ([400.0, 400.0, 20.0], [7.0, 7.0])
    """
    if batches is not None and not 1 <= batches <= MOST_BATCHES:
        raise FlowdiagError(f"--batches must be 1 to {MOST_BATCHES}")
    rates: list[float] = []
    for part in text.split(","):
        times, _, rate = part.strip().rpartition("x")
        try:
            count, value = int(times) if times else 1, float(rate)
        except ValueError:
            count, value = 0, -1.0
        if count < 1 or not 0 <= value < 1e15 or len(rates) + count > MOST_BATCHES:
            raise FlowdiagError(f"'{part}' is not a rate", hint="write 400, or 60x400,30x20")
        rates += [value] * count
    count = batches or (DEFAULT_BATCHES if len(rates) == 1 else len(rates))
    return [rates[min(i, len(rates) - 1)] for i in range(count)]


def _duration_ms(text: str | None, option: str) -> float | None:
    return None if text is None else parse_duration_ms(text, option, below=1e12)


def _document(
    load: Workload, outcomes: Mapping[str, Outcome], settings: Mapping[str, Settings]
) -> str:
    document = {
        "schema": "flowdiag.simulation/1",
        "job": msgspec.to_builtins(load.job),
        "streams": load.streams,
        "sustainable_per_s": round(load.job.sustains_per_s(settings[CHANGED].interval_ms), 3),
        "offered_per_s": load.offered_per_s[-1],
        "offered_from": load.offered_from,
        "outcomes": [
            {
                "name": name,
                "settings": msgspec.to_builtins(settings[name]),
                **_outcome_json(outcome),
            }
            for name, outcome in outcomes.items()
        ],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def _outcome_json(outcome: Outcome) -> dict[str, object]:
    return {
        "steady_per_s": round(outcome.steady_per_s, 3),
        "delay_ms": outcome.delay_ms,
        "settling": outcome.settling,
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
