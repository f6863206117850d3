"""Joins two recordings into one job: each culprit is named for its own period."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

import pytest

from flowdiag.analyses.checkpoints.culprit import episode_culprits
from flowdiag.analyses.flink.job import JobFacts
from flowdiag.analyses.flink.suspects.case import Suspect

from .composed import one_after_the_other
from .measured import FLINK, Recorded
from .recordings import recordings

SICK = (
    "hot-key",
    "hang",
    "slow-sink",
    "slow-taskmanager",
    "slow-async-snapshot",
    "slow-sync-snapshot",
)
ALL = {each.name: each for each in recordings()}
PAIRS = [
    (f"{version}/{recording}", f"{version}/{other}")
    for version in ("1.20.5", "2.3.0")
    for recording in SICK
    for other in SICK
    if recording != other and {f"{version}/{recording}", f"{version}/{other}"} <= ALL.keys()
]
UNEVEN = ("2.3.0/hot-key", "2.3.0/slow-sink", False)
ALWAYS_RUN = ("1.20.5/hot-key", "1.20.5/slow-sync-snapshot")

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("healed", [True, False], ids=["healed", "at-once"])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(*pair, marks=() if pair == ALWAYS_RUN else pytest.mark.full, id="+".join(pair))
        for pair in PAIRS
    ],
)
def test_each_culprit_is_named_for_its_own_period(
    first: str, second: str, healed: bool, recorded: Callable[..., Recorded]
) -> None:
    jobs = [
        recorded(ALL[name].files, topics=FLINK).facts("checkpoints").jobs[0]
        for name in (first, second)
    ]
    alone = [named(job)[-1] for job in jobs]
    if alone[0] == alone[1]:
        pytest.skip("the fault sits in the same place in both")
    if (first, second, healed) == UNEVEN:
        pytest.xfail(
            "one sink has a minute of metrics less, because its rows begin before the failures"
        )
    (together,) = one_after_the_other(*jobs, healed=healed).jobs
    assert [who for who, _ in groupby(named(together))] == alone


def named(job: JobFacts) -> list[Suspect | None]:
    """Return the culprit of each period, in order."""
    return [a.culprit.suspect if a.culprit else None for a in episode_culprits(job)]
