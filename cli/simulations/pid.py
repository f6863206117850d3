"""`flowdiag simulate pid`: from flags and a saved report to a model's outcome."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from flowdiag.analyses.rate import advice
from flowdiag.analyses.rate import replay as rate_pid
from flowdiag.analyses.rate.model import Job, Outcome, Settings, simulate
from flowdiag.analyses.rate.present.batches import concurrent_jobs
from flowdiag.analyses.report.wire import RateApplication
from flowdiag.cli.exit_codes import ExitCode
from flowdiag.cli.options.values import parse_duration_ms, positive
from flowdiag.cli.output.console import check_output, write_report
from flowdiag.cli.output.saved import read_report
from flowdiag.parsers.errors import FlowdiagError

DEFAULT_INTERVAL_MS: Final = 1000
DEFAULT_BATCHES: Final = 60
MOST_BATCHES: Final = 100_000


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
    back_pressure: bool | None
    output: str | None
    as_json: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What is simulated.

    Args:
        job: what a batch costs.
        settings: as they are.
        streams: input streams, whose limits and floors add up.
        offered_per_s: what comes in, by batch.
        offered_from: where that was taken from: a clause for people.
    """

    job: Job
    settings: Settings
    streams: int
    offered_per_s: tuple[float, ...]
    offered_from: str


def run_pid(wanted: Wanted) -> ExitCode:
    """Simulate and write the outcome.

    Raises:
        FlowdiagError: a value makes no sense, or the report holds nothing to simulate.
    """
    check_output(wanted.output)
    load = workload(wanted)
    before, after = load.settings, tried(load.settings, wanted, load.streams)
    outcomes = {"tried": simulate(load.job, after, load.offered_per_s)}
    if wanted.report is not None and before != after:
        outcomes = {"as it is": simulate(load.job, before, load.offered_per_s), **outcomes}
    settings = {"as it is": before, "tried": after}
    if wanted.as_json:
        text = _document(load, outcomes, settings)
    else:
        from flowdiag.cli.views.pid_simulation import page_of

        text = page_of(load, outcomes, settings)
    write_report(text, wanted.output)
    return ExitCode.CLEAR


def workload(wanted: Wanted) -> Workload:
    """What a batch costs, what comes in, and the settings as they are.

    Raises:
        FlowdiagError: nothing tells the cost of a record, or a value makes no sense.
    """
    app = None if wanted.report is None else _application(wanted.report)
    interval = _length(wanted.interval, "--interval")
    if interval is not None and interval < 1:
        raise FlowdiagError("--interval must be at least 1 ms")
    interval_ms = None if interval is None else round(interval)
    streams = 1 if app is None else max(1, len(app.streams))
    if app is None:
        settings = Settings(interval_ms=interval_ms or DEFAULT_INTERVAL_MS)
    else:
        settings = settings_of(app, interval_ms)
    job = _job(wanted, app)
    offers, source = _offers(wanted, app, job.sustains_per_s(settings.interval_ms), job)
    return Workload(
        job=job,
        settings=settings,
        streams=streams,
        offered_per_s=tuple(offers),
        offered_from=source,
    )


def _job(wanted: Wanted, app: RateApplication | None) -> Job:
    """What a batch costs: as given, else as the report has it."""
    fixed = _length(wanted.cost_per_batch, "--cost-per-batch")
    each = _length(wanted.cost_per_record, "--cost-per-record")
    if each is not None and each <= 0:
        raise FlowdiagError("--cost-per-record must be above 0")
    keeping, error = (app.keeping, 0.0) if app is not None else (None, 0.0)
    if keeping is not None and each is None and keeping.cost_per_record_ms is not None:
        fixed = keeping.cost_per_batch_ms if fixed is None else fixed
        each, error = keeping.cost_per_record_ms, keeping.cost_error_ms or 0.0
    if each is None or each <= 0:
        raise FlowdiagError(
            "what a record costs is not known",
            hint="give --cost-per-record, or a report whose batches differ enough in size",
        )
    slots = 1 if app is None else concurrent_jobs(app.settings)
    return Job(fixed_ms=max(0.0, fixed or 0.0), per_record_ms=each, error_ms=error, at_once=slots)


