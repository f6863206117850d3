"""The output of `flowdiag simulate autoscaler`: the current decision, and every recorded scaling."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from rich.console import RenderableType
from rich.text import Text

from flowdiag.analyses.flink.autoscaler.formula import Proposal
from flowdiag.analyses.flink.autoscaler.replay import Outcome, Replayed, Step, why
from flowdiag.analyses.model import fmt
from flowdiag.cli.output.writing import stdout_page
from flowdiag.cli.text.grid import Column, Listing, render_blocks

_DECISIONS: Final = {
    "scale": "the autoscaler scales the job",
    "balanced": "no task needs a different parallelism",
    "within-bounds": "no change: all rates are within the utilization bounds",
    "memory-pressure": "no change: heap usage or garbage collection is above its threshold",
}
NO_WINDOW: Final = "no decision: fewer than two samples of every task"


def page_of(replayed: Replayed) -> str:
    """Format the outcomes for a terminal."""
    page = stdout_page()
    names = {vertex.id: fmt.shorten(vertex.name or vertex.id, 40) for vertex in replayed.graph}
    blocks: list[RenderableType] = [Text(f"autoscaler of {replayed.state.name}")]
    for outcome in replayed.outcomes:
        blocks += _outcome_blocks(outcome, names)
    recorded = replayed.outcomes[0].steps
    if recorded:
        equal = sum(step.is_equal for step in recorded)
        text = f"the replay matches {equal} of {fmt.plural(len(recorded), 'recorded scaling')}"
        blocks.append(Text(text, "dim" if equal == len(recorded) else "yellow"))
        if equal < len(recorded):
            blocks.append(
                Text("pass the job's configuration so that the replay uses its settings", "yellow")
            )
    return render_blocks(blocks, page)


def _outcome_blocks(outcome: Outcome, names: dict[str, str]) -> list[RenderableType]:
    present = outcome.present
    text = NO_WINDOW if present is None else _DECISIONS[present.reason]
    blocks: list[RenderableType] = [
        Text(f"{outcome.name} (utilization {outcome.settings.target_utilization}): {text}")
    ]
    if present is not None and present.proposals:
        blocks.append(_proposals(list(present.proposals.values()), names, present.reason))
    if outcome.steps:
        blocks.append(_steps(outcome.steps, names))
    return blocks


def _proposals(
    proposals: Sequence[Proposal], names: dict[str, str], decision: str
) -> RenderableType:
    return Listing(
        proposals,
        Column("task", lambda p: names.get(p.evaluated.vertex, p.evaluated.vertex), "wrap"),
        Column(
            "parallelism", lambda p: _change(p.evaluated.parallelism, p.parallelism), "right-wrap"
        ),
        Column("target rate", lambda p: _rate(p.evaluated.target_rate), "right-wrap"),
        Column("catch-up", lambda p: _rate(p.evaluated.catch_up_rate), "right-wrap"),
        Column("why", lambda p: why(p, decision), "wrap"),
    )


def _steps(steps: Sequence[Step], names: dict[str, str]) -> RenderableType:
    return Listing(
        steps,
        Column("scaling at", lambda s: _time(s.scaling.at_ns), "wrap"),
        Column("task", lambda s: names.get(s.scaling.vertex, s.scaling.vertex), "wrap"),
        Column("recorded", lambda s: _change(s.scaling.before, s.scaling.after), "right-wrap"),
        Column(
            "replayed", lambda s: _change(s.scaling.before, s.proposal.parallelism), "right-wrap"
        ),
        Column("why", lambda s: why(s.proposal), "wrap"),
    )


def _change(before: int, after: int) -> str:
    return str(before) if before == after else f"{before} → {after}"


def _rate(value: float) -> str:
    return f"{fmt.number(round(value, 1))}/s" if abs(value) < 1e15 else "?"


def _time(at_ns: int) -> str:
    return datetime.fromtimestamp(at_ns // 1_000_000_000, UTC).strftime("%Y-%m-%d %H:%M:%S")
