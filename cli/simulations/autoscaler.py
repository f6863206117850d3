"""`flowdiag simulate autoscaler`: replays decisions of Flink's autoscaler with its own and other settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from flowdiag.analyses.flink.autoscaler.formula import Decision, Proposal, Vertex
from flowdiag.analyses.flink.autoscaler.published import SIGN, published_states
from flowdiag.analyses.flink.autoscaler.replay import (
    Outcome,
    Replayed,
    current_decision,
    job_graph,
    steps,
    why,
)
from flowdiag.analyses.flink.autoscaler.settings import Settings, settings_from
from flowdiag.analyses.flink.autoscaler.state import State, is_state, state_of
from flowdiag.cli.exit_codes import ExitCode
from flowdiag.cli.options.values import parse_duration_ms
from flowdiag.cli.output.console import check_output, write_report
from flowdiag.cli.simulations import CHANGED, RECORDED
from flowdiag.parsers.discover import discover
from flowdiag.parsers.errors import FlowdiagError
from flowdiag.parsers.flink.options import read_options
from flowdiag.parsers.json_values import decode_json, object_at, objects_at
from flowdiag.parsers.source import source_text

PREFIX: Final = "job.autoscaler."


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoscalerFlags:
    """The values of the command-line flags; None if a flag was not used."""

    paths: tuple[str, ...]
    target_utilization: float | None
    utilization_boundary: float | None
    utilization_min: float | None
    utilization_max: float | None
    catch_up: str | None
    restart_time: str | None
    max_scale_up: float | None
    max_scale_down: float | None
    min_parallelism: int | None
    max_parallelism: int | None
    output: str | None
    as_json: bool


@dataclass(slots=True)
class _Inputs:
    """The documents that the replay needs, found among the inputs."""

    states: list[State]
    graphs: list[list[Vertex]]
    options: dict[str, str]

    def add(self, text: str) -> None:
        """Store the text if it contains the autoscaler's state, the job graph, or options."""
        document = _decode(text)
        items = objects_at(document, "items") or [document]
        self.states += [state_of(item) for item in items if is_state(item)]
        if "vertices" in document and object_at(document, "plan"):
            self.graphs.append(job_graph(document))
        if PREFIX in text:
            found = read_options(text).options
            self.options |= {k: str(v) for k, v in found.items() if PREFIX in k}


def run_autoscaler(flags: AutoscalerFlags) -> ExitCode:
    """Replay the decisions and write the outcome.

    Raises:
        FlowdiagError: a value is invalid, or the inputs contain no autoscaler state.
    """
    check_output(flags.output)
    replayed = _replay(flags)
    if flags.as_json:
        text = _document(replayed)
    else:
        from flowdiag.cli.simulations.autoscaler_page import page_of

        text = page_of(replayed)
    write_report(text, flags.output)
    return ExitCode.CLEAR


def _replay(flags: AutoscalerFlags) -> Replayed:
    inputs = _Inputs([], [], {})
    for source in discover(flags.paths).sources:
        if source.kind not in ("spark-events", "archive"):
            text = source_text(source)
            inputs.states += published_states(text) if SIGN in text else []
            if source.kind not in ("log", "prometheus"):
                inputs.add(text)
    if not inputs.states:
        raise FlowdiagError(
            "the inputs contain no autoscaler state",
            hint="kubectl get configmap autoscaler-NAME -o json, flowdiag collect k8s, or the operator's metrics",
        )
    known = {vertex.id for graph in inputs.graphs for vertex in graph}
    state = max(
        inputs.states,
        key=lambda state: (bool(known & {*state.vertices}), max(state.collected, default=0)),
    )
    graph = max(
        inputs.graphs, key=lambda found: sum(v.id in state.vertices for v in found), default=[]
    )
    if not any(vertex.id in state.vertices for vertex in graph):
        raise FlowdiagError(
            f"the inputs contain no job graph for the autoscaler of '{state.name}'",
            hint="save the response of /jobs/JOB of the REST API, and pass it as well",
        )
    recorded = settings_from(inputs.options)
    changed = override_settings(recorded, flags)
    outcomes = [_outcome(RECORDED, state, graph, recorded)]
    if changed != recorded:
        outcomes.append(_outcome(CHANGED, state, graph, changed))
    return Replayed(state=state, graph=graph, outcomes=outcomes)


