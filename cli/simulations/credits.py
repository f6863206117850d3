"""`flowdiag simulate credits`: forecasts the effect of settings, from flags or from a job's data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from flowdiag.analyses.queues.credit_facts import bytes_of, debloating_of, flow_of, observe
from flowdiag.analyses.queues.credit_fit import (
    Fit,
    Prediction,
    fit,
    fit_of_settings,
    predict,
    reference_task,
    what_if,
)
from flowdiag.analyses.queues.credits import simulate
from flowdiag.analyses.queues.credits.job import (
    Debloating,
    Edge,
    Flow,
    Job,
    ModelError,
    Outcome,
    Task,
)
from flowdiag.cli.exit_codes import ExitCode
from flowdiag.cli.options.values import parse_duration_ms
from flowdiag.cli.output.console import Progress, check_output, write_report
from flowdiag.cli.simulations import CHANGED, RECORDED
from flowdiag.parsers.errors import FlowdiagError

DEFAULT_PARALLELISM: Final = "2,4,2"
DEFAULT_VERSION: Final = "1.20"
MOST_SUBTASKS: Final = 1_000
_GROWTH: Final = 60  # columns of the queue over time, in JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditFlags:
    """The values of the command-line flags; None if a flag was not used."""

    paths: tuple[str, ...]
    job: str | None
    parallelism: str | None
    rate: float | None
    service: str | None
    record_size: str | None
    skew: float | None
    task_managers: int | None
    flink: str | None
    buffers_per_channel: int | None
    floating_buffers: int | None
    segment_size: str | None
    segments: int | None
    buffer_timeout: str | None
    debloat: str | None
    unaligned: bool | None
    checkpoint_interval: str | None
    output: str | None
    as_json: bool


def run_credits(flags: CreditFlags) -> ExitCode:
    """Run the simulation and write the outcome.

    Raises:
        FlowdiagError: a value is invalid, or the inputs are not enough for a model.
    """
    check_output(flags.output)
    try:
        fitted, predictions = _from_inputs(flags) if flags.paths else _from_flags(flags)
        growth = simulate(fitted.job, fitted.flow, fill=False)
    except ModelError as error:
        raise FlowdiagError(f"cannot simulate these settings: {error}") from None
    if flags.as_json:
        text = _document(fitted, predictions, growth)
    else:
        from flowdiag.cli.simulations.credits_page import page_of

        text = page_of(fitted, predictions, growth)
    write_report(text, flags.output)
    return ExitCode.CLEAR


# -- the simulated job ---------------------------------------------------------------------------


def _from_flags(flags: CreditFlags) -> tuple[Fit, list[Prediction]]:
    version = _parse_version(flags.flink or DEFAULT_VERSION)
    job = described_job(flags)
    flow = override_flow(flow_of({}, version), flags, version)
    if flow.interval_ms <= 0:
        flow = replace(flow, interval_ms=10_000.0)
    fitted = fit_of_settings(job, flow, version)
    return fitted, what_if(fitted, CHANGED)


def _from_inputs(flags: CreditFlags) -> tuple[Fit, list[Prediction]]:
    for option, value in (
        ("--parallelism", flags.parallelism),
        ("--rate", flags.rate),
        ("--service", flags.service),
        ("--record-size", flags.record_size),
        ("--skew", flags.skew),
        ("--task-managers", flags.task_managers),
        ("--flink", flags.flink),
    ):
        if value is not None:
            raise FlowdiagError(
                f"{option} cannot be combined with --from, which provides the value"
            )
    fitted = _fit_inputs(flags)
    predictions = what_if(fitted, RECORDED)
    flow = override_flow(fitted.flow, flags, fitted.version)
    if flow != fitted.flow:
        predictions.insert(1, predict(fitted, CHANGED, flow=flow))
    return fitted, predictions


def _fit_inputs(flags: CreditFlags) -> Fit:
    from flowdiag.analyses.diagnosis import measure, select_facts
    from flowdiag.analyses.inputs import find
    from flowdiag.analyses.queues.facts import options_of
    from flowdiag.analyses.queues.topic import QUEUES
    from flowdiag.analyses.selection.options import Options
    from flowdiag.analyses.selection.span import Selection
    from flowdiag.cli.diagnosing import stages
    from flowdiag.cli.spark.resources import resources_for
    from flowdiag.cli.spark.starter import SparkStarter

    with Progress() as progress:
        progress("checking the inputs")
        discovery = find(flags.paths, strict=False, engine="flink")
    unread = [source for source in discovery.sources if source.kind == "not-read"]
    if len(unread) == len(discovery.sources):
        first = f": {unread[0].name}: {unread[0].reason}" if unread else ""
        raise FlowdiagError(
            f"no input describes a Flink job{first}",
            hint="pass logs with metric reports, REST responses, or the output of flowdiag collect",
        )
    with Progress() as progress, SparkStarter.begin() as spark, spark.explain_failures():
        measured = measure(
            (QUEUES,),
            discovery,
            spark.session,
            resources=resources_for(spark),
            progress=stages(progress, discovery),
        )
        options = Options(selection=Selection(job=flags.job))
        jobs = select_facts(QUEUES, measured.facts[QUEUES.name], measured.processes, options).jobs
        if len(jobs) != 1:
            names = ", ".join(sorted(j.job.name or j.job.key.job_id for j in jobs)) or "none"
            raise FlowdiagError(
                f"the input contains {len(jobs)} jobs instead of one: {names}",
                hint="select one with --job",
            )
        progress("fitting the model")
        observed = observe(jobs[0], options_of(jobs[0].job))
        if observed is None:
            raise FlowdiagError(
                "the input does not contain the rates or the order of the tasks",
                hint="pass metric reports of all TaskManagers and the JobManager's log or /jobs/:id"
                " (flowdiag collect)",
            )
        return fit(observed)


def described_job(flags: CreditFlags) -> Job:
    """Return the chain of tasks with hash edges that the flags describe.

    Raises:
        FlowdiagError: a flag is missing or invalid.
    """
    sizes = _parse_parallelism(flags.parallelism or DEFAULT_PARALLELISM)
    if flags.rate is None or flags.service is None:
        raise FlowdiagError(
            "the input rate and the time per record are unknown",
            hint="pass --rate and --service, or a job's logs and metrics with --from",
        )
    if not 0 < flags.rate < 1e12:
        raise FlowdiagError("--rate must be above 0")
    costs = _parse_service(flags.service, len(sizes) - 1)
    size = bytes_of(flags.record_size, 0) if flags.record_size is not None else 100
    if size < 1:
        raise FlowdiagError(f"--record-size '{flags.record_size}' is not a size", hint="write 400b")
    managers = flags.task_managers
    if managers is not None and not 1 <= managers <= MOST_SUBTASKS:
        raise FlowdiagError(f"--task-managers must be 1 to {MOST_SUBTASKS}")
    names = ["source", *[f"task {i}" for i in range(1, len(sizes) - 1)], "sink"]
    service_ms = [sizes[0] * 1000.0 / flags.rate, *costs]
    tasks = tuple(
        Task(
            name=name,
            service_ms=(cost,) * count,
            record_bytes=float(size),
            taskmanagers=tuple(f"taskmanager-{i % managers + 1}" for i in range(count))
            if managers
            else (),
        )
        for name, count, cost in zip(names, sizes, service_ms, strict=True)
    )
    slowest = max(range(1, len(tasks)), key=lambda i: service_ms[i] / sizes[i])
    edges = tuple(
        Edge(
            upstream=names[place],
            downstream=names[place + 1],
            shares=_skewed_shares(sizes[place + 1], flags.skew) if place + 1 == slowest else (),
        )
        for place in range(len(names) - 1)
    )
    return Job(tasks=tasks, edges=edges)


def _parse_parallelism(text: str) -> list[int]:
    sizes = _parse_numbers(text, "--parallelism")
    if len(sizes) < 2 or any(not 1 <= size <= MOST_SUBTASKS for size in sizes):
        raise FlowdiagError(
            f"--parallelism needs at least two tasks, each with 1 to {MOST_SUBTASKS} subtasks",
            hint="write 2,4,2: a source, a task, a sink",
        )
    return sizes


def _parse_service(text: str, tasks: int) -> list[float]:
    """Return the time per record of each task after the source. A single number is the sink's."""
    costs = [parse_duration_ms(part, "--service") for part in text.split(",")]
    if len(costs) == 1:
        costs = [0.0] * (tasks - 1) + costs
    if len(costs) != tasks:
        raise FlowdiagError(
            f"--service lists {len(costs)} tasks, but --parallelism lists {tasks} after the source"
        )
    return costs


