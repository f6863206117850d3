"""Arranges the remedies in a report: each appears once, and the first one comes with a command to check it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from flowdiag.analyses.contract.redact import clean
from flowdiag.analyses.contract.report import Action, Change, FirstAction
from flowdiag.analyses.knowledge.causes import checking_command
from flowdiag.analyses.model import finding as f

Pair = tuple[f.RuleOutcome, f.Finding]


def without_repeated_remedies(pairs: Iterable[Pair]) -> list[tuple[Pair, list[str]]]:
    """Remove repeated remedies, so that each stays only in the first finding that has it.

    Two values for one option of a job would contradict each other, so the value in the first finding stays.

    Returns:
        each finding with the codes of the earlier findings that contain its removed remedies.
    """
    first: dict[object, str] = {}
    found: list[tuple[Pair, list[str]]] = []
    for outcome, finding in pairs:
        kept: list[f.Action] = []
        elsewhere: dict[str, None] = {}
        mine: set[object] = set()
        for action in finding.actions:
            keys = [*_equality_keys(action, finding)]
            known = next((first[key] for key in keys if key in first), None)
            if known is not None:
                elsewhere[known] = None
            elif mine.isdisjoint(keys):
                kept.append(action)
                mine.update(keys)
        first.update(dict.fromkeys(mine, outcome.code))
        found.append(((outcome, replace(finding, actions=tuple(kept))), [*elsewhere]))
    return found


def _equality_keys(action: f.Action, finding: f.Finding) -> Iterator[object]:
    """Yield keys that equal remedies share: the text, the option with its value, or the option within one job."""
    yield action.text, action.option
    if action.option is not None and action.proposed is not None:
        yield action.option, action.proposed
        yield action.option, finding.job


def first_action(ranked: Sequence[Pair], command: str) -> FirstAction | None:
    """Return the first remedy of the finding that is closest to the root and has one.

    Args:
        ranked: the findings that count, closest to the root first.
        command: the command of the report.
    """
    for outcome, finding in ranked:
        if finding.actions:
            action = finding.actions[0]
            # All Spark causes have the same command, even if Flink has a cause of the same name.
            spark = outcome.code.startswith("RT")
            best = None if spark else checking_command(finding.cause)
            run = f"flowdiag {action.command or best or command} PATH…"
            return FirstAction(code=outcome.code, action=action_of(action), run=run)
    return None


def action_of(action: f.Action) -> Action:
    return Action(
        text=action.text,
        option=action.option,
        current=_value(action.current),
        current_from=_origin(action.current),
        proposed=action.proposed,
        unset=action.unset,
        measure=action.measure,
        together=[
            Change(
                option=change.option,
                current=_value(change.current),
                current_from=_origin(change.current),
                proposed=change.proposed,
            )
            for change in action.together
        ],
        risk=action.risk,
        restart_needed=action.restart_needed,
        verify=action.verify,
        command=action.command,
    )


def _value(present: f.CurrentValue | None) -> str | None:
    return clean(present.value) if present is not None else None


def _origin(present: f.CurrentValue | None) -> str | None:
    return present.origin.value if present is not None else None
