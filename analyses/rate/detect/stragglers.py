"""Compares the slowest task of a stage with its other tasks."""

from __future__ import annotations

from collections import Counter
from statistics import median
from typing import NamedTuple

from flowdiag.analyses.rate import helpers as h


class Straggler(NamedTuple):
    """The slowest task of several stages.

    Args:
        ratio: its duration divided by the mean of the other tasks, median over the stages.
        longest_ms: its median duration.
        partition: its partition number, if it is the same in most stages.
        skewed: whether its amount of data explains the duration.
        counted: whether the stages contain record counts.
        share: its median share of the records of a stage.
        state_share: its median share of the rows in the state, if they explain the duration.
        last: the last stage.
    """

    ratio: float
    longest_ms: float
    partition: int | None
    skewed: bool
    counted: bool
    share: float | None
    state_share: float | None
    last: h.StageLoad


def straggler_of(stages: list[h.StageLoad], *, more: float, same: float) -> Straggler:
    """Return the slowest task of the stages; `more` and `same` are limits of RT303."""
    verdicts = [verdict for stage in stages if (verdict := is_skewed(stage, more)) is not None]
    index, times = Counter(stage.index for stage in stages).most_common(1)[0]
    partition = index if times >= same * len(stages) else None
    skew = sum(verdicts) >= len(verdicts) / 2 if verdicts else partition is not None
    shares = [stage.slowest_records / stage.records for stage in stages if stage.records]
    return Straggler(
        ratio=median(stage.longest_ms / max(stage.others_ms or 1.0, 1.0) for stage in stages),
        longest_ms=median(stage.longest_ms for stage in stages),
        partition=partition,
        skewed=skew,
        counted=bool(verdicts),
        share=median(shares) if verdicts else None,
        state_share=_state_share(stages, more),
        last=stages[-1],
    )


def waits_for_task(
    duration_ms: int, stage: h.StageLoad, *, ratio: float, floor: float, part: float
) -> bool:
    """Return whether the duration of a batch depends on a single task of its longest stage."""
    others_ms = stage.others_ms
    return others_ms is not None and stage.longest_ms >= max(
        ratio * others_ms, floor + others_ms, part * duration_ms
    )


def is_skewed(stage: h.StageLoad, more: float = 2.0) -> bool | None:
    """Return whether the slowest task read at least `more` times the others' records, or None without counts."""
    others = stage.others_records
    if others is None or not stage.records:
        return None
    return stage.slowest_records >= more * max(others, 1.0)


def _state_share(stages: list[h.StageLoad], more: float) -> float | None:
    """Return the slowest task's median share of the state, or None if its state does not explain the duration.

    In at least half of the stages, it has `more` times the rows of the others.
    """
    shares = [
        stage.largest_state / stage.state_rows
        for stage in stages
        if stage.others_state is not None
        and stage.largest_state >= max(more * stage.others_state, 1.0)
    ]
    return median(shares) if shares and len(shares) >= len(stages) / 2 else None


def task_subject(flow: h.Flow, stage: h.StageLoad, partition: int | None) -> h.Subject:
    return h.Subject(
        kind="task",
        job_name=flow.subject.job_name,
        application=flow.subject.application,
        query=flow.subject.query,
        stage=stage.stage,
        subtask_index=partition,
        parallelism=None if partition is None else stage.tasks,
        executor=stage.executor,
        host=stage.host,
    )