def _skewed_shares(count: int, share: float | None) -> tuple[float, ...]:
    if share is None:
        return ()
    if not 1.0 / count <= share <= 1.0:
        raise FlowdiagError(
            f"--skew must be between {1 / count:.2g} (even) and 1: the share of one of {count} subtasks"
        )
    return (share, *[(1.0 - share) / max(1, count - 1)] * (count - 1))


def override_flow(flow: Flow, flags: CreditFlags, version: tuple[int, int]) -> Flow:
    """Return the job's options with those of the command line applied.

    Raises:
        FlowdiagError: Flink refuses a value, or the version does not have an option.
    """
    if version >= (2, 0) and (
        flags.buffers_per_channel is not None or flags.floating_buffers is not None
    ):
        raise FlowdiagError(
            "Flink 2 ignores buffers per channel and per gate: they are 2 and 8",
            hint="try --debloat or --segment-size",
        )
    for option, value, least in (
        ("--buffers-per-channel", flags.buffers_per_channel, 0),
        ("--floating-buffers", flags.floating_buffers, 0 if version < (1, 14) else 1),
        ("--segments", flags.segments, 1),
    ):
        if value is not None and not least <= value <= 1_000_000:
            raise FlowdiagError(f"{option} must be at least {least}")
    if flags.unaligned and version < (1, 11):
        raise FlowdiagError("unaligned checkpoints require Flink 1.11 or later")
    interval_ms = _duration_ms(flags.checkpoint_interval, "--checkpoint-interval")
    overrides: dict[str, Any] = {
        "per_channel": flags.buffers_per_channel,
        "floating": flags.floating_buffers,
        "segment_bytes": _segment_bytes(flags.segment_size),
        "segments": flags.segments,
        "flush_ms": _duration_ms(flags.buffer_timeout, "--buffer-timeout"),
        "unaligned": flags.unaligned,
        "interval_ms": None if interval_ms is None else max(1.0, interval_ms),
    }
    return replace(
        flow,
        debloating=_debloating(flow, flags, version),
        aligned_timeout_ms=flow.aligned_timeout_ms if flags.unaligned is None else None,
        **{name: value for name, value in overrides.items() if value is not None},
    )


