"""Checks that more input never makes an answer worse.

A chain of growing inputs of a recording (`tests/subsets.py`) is diagnosed step by step. Once an answer
is right, no later one may be wrong, silent, or less precise. CI tests a drawn sample of the recordings,
`.ci/full` several chains of each.
"""

from __future__ import annotations

import random
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import pytest

from .subsets import UNRELATED, Inputs, chain, grades, losses, pieces_of
from .windows import ENGINES, SCRIPTS, Run
from .windows import runs as runs_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CHAINS: Final = 3
"""Chains of each recording, in `.ci/full`."""
_SAMPLE: Final = {"flink": 1, "spark": 5}


def runs() -> tuple[Run, ...]:
    """Return all recordings, including those of scripts."""
    return runs_of((*ENGINES, *SCRIPTS))


def _sampled() -> set[tuple[str, int]]:
    """Return recordings with the number of a chain, drawn with a fixed seed."""
    dice = random.Random("more input")
    return {
        (run.name, dice.randrange(CHAINS))
        for engine, count in _SAMPLE.items()
        for run in dice.sample([run for run in runs() if run.engine == engine], count)
    }


def _chains() -> list[Any]:
    often = _sampled()
    return [
        pytest.param(
            run,
            number,
            id=f"{number}-{run.name}",
            marks=() if (run.name, number) in often else [pytest.mark.full],
        )
        for run in runs()
        for number in range(CHAINS)
    ]


@pytest.mark.spark
@pytest.mark.parametrize(("run", "number"), _chains())
def test_more_input_never_makes_the_answer_worse(
    run: Run, number: int, spark: SparkSession
) -> None:
    assert [*losses(grades(chain(run, number), spark))] == []


@pytest.mark.parametrize("name", ["flink/1.20.5/hot-key", "spark/4.3.0/receiver-restarts"])
def test_a_chain_grows_up_to_all_pieces(name: str) -> None:
    run = next(run for run in runs() if run.name == name)
    for number in range(20):
        sets = chain(run, number)
        assert sets == chain(run, number)
        for small, large in pairwise(sets):
            assert small.pieces <= large.pieces and small.until <= large.until
            assert set(small.unrelated) <= set(large.unrelated)
            assert small != large
        assert sets[-1].pieces == frozenset(pieces_of(run)) and sets[-1].unrelated
        assert set(sets[-1].unrelated) <= set(UNRELATED)


@pytest.mark.parametrize(
    ("words", "lost"),
    [
        (["right", "right"], 0),
        (["silent", "inconclusive", "less precise", "right"], 0),
        (["wrong", "right", "right"], 0),
        (["right", "less precise"], 1),
        (["inconclusive", "silent"], 0),
        (["right", "inconclusive", "right", "silent", "wrong"], 3),
        (["less precise", "wrong"], 1),
    ],
)
def test_a_loss_is_a_step_down_from_a_useful_answer(words: list[str], lost: int) -> None:
    inputs = Inputs(runs()[0], frozenset())
    assert len([*losses([(inputs, word) for word in words])]) == lost