def _outcome(name: str, state: State, graph: Sequence[Vertex], settings: Settings) -> Outcome:
    return Outcome(
        name=name,
        settings=settings,
        present=current_decision(state, graph, settings),
        steps=steps(state, graph, settings),
    )


_SHARES: Final = (
    "target_utilization",
    "utilization_boundary",
    "utilization_min",
    "utilization_max",
)


def override_settings(settings: Settings, flags: AutoscalerFlags) -> Settings:
    """Return the settings with the values of the command line.

    Raises:
        FlowdiagError: a value is out of range.
    """
    given: dict[str, Any] = {
        name: value
        for name in (
            *_SHARES,
            "max_scale_up",
            "max_scale_down",
            "min_parallelism",
            "max_parallelism",
        )
        if (value := getattr(flags, name)) is not None
    }
    for name in _SHARES:
        if not 0 <= given.get(name, 0) <= 1:
            raise FlowdiagError(f"--{name.replace('_', '-')} must be between 0 and 1")
    for name in ("min_parallelism", "max_parallelism"):
        if given.get(name, 1) < 1:
            raise FlowdiagError(f"--{name.replace('_', '-')} must be at least 1")
    for field, text, option in (
        ("catch_up_s", flags.catch_up, "--catch-up"),
        ("restart_s", flags.restart_time, "--restart-time"),
    ):
        if text is not None:
            given[field] = parse_duration_ms(text, option, below=1e12) / 1000
    return replace(settings, **given)


def _decode(text: str) -> Mapping[str, Any]:
    """Decode JSON, or YAML that contains an autoscaler's state. Any other text yields an empty mapping."""
    value: Any = None
    if text.lstrip()[:1] == "{":
        try:
            value = decode_json(text.encode())
        except ValueError:
            value = None
    elif "scalingHistory:" in text or "collectedMetrics:" in text:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import YAMLError

        try:
            value = YAML(typ="base", pure=True).load(text)
        except (YAMLError, RecursionError, ValueError):
            value = None
    return value if isinstance(value, Mapping) else {}


def _document(replayed: Replayed) -> str:
    names = {vertex.id: vertex.name for vertex in replayed.graph}
    document = {
        "schema": "flowdiag.autoscaler/1",
        "job": replayed.state.name,
        "outcomes": [
            {
                "name": outcome.name,
                "settings": msgspec.to_builtins(outcome.settings),
                "decision": None if outcome.present is None else outcome.present.reason,
                "vertices": _vertices(outcome.present, names),
                "scalings": [
                    {
                        "time_ms": step.scaling.at_ns // 1_000_000,
                        "recorded": step.scaling.after,
                        **_proposal(step.proposal, names, "scale"),
                    }
                    for step in outcome.steps
                ],
            }
            for outcome in replayed.outcomes
        ],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def _vertices(
    decision: Decision | None, names: Mapping[str, str | None]
) -> list[dict[str, object]]:
    if decision is None:
        return []
    return [_proposal(p, names, decision.reason) for p in decision.proposals.values()]


def _proposal(
    proposal: Proposal, names: Mapping[str, str | None], decision: str
) -> dict[str, object]:
    """Return the proposal for one vertex as JSON; infinite and unknown rates become null."""
    evaluated = proposal.evaluated
    return {
        "vertex_id": evaluated.vertex,
        "task": names.get(evaluated.vertex),
        "parallelism": evaluated.parallelism,
        "proposed": proposal.parallelism,
        "true_rate_per_s": evaluated.true_rate,
        "target_rate_per_s": evaluated.target_rate,
        "catch_up_rate_per_s": evaluated.catch_up_rate,
        "needed_per_s": proposal.capacity,
        "scale_up_below_per_s": evaluated.scale_up_below,
        "scale_down_above_per_s": evaluated.scale_down_above,
        "limits": list(proposal.limits),
        "reason": proposal.reason,
        "why": why(proposal, decision),
    }