def _duration_ms(text: str | None, option: str) -> float | None:
    return parse_duration_ms(text, option) if text else None


def _debloating(flow: Flow, flags: CreditFlags, version: tuple[int, int]) -> Debloating | None:
    if flags.debloat is None:
        return flow.debloating
    if flags.debloat.strip().lower() == "off":
        return None
    if version < (1, 14):
        raise FlowdiagError("buffer debloating requires Flink 1.14 or later")
    target = parse_duration_ms(flags.debloat, "--debloat")
    if target < 1:
        raise FlowdiagError("--debloat must be at least 1 ms")
    return debloating_of(version, target)


def _segment_bytes(text: str | None) -> int | None:
    if text is None:
        return None
    segment = bytes_of(text, 0)
    if not 4096 <= segment <= 1 << 30:
        raise FlowdiagError("--segment-size must be 4kb to 1024mb")
    return segment


def _parse_version(text: str) -> tuple[int, int]:
    parts = text.strip().split(".")
    if len(parts) < 2 or not all(part.isdecimal() and len(part) < 4 for part in parts[:2]):
        raise FlowdiagError(f"--flink '{text}' is not a version", hint="write 1.20")
    version = int(parts[0]), int(parts[1])
    if version < (1, 5):
        raise FlowdiagError("credit-based flow control requires Flink 1.5 or later")
    return version


