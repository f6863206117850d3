"""Limits that several rules of `flowdiag queues` share."""

from __future__ import annotations

from flowdiag.analyses.model.rule import Limits, limit


class TrendLimits(Limits):
    """Limits of rules about state that grows."""

    factor: float = limit(
        1.5, "ratio", "minimum growth factor of the state; load changes cause less growth"
    )
    tau: float = limit(
        0.8, "correlation", "minimum rank correlation with time: nine of ten pairs of samples rise"
    )
    linearity: float = limit(
        0.7,
        "ratio",
        "minimum ratio of the second half's growth to the first's; linear growth gives "
        "1, and a fixed set of keys soon gives less",
    )


class SourceLimits(Limits):
    """Limits of rules about sources that fall behind."""

    busy: float = limit(
        0.85, "share", "minimum busy time of the source; a source this busy cannot read faster"
    )
    delay: float = limit(
        10, "s", "minimum delay of the source; checkpoints, pauses and bursts cause shorter delays"
    )