def _offers(
    wanted: Wanted, app: RateApplication | None, sustains_per_s: float, job: Job
) -> tuple[list[float], str]:
    """What comes in, by batch, and where that is from; as the rules of `flowdiag rate` take it.

    Raises:
        FlowdiagError: `--offered` is no rate, or no number of batches.
    """
    if wanted.offered is not None:
        return offered_per_s(wanted.offered, wanted.batches), "as given"
    keeping = None if app is None else app.keeping
    if app is None or keeping is None or not keeping.records_per_s:
        # A fixed cost above the interval leaves no rate that fits: then by the records' cost alone.
        fits = sustains_per_s or 1000 * job.at_once / job.per_record_ms
        rate = advice.offered_per_s(None, fits, held=True)
        source = "twice what fits, since --offered does not say"
    else:
        held = app.back_pressure is True and any(one.held_by != "source" for one in app.streams)
        held = held or any(one.limit is not None for one in app.streams)
        taken = keeping.records_per_s
        rate = advice.offered_per_s(taken, keeping.sustainable_per_s, held=held)
        source = "as the report's last batches took it"
        if held:
            source += ", though something held them back"
        if rate > taken:
            source = "twice what fits, since in the report something held it back"
    return offered_per_s(repr(rate), wanted.batches), source


def _application(path: str) -> RateApplication:
    report = read_report(path)
    if report.tool.command != "rate":
        raise FlowdiagError(
            f"'{path}' is a report of flowdiag {report.tool.command}, not of rate",
            hint="make one with flowdiag rate … --format json --output report.json",
        )
    found = report.data.applications or []
    apps = [app for app in found if app.batches]
    if not apps and any(app.queries for app in found):
        raise FlowdiagError(
            "the report holds queries of Structured Streaming, which have no rate estimator",
            hint="flowdiag simulate pid is about DStreams",
        )
    if len(apps) != 1:
        raise FlowdiagError(
            f"the report holds {len(apps)} applications with batches, not one",
            hint="flowdiag rate --application APP --format json",
        )
    interval = apps[0].batch_interval_ms
    if interval is not None and interval < 1:
        raise FlowdiagError(f"'{path}' has a batch interval of {interval} ms")
    return apps[0]


def settings_of(app: RateApplication, interval_ms: int | None = None) -> Settings:
    """The settings of an application, Spark's defaults where nothing was set."""
    return advice.settings_from(
        app.settings,
        interval_ms=interval_ms or app.batch_interval_ms or DEFAULT_INTERVAL_MS,
        streams=len(app.streams),
        gains=rate_pid.gains_of(app.settings),
        back_pressure=app.back_pressure is True,
    )


_GAINS: Final = ("proportional", "integral", "derived", "min_rate")


def tried(settings: Settings, wanted: Wanted, streams: int = 1) -> Settings:
    """The settings with what was given on the command line.

    Args:
        settings: as they are.
        wanted: the flags; floors and limits are those of each stream.
        streams: how many there are.

    Raises:
        FlowdiagError: a value that Spark refuses to start with, or gains without an estimator.
    """
    gains = {name: value for name in _GAINS if (value := getattr(wanted, name)) is not None}
    if wanted.back_pressure is False and gains:
        option = "--" + next(iter(gains)).replace("_", "-")
        raise FlowdiagError(f"{option} does nothing with --no-back-pressure")
    for name, value in gains.items():
        if not value < 1e15:
            raise FlowdiagError(f"--{name.replace('_', '-')} must be a number below 1e15")
    if "min_rate" in gains:
        gains["min_rate"] *= streams
    try:
        changed = replace(settings.gains, **gains)
    except ValueError as error:
        raise FlowdiagError(f"Spark refuses to start: {error}") from None
    most = positive(wanted.max_rate, "--max-rate")
    first = positive(wanted.initial_rate, "--initial-rate")
    on = settings.back_pressure or bool(gains)
    return replace(
        settings,
        gains=changed,
        max_rate=settings.max_rate if most is None else most * streams,
        initial_rate=settings.initial_rate if first is None else first * streams,
        back_pressure=on if wanted.back_pressure is None else wanted.back_pressure,
    )


def offered_per_s(text: str, batches: int | None) -> list[float]:
    """The rate that comes in, per batch.

    Raises:
        FlowdiagError: it is no rate, or no number of batches.

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
            raise FlowdiagError(f"'{part}' is no rate", hint="write 400, or 60x400,30x20")
        rates += [value] * count
    count = batches or (DEFAULT_BATCHES if len(rates) == 1 else len(rates))
    return [rates[min(i, len(rates) - 1)] for i in range(count)]


def _length(text: str | None, option: str) -> float | None:
    return None if text is None else parse_duration_ms(text, option, below=1e12)


def _document(
    load: Workload, outcomes: Mapping[str, Outcome], settings: Mapping[str, Settings]
) -> str:
    document = {
        "schema": "flowdiag.simulation/1",
        "job": msgspec.to_builtins(load.job),
        "streams": load.streams,
        "sustainable_per_s": round(load.job.sustains_per_s(settings["tried"].interval_ms), 3),
        "offered_per_s": load.offered_per_s[-1],
        "offered_from": load.offered_from,
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