def _parse_numbers(text: str, option: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and len(part) < 7 for part in parts):
        raise FlowdiagError(f"{option} '{text}' is not a list of numbers", hint="write 2,4,2")
    return [int(part) for part in parts]


# -- as JSON --------------------------------------------------------------------------------------


def _document(fitted: Fit, predictions: Sequence[Prediction], growth: Outcome) -> str:
    task = reference_task(fitted.bottleneck, fitted.job)
    series = growth.queue_over_time.get(task, ())
    step = max(1, len(series) // _GROWTH)
    document = {
        "schema": "flowdiag.simulation/1",
        "flink": ".".join(map(str, fitted.version)),
        "job": msgspec.to_builtins(fitted.job),
        "bottleneck": fitted.bottleneck,
        "fit": {
            "error": None if fitted.error is None else round(fitted.error, 3),
            "poor": bool(fitted.compared) and fitted.is_poor,
            "compared": [
                {"name": c.name, "observed": round(c.observed, 2), "modelled": round(c.modelled, 2)}
                for c in fitted.compared
            ],
            "barrier_scale": round(fitted.scale, 3),
            "checkpoint_overhead_ms": fitted.overhead_ms,
            "notes": list(dict.fromkeys(fitted.notes)),
        },
        "growth": {
            "task": task,
            "from_empty": [[round(t), round(v, 2)] for t, v in series[::step]],
        },
        "outcomes": [_prediction_json(item) for item in predictions],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def _prediction_json(item: Prediction) -> dict[str, object]:
    outcome = item.outcome

    def rounded(value: float | None) -> float | None:
        return None if value is None else round(value, 2)

    return {
        "name": item.name,
        "problem": item.problem,
        "task": item.task,
        "settings": msgspec.to_builtins(item.flow),
        "throughput_per_s": rounded(item.throughput),
        "queued_buffers": rounded(item.queue),
        "queued_records": rounded(item.queued_records),
        "checkpoint_ms": rounded(item.barrier_ms),
        "checkpoint_longer_than_ms": rounded(item.at_least_ms),
        "simulated_s": rounded(outcome.seconds) if outcome else None,
        "overtaken_bytes": rounded(max((b.overtaken_bytes for b in outcome.barriers), default=0.0))
        if outcome
        else None,
        "subtasks": [
            {
                "task": s.task,
                "subtask_index": s.subtask_index,
                "records_per_s": round(s.records_per_s, 2),
                "busy": round(s.busy, 4),
                "back_pressured": round(s.back_pressured, 4),
                "idle": round(s.idle, 4),
                "queued_buffers": round(s.queue, 2),
                "queued_records": round(s.queued_records, 2),
                "out_buffers": round(s.out_queue, 2),
                "barrier_ms": _median_barrier_ms(outcome, s.task, s.subtask_index),
            }
            for s in (outcome.subtasks if outcome else ())
        ],
    }


def _median_barrier_ms(outcome: Outcome | None, task: str, index: int) -> float | None:
    """Return the median time until a subtask has received all its barriers."""
    if outcome is None:
        return None
    known = sorted(
        b.passed_ms[task, index] for b in outcome.barriers if (task, index) in b.passed_ms
    )
    return round(known[len(known) // 2], 2) if known else None
